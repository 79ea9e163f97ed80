"""Builds the API out of its routes."""

from fastapi import Depends, FastAPI

from retrier.api.doorway import Doorway
from retrier.api.openapi import DescribedApi
from retrier.api.parts import ApiParts
from retrier.api.places import take_place
from retrier.api.problems import add_handlers
from retrier.api.routes import WATCHING, WORKING

__all__ = ["ApiParts", "create_api"]

_BUSY = {"description": "too slow, too many at once, or no database; with Retry-After"}


def create_api(parts: ApiParts, *, whole: bool = True) -> FastAPI:
    """Return the ASGI application. It opens nothing and starts nothing.

    What is not the whole of it tells health and metrics only.
    """
    api = DescribedApi(
        title="Retrier",
        version=parts.version,
        redirect_slashes=False,
        # FastAPI's pages load their scripts from a host that is not ours.
        docs_url=None,
        redoc_url=None,
    )
    api.state.parts = parts
    add_handlers(api)
    api.add_middleware(Doorway, hosts=parts.hosts)
    for router in WATCHING:
        api.include_router(router)
    for router in WORKING if whole else ():
        # A place is free again before the answer is sent: a slow client holds none.
        place = Depends(take_place, scope="function")
        api.include_router(router, dependencies=[place], responses={503: _BUSY})
    return api

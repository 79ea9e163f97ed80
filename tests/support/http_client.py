"""The HTTP client of the tests, talking to an API in the same process."""

import atexit
import warnings
from contextlib import ExitStack
from functools import cache
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.exceptions import StarletteDeprecationWarning
from starlette.types import ASGIApp

with warnings.catch_warnings():
    # It would rather have another client library; which one it uses makes no difference here.
    warnings.simplefilter("ignore", StarletteDeprecationWarning)
    from starlette.testclient import TestClient as StarletteClient

__all__ = ["URL", "TestClient", "client_of"]

URL = "http://localhost"


class TestClient(StarletteClient):
    """A client whose requests share an event loop: each its own would take longer than most requests."""

    def __init__(self, api: ASGIApp, **options: Any) -> None:
        super().__init__(api, **options)
        self.portal = open_portal()


@cache
def open_portal() -> BlockingPortal:
    """Start an event loop in a thread; it ends with the process."""
    ending = ExitStack()
    atexit.register(ending.close)
    return ending.enter_context(start_blocking_portal())


def client_of(api: ASGIApp) -> TestClient:
    """Return a client that follows no redirect and sees an unexpected error as its answer."""
    return TestClient(api, base_url=URL, raise_server_exceptions=False, follow_redirects=False)

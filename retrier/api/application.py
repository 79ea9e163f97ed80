"""Builds the API out of its routes, one module per noun."""

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Scope

from retrier.api import (
    approvals,
    archive,
    breakers,
    configuration,
    edits,
    events,
    groups,
    imports,
    message_views,
    messages,
    operations,
    platform,
    policies,
    recovery,
    redirects,
    retries,
    search,
    service,
    streams,
    tokens,
    views,
)
from retrier.api.answers import Routes, add_handlers
from retrier.api.middleware import (
    RequestMiddleware,
    TellsRefusals,
    refuse_members_that_stand_twice,
    refuse_strays,
)
from retrier.api.origins import METHODS
from retrier.api.parts import ApiParts, take_place
from retrier.api.shapes import Problem
from retrier.api.shapes.messages import FAILED_MESSAGE, GROUP
from retrier.api.shapes.operations import ASKED, OPERATION
from retrier.domain.access import Right
from retrier.http.access import find_access
from retrier.http.rights import right_for

WATCHING = (service.watching,)
"""Routes of every process, whatever its roles."""

FOLLOWING = (events.following,)
"""Routes that do not end: each has a place of its own (`LiveFeed`)."""

ANONYMOUS = (configuration.authentication,)
"""Routes that say how to log in: whoever has not yet asks them."""

WORKING = (
    message_views.router,
    groups.archived_router,
    messages.router,
    archive.dead_router,
    messages.history_router,
    retries.router,
    archive.router,
    archive.operations_router,
    retries.pending,
    recovery.router,
    imports.router,
    redirects.router,
    breakers.router,
    groups.router,
    groups.comments_router,
    groups.history_router,
    operations.requests_router,
    operations.router,
    events.router,
    operations.steering_router,
    approvals.router,
    policies.router,
    streams.router,
    views.router,
    search.router,
    tokens.router,
    configuration.router,
    edits.router,
    platform.router,
    service.router,
)
"""Routes that use the database. Each request needs a place (`take_place`).

If two match a path, the more specific one is listed first.
"""

Document = dict[str, Any]

_SUCCESS = frozenset({"200", "202"})
_HARMLESS = frozenset({"get", "head"})
_MODELS = "#/components/schemas/"
_PROBLEM = {"application/problem+json": {"schema": {"$ref": f"{_MODELS}Problem"}}}
_TEXT = {"type": "string"}
_MEANINGS: Mapping[int, str] = MappingProxyType(
    {
        400: "A value that is not allowed",
        401: "Nobody says who they are, where the settings ask for it; or a token is not known",
        403: "A browser sends this for a page of another origin; or who asks has no right to it",
        404: "No such id or address",
        409: "The state of the message, another redirect, another plan, a recovery that is over, or the broker's answer forbids it",
        413: "The body is too large",
        421: "The Host header names no host of this API",
        429: "Too many wrong tokens came from this address; with Retry-After",
        422: "A body of the wrong shape, or an Idempotency-Key of another request",
        503: "No answer is possible now: database or broker cannot be reached; with Retry-After",
    }
)
_CONFLICTS = frozenset(
    {
        ("post", "/api/recovery/retry"),
        ("post", "/api/recovery/retry/preview"),
        ("post", "/api/archive_operations"),
        ("post", "/api/archive_operations/{archive_operation_id}/undo"),
        ("post", "/api/pendingretries/retry/all"),
        ("patch", "/api/pendingretries/resolve/all"),
        ("post", "/api/imports/retry"),
        ("post", "/api/streams/{stream_id}/release"),
        ("post", "/api/errors/{failed_message_id}/archive"),
        ("post", "/api/errors/{failed_message_id}/dead"),
        ("post", "/api/errors/{failed_message_id}/revive"),
        ("patch", "/api/errors/{failed_message_id}/archive"),
        ("post", "/api/imports/{import_id}/retry"),
        ("post", "/api/imports/{import_id}/send"),
        ("delete", "/api/imports/{import_id}"),
        ("post", "/api/operations"),
        ("patch", "/api/operations/{operation_id}"),
        ("delete", "/api/operations/{operation_id}"),
        ("post", "/api/operations/{operation_id}/approve"),
        ("post", "/api/operations/{operation_id}/refuse"),
        ("post", "/api/redirects"),
        ("post", "/api/tokens"),
        ("delete", "/api/tokens/{name}"),
        ("put", "/api/redirects/{redirect_id}"),
        ("put", "/api/views/{name}"),
    }
)
_OWN: Mapping[tuple[str, str, str], Document] = MappingProxyType(
    {
        ("/api/messages/{message_id}/body", "get", "204"): {"description": "The body is empty"},
        ("/api/imports/{import_id}/body", "get", "204"): {"description": "The body is empty"},
        ("/api/recoverability/groups/{group_id}/comment", "post", "422"): {
            "description": "A comment that is empty or too long",
            "content": _PROBLEM,
        },
        ("/api/redirects", "post", "201"): {"description": "The redirect is created"},
        ("/api/events", "get", "200"): {
            "description": "Server-sent events: the answer does not end",
            "content": {"text/event-stream": {"schema": _TEXT}},
        },
        ("/metrics", "get", "200"): {
            "description": "In Prometheus' text format, or as OpenMetrics",
            "content": {"text/plain": {"schema": _TEXT}, "*/*": {}},
        },
        ("/health/ready", "get", "503"): {
            "description": "A part does not work",
            "content": {"application/json": {"schema": {"$ref": f"{_MODELS}Readiness"}}},
        },
    }
)
"""Answers of one route: path, method and status."""


_EXAMPLES: Mapping[str, object] = MappingProxyType(
    {
        "get_errors": [FAILED_MESSAGE],
        "get_last_attempt": FAILED_MESSAGE,
        "get_groups": [GROUP],
        "get_groups_by_classifier": [GROUP],
        "create_operation": ASKED,
        "retry_messages": ASKED,
        "get_operation": OPERATION,
    }
)
"""What is answered, by the name of the operation: of those that clients use first."""


class DescribedApi(FastAPI):
    """An application whose OpenAPI document names every status that a client can get."""

    def openapi(self) -> Document:
        """Return the document; it is made once, with all that only a description needs."""
        if self.openapi_schema is None:
            document = get_openapi(
                title=self.title,
                version=self.version,
                openapi_version=self.openapi_version,
                license_info=self.license_info,
                routes=routes_of_api(whole=True, described=True),
                servers=self.servers,
            )
            _complete(document)
            self.openapi_schema = document
        return self.openapi_schema

    def build_middleware_stack(self) -> ASGIApp:
        """Return all of it, with ours around the answer to an error that nobody expected, too."""
        parts: ApiParts = self.state.parts
        within = RequestMiddleware(super().build_middleware_stack(), parts.callers, self.methods_of)
        return TellsRefusals(within, parts.emit)

    def methods_of(self, scope: Scope) -> list[str]:
        """Return the methods that an address has; OPTIONS is one of each that has another."""
        found = [method for method in METHODS if self._has({**scope, "method": method})]
        return [*found, "OPTIONS"] if found else []

    def _has(self, scope: Scope) -> bool:
        return any(route.matches(scope)[0] is Match.FULL for route in self.router.routes)


def name_operation(route: APIRoute) -> str:
    """Name an operation as its function; HEAD beside GET counts what GET lists."""
    if route.methods == {"HEAD"}:
        return f"count_{route.name.removeprefix('get_').removeprefix('count_')}"
    return route.name


def _complete(document: Document) -> None:
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    # FastAPI's own schema of a 422 is removed: that form is never sent.
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    problem = TypeAdapter(Problem).json_schema(ref_template=f"{_MODELS}{{model}}")
    schemas |= {**problem.pop("$defs"), "Problem": problem}
    # FastAPI titles each member by its own name, which tells nothing.
    for schema in schemas.values():
        for member in schema.get("properties", {}).values():
            member.pop("title", None)
    # Asked for only where the settings have a section `access`.
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{}, {"token": []}]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            _complete_operation(path, method, operation)


def _complete_operation(path: str, method: str, operation: Document) -> None:
    for parameter in operation.get("parameters", ()):
        schema = parameter["schema"]
        schema.pop("title", None)
        if schema.get("default") == "":
            # An empty text is the same as none.
            del schema["default"]
    responses: Document = operation["responses"]
    responses.pop("422", None)
    for status in _refusals(path, method, operation):
        responses[str(status)] = {"description": _MEANINGS[status], "content": _PROBLEM}
    example = _EXAMPLES.get(operation["operationId"])
    if example is not None:
        for success in responses.keys() & _SUCCESS:
            responses[success]["content"]["application/json"]["example"] = example
    own = {key[2]: shown for key, shown in _OWN.items() if key[:2] == (path, method)}
    responses.update(own)
    if method == "head":
        for shown in responses.values():
            shown.pop("content", None)


def _refusals(path: str, method: str, operation: Document) -> Iterator[int]:
    """Yield the statuses other than success with which a request may be answered.

    Without 304: who sends no If-None-Match never gets it, and who generates a client from it would
    have to expect an answer without content in each call.
    """
    yield from (400, 421)
    is_anonymous = path == "/api/authentication/configuration"
    if path.startswith("/api"):
        yield from (503,) if is_anonymous else (401, 403, 429, 503)
    if "{" in path or "404" in operation["responses"]:
        yield 404
    if path == "/metrics":
        yield 401
    if method not in _HARMLESS:
        yield 413
    has_key = method not in _HARMLESS and (
        "/retry" in path or "archive" in path or "/revive" in path
    )
    if "requestBody" in operation or has_key:
        yield 422
    if (method, path) in _CONFLICTS:
        yield 409


@cache
def rights_of_routes() -> Mapping[tuple[str, str], Right]:
    """Return the right that each route takes, by its method and its path."""
    return {
        (method, each.path_format): right_for(each.endpoint, method)
        for router in (*WATCHING, *FOLLOWING, *ANONYMOUS, *WORKING)
        for each in router.routes
        if isinstance(each, APIRoute)
        for method in each.methods or ()
    }


_BUSY = {"description": "too slow, too many at once, or no database; with Retry-After"}


@cache
def routes_of_api(*, whole: bool, described: bool = False) -> tuple[BaseRoute, ...]:
    """Return the routes; without `whole` those of health and metrics only.

    With `described` as OpenAPI describes them, which answer nothing: see `Routes`.

    The same ones for all applications of a process: FastAPI examines each at length when the first
    request comes. What they work with they find in the application that is asked.
    """
    together = APIRouter(generate_unique_id_function=name_operation)

    def include(router: Routes, **more: Any) -> None:
        together.include_router(router.described() if described else router, **more)

    for router in WATCHING:
        include(router)
    known = Depends(find_access)
    for router in FOLLOWING if whole else ():
        include(router, dependencies=[known, Depends(refuse_strays)])
    for router in ANONYMOUS if whole else ():
        include(router, dependencies=[Depends(refuse_strays)])
    for router in WORKING if whole else ():
        # Scope "function" frees the place before the answer is sent: a slow client holds none.
        place = Depends(take_place, scope="function")
        clear = [known, Depends(refuse_strays), Depends(refuse_members_that_stand_twice)]
        include(router, dependencies=[*clear, place], responses={503: _BUSY})
    return tuple(together.routes)


def create_api(parts: ApiParts, *, whole: bool = True) -> FastAPI:
    """Return the ASGI application. It opens nothing and starts nothing.

    Without `whole` it has the routes of health and metrics only.
    """
    api = DescribedApi(
        title="Retrier",
        version=parts.version,
        license_info={"name": "MIT", "identifier": "MIT"},
        servers=[{"url": "/"}],
        generate_unique_id_function=name_operation,
        redirect_slashes=False,
        openapi_url="/openapi.json" if whole else None,
        # Off: FastAPI's documentation pages load scripts from the host of a third party.
        docs_url=None,
        redoc_url=None,
    )
    api.state.parts = parts
    api.state.rights = rights_of_routes()
    add_handlers(api)
    api.router.routes.extend(routes_of_api(whole=whole))
    return api


__all__ = ["ApiParts", "create_api"]

"""Builds the API out of its routes, one module per noun."""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from fastapi import Depends, FastAPI
from starlette.routing import Match
from starlette.types import ASGIApp, Scope

from retrier.api import (
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
    service,
    streams,
    views,
)
from retrier.api.answers import add_handlers
from retrier.api.middleware import RequestMiddleware, refuse_members_that_stand_twice, refuse_strays
from retrier.api.origins import METHODS
from retrier.api.parts import ApiParts, take_place

WATCHING = (service.watching,)
"""Routes of every process, whatever its roles."""

FOLLOWING = (events.following,)
"""Routes that do not end: each has a place of its own (`LiveFeed`)."""

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
    policies.router,
    streams.router,
    views.router,
    configuration.router,
    edits.router,
    platform.router,
    service.router,
)
"""Routes that use the database. Each request needs a place (`take_place`).

If two match a path, the more specific one is listed first.
"""

Document = dict[str, Any]

_HARMLESS = frozenset({"get", "head"})
_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_TEXT = {"type": "string"}
_ERROR = {
    "type": "object",
    "required": ["field", "reason"],
    "properties": {"field": _TEXT, "reason": _TEXT},
}
_PROBLEM_SCHEMA = {
    "title": "Problem",
    "description": "A refusal or a failure (RFC 9457): `advice` says what to do.",
    "type": "object",
    "required": ["type", "title", "status", "detail", "advice"],
    "properties": {
        **dict.fromkeys(("type", "title", "detail", "advice"), _TEXT),
        "status": {"type": "integer"},
        "errors": {"type": "array", "items": _ERROR},
    },
}
_MEANINGS: Mapping[int, str] = MappingProxyType(
    {
        304: "Unchanged: If-None-Match names the ETag of the answer",
        400: "A value that is not allowed",
        403: "A browser sends this for a page of another origin",
        404: "No such id or address",
        409: "The state of the message, another redirect, another plan, a recovery that is over, or the broker's answer forbids it",
        413: "The body is too large",
        421: "The Host header names no host of this API",
        422: "A body of the wrong shape, or an Idempotency-Key of another request",
        503: "No answer is possible now: database or broker cannot be reached; with Retry-After",
    }
)
_CONFLICTS = frozenset(
    {
        ("post", "/api/recovery/retry"),
        ("post", "/api/recovery/retry/preview"),
        ("post", "/api/archive_operations/{archive_operation_id}/undo"),
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
        ("post", "/api/redirects"),
        ("put", "/api/redirects/{redirect_id}"),
        ("put", "/api/views/{name}"),
    }
)
_BYTES: Document = {"*/*": {}}
_OWN: Mapping[tuple[str, str, str], Document] = MappingProxyType(
    {
        ("/api/messages/{message_id}/body", "get", "200"): {
            "description": "The body as it was received, with the content type of its sender",
            "content": _BYTES,
        },
        ("/api/messages/{message_id}/body", "get", "204"): {"description": "The body is empty"},
        ("/api/imports/{import_id}/body", "get", "200"): {
            "description": "The body as it came",
            "content": _BYTES,
        },
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
            "content": _BYTES,
        },
        ("/health/ready", "get", "503"): {
            "description": "A part does not work",
            "content": {"application/json": {"schema": {}}},
        },
    }
)
"""Answers of one route: path, method and status."""


class DescribedApi(FastAPI):
    """An application whose OpenAPI document names every status that a client can get."""

    def openapi(self) -> Document:
        """Return the document; it is made once."""
        if self.openapi_schema is None:
            _complete(super().openapi())
        return self.openapi_schema or {}

    def build_middleware_stack(self) -> ASGIApp:
        """Return all of it, with ours around the answer to an error that nobody expected, too."""
        parts: ApiParts = self.state.parts
        return RequestMiddleware(super().build_middleware_stack(), parts.callers, self.methods_of)

    def methods_of(self, scope: Scope) -> list[str]:
        """Return the methods that an address has; OPTIONS is one of each that has another."""
        found = [method for method in METHODS if self._has({**scope, "method": method})]
        return [*found, "OPTIONS"] if found else []

    def _has(self, scope: Scope) -> bool:
        return any(route.matches(scope)[0] is Match.FULL for route in self.router.routes)


def _complete(document: Document) -> None:
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    # FastAPI's own schema of a 422 is removed: that form is never sent.
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = _PROBLEM_SCHEMA
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            _complete_operation(path, method, operation)


def _complete_operation(path: str, method: str, operation: Document) -> None:
    responses: Document = operation["responses"]
    responses.pop("422", None)
    for status in _refusals(path, method, operation):
        content = {} if status == HTTPStatus.NOT_MODIFIED else {"content": _PROBLEM}
        responses[str(status)] = {"description": _MEANINGS[status], **content}
    own = {key[2]: shown for key, shown in _OWN.items() if key[:2] == (path, method)}
    responses.update(own)
    if method == "head":
        for shown in responses.values():
            shown.pop("content", None)


def _refusals(path: str, method: str, operation: Document) -> Iterator[int]:
    """Yield the statuses other than success with which a request may be answered."""
    yield from (400, 421)
    if path.startswith("/api"):
        yield 503
    if path.startswith("/api") and method in _HARMLESS and path != "/api/events":
        yield 304
    if "{" in path or "404" in operation["responses"]:
        yield 404
    if method not in _HARMLESS:
        yield from (403, 413)
    has_key = method not in _HARMLESS and (
        "/retry" in path or "archive" in path or "/revive" in path
    )
    if "requestBody" in operation or has_key:
        yield 422
    if (method, path) in _CONFLICTS:
        yield 409


_BUSY = {"description": "too slow, too many at once, or no database; with Retry-After"}


def create_api(parts: ApiParts, *, whole: bool = True) -> FastAPI:
    """Return the ASGI application. It opens nothing and starts nothing.

    Without `whole` it has the routes of health and metrics only.
    """
    api = DescribedApi(
        title="Retrier",
        version=parts.version,
        redirect_slashes=False,
        # Off: FastAPI's documentation pages load scripts from the host of a third party.
        docs_url=None,
        redoc_url=None,
    )
    api.state.parts = parts
    add_handlers(api)
    for router in WATCHING:
        api.include_router(router)
    for router in FOLLOWING if whole else ():
        api.include_router(router, dependencies=[Depends(refuse_strays)])
    for router in WORKING if whole else ():
        # Scope "function" frees the place before the answer is sent: a slow client holds none.
        place = Depends(take_place, scope="function")
        clear = [Depends(refuse_strays), Depends(refuse_members_that_stand_twice)]
        api.include_router(router, dependencies=[*clear, place], responses={503: _BUSY})
    return api


__all__ = ["ApiParts", "create_api"]

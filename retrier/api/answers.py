"""Answers: JSON with its ETag, 304 for unchanged content, a short cache; and problems.

`detail` says what is wrong, `advice` what to do. Neither holds a stack trace, a path or the input.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from hashlib import sha256
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints, overload

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel

from retrier.domain.fields import PREFIX
from retrier.domain.parameters import nearest
from retrier.http import problems
from retrier.http.problems import RETRY_AFTER, Problem

SERVICECONTROL_VERSION = "6.19.2"
"""The ServiceControl version whose API this is; its clients choose their features by it."""

HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "X-Particular-Version": SERVICECONTROL_VERSION,
        "Cache-Control": "private, max-age=0",
        "Vary": "Accept",
        "X-Content-Type-Options": "nosniff",
    }
)
TOTAL_COUNT = "Total-Count"


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
M = TypeVar("M", bound=Mapping[str, object])


class Answer(Response, Generic[T_co]):
    """An answer with JSON of this shape, or with these bytes.

    A route says in its own types which it gives. Its code is checked against that, and OpenAPI is
    made of it (`Routes`).
    """


class Refusal(Response):
    """An answer with a problem."""


_BYTES = {
    # Named first for clients that are generated: they know what to do with it.
    "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
    "*/*": {},
}


class Routes(APIRouter):
    """The routes of one noun: OpenAPI describes their answers by the types of their functions.

    `-> Answer[list[FailedMessage]] | Refusal` is all that a route says. Nothing is looked at when it
    answers; so the shapes are read when the description is asked for: at each start that would take
    a tenth of the time.
    """

    def __init__(self, *, prefix: str = "", tags: Sequence[str] = ()) -> None:
        super().__init__(prefix=prefix, tags=[*tags])
        self._told: list[tuple[str, Callable[..., Any], dict[str, Any]]] = []

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **more: Any) -> None:
        """Add a route, and remember it for the description."""
        self._told.append((path, endpoint, more))
        super().add_api_route(path, endpoint, **{**more, "response_model": None})

    def described(self) -> APIRouter:
        """Return the same routes as OpenAPI is to describe them: with what they answer."""
        router = APIRouter(prefix=self.prefix, tags=self.tags)
        for path, endpoint, told in self._told:
            shape, more = _shape_of(endpoint), {**told}
            if shape is None or shape is bytes:
                more["response_class"] = Response
            if shape is bytes:
                more["responses"] = {200: {"content": _BYTES}} | (more.get("responses") or {})
            more["response_model"] = None if shape is bytes else shape
            router.add_api_route(path, endpoint, **more)
        return router


def _shape_of(endpoint: Callable[..., Any]) -> Any:
    """Return what a function gives in its `Answer`; None if it gives no content."""
    returned = get_type_hints(endpoint, include_extras=True)["return"]
    for each in (returned, *get_args(returned)):
        if get_origin(each) is Answer:
            return get_args(each)[0]
    return None


def answer(request: Request, content: T, headers: Mapping[str, str] | None = None) -> Answer[T]:
    """Answer 200 with JSON, or 304 if the client has exactly this.

    The ETag is the hash of the content, so every change of the content changes it.
    """
    own = headers or {}
    body = encode(content)
    etag = sha256(body + own.get(TOTAL_COUNT, "").encode()).hexdigest()[:32]
    return revalidated(request, body, etag, {"Content-Type": "application/json", **own})


def revalidated(
    request: Request, body: bytes, etag: str, headers: Mapping[str, str]
) -> Answer[Any]:
    """Answer 200 with the body, or 304 without it if the client's If-None-Match names the ETag.

    What the body holds is for the caller to say.
    """
    quoted = f'"{etag}"'
    own = {**HEADERS, "ETag": quoted, **headers}
    known = request.headers.get("if-none-match", "")
    if quoted in known.replace("W/", "").replace(" ", "").split(",") or known.strip() == "*":
        own.pop("Content-Type")
        return Answer(status_code=304, headers=own)
    if request.method == "HEAD":
        return Answer(headers={**own, "Content-Length": str(len(body))})
    return Answer(body, headers=own)


def told(content: T, status: int = 200) -> Answer[T]:
    """Answer 200 with JSON that no client keeps: what a POST found out, or made."""
    own = {**HEADERS, "Content-Type": "application/json", "Cache-Control": "no-store"}
    return Answer(encode(content), status_code=status, headers=own)


def accepted(content: T, location: str | None = None) -> Answer[T]:
    """Answer 202: the request is stored durably, and `location` shows its progress."""
    own = {**HEADERS, "Content-Type": "application/json"}
    own |= {"Location": location} if location else {}
    return Answer(encode(content), status_code=202, headers=own)


def encode(content: object) -> bytes:
    """Encode as JSON in UTF-8."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


@overload
def time(moment: datetime) -> str: ...
@overload
def time(moment: datetime | None) -> str | None: ...
def time(moment: datetime | None) -> str | None:
    """Show a moment in ISO 8601, in UTC, with a Z."""
    if moment is None:
        return None
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def present(members: M) -> M:
    """Leave out members that are None; the shape says which of them may be (`Maybe`)."""
    # The same members, some less.
    return {name: value for name, value in members.items() if value is not None}  # type: ignore[return-value]


_ADVICE: Mapping[int, str] = MappingProxyType(
    {
        400: "Correct the request as the detail says; sending it again as it is will not help.",
        401: "Send a token as `Authorization: Bearer`: `retrier token create` makes one.",
        403: problems.NO_RIGHT,
        429: "Wait as long as Retry-After says, and send the right token.",
        404: "Check the id or the path: the list that it was taken from may have changed.",
        405: "Use one of the methods named by the Allow header.",
        409: "Wait until what the detail names has changed, or ask for something else.",
        413: "Send less at once, in several requests.",
        421: "Use one of these hosts. If a proxy passes on the Host of its own clients, list that "
        "host in api.allowed_hosts of the settings.",
        422: "Correct the named fields. A body is JSON, with Content-Type: application/json.",
        500: "Look for the error in the log of the service, then try again.",
        503: "Try again in a few seconds; GET /health/ready names the part that is down. "
        "A request with an Idempotency-Key can be repeated safely.",
    }
)
_MOST_ERRORS = 100
"""Of a list with 100,000 wrong ids the first ones say enough."""
_LONGEST_NAME = 100
OUT_OF_BOUNDS = "out_of_bounds"
"""The type of a validation error about a value of the right shape that is out of its range."""


def problem(status: int, detail: str, **more: object) -> Refusal:
    """Return the answer with a problem; `more` are further members of the document."""
    document: dict[str, object] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "advice": _ADVICE.get(status, _ADVICE[400]),
        **more,
    }
    headers = {**HEADERS, "Content-Type": "application/problem+json", "Cache-Control": "no-store"}
    return Refusal(encode(document), status_code=status, headers=headers)


def add_handlers(api: FastAPI) -> None:
    """Turn every error of the API into a problem."""
    problems.add_handlers(api, lambda _request, found: show_problem(found))
    api.add_exception_handler(RequestValidationError, _misshapen)


def show_problem(found: Problem) -> Response:
    """Return the answer to what went wrong."""
    more: dict[str, object] = {}
    if found.advice is not None:
        more = {"advice": found.advice}
    if found.wrong_field is not None:
        more |= {"errors": [{"field": found.wrong_field, "reason": found.detail}]}
    answer = problem(found.status, found.detail, **more)
    answer.headers.update(found.headers)
    return answer


def _misshapen(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    body = getattr(request.scope.get("route"), "body_field", None)
    errors = [_field_error(each, body) for each in error.errors()[:_MOST_ERRORS]]
    in_body = any(each["loc"][0] == "body" for each in error.errors())
    where = "body" if in_body else "parameters"
    detail = f"The {where} of the request cannot be understood."
    misshapen = in_body and any(each["type"] != OUT_OF_BOUNDS for each in error.errors())
    return problem(422 if misshapen else 400, detail, errors=errors)


def _field_error(error: Mapping[str, Any], body: Any) -> dict[str, str]:
    if error["type"] == "json_invalid":
        where, what = error["loc"][-1], error["ctx"]["error"]
        return {"field": "body", "reason": f"This is no JSON: {what}, at character {where}."}
    parts = [str(part) for part in error["loc"]]
    known: AbstractSet[str] = set()
    if error["type"] == "extra_forbidden" and body is not None:
        known = _members_at(body.field_info.annotation, parts[1:-1])
    reason = _why_stray(parts[-1], known) if known else error["msg"]
    # The members of a selection that are conditions on fields are read together.
    field = ".".join(parts).replace(f".{PREFIX}*.", f".{PREFIX}").removesuffix(".[key]")
    return {"field": field, "reason": reason}


def _why_stray(name: str, known: AbstractSet[str]) -> str:
    """Say that nobody reads a member of a body, and which one is perhaps meant."""
    shown, near = name[:_LONGEST_NAME], nearest(name, known)
    if near:
        return f"Nothing here reads a member {shown}; perhaps {near} is meant."
    return f"Nothing here reads a member {shown}; what is read: {', '.join(sorted(known))}."


def later(answer: Refusal) -> Refusal:
    """Add when to come again."""
    answer.headers["Retry-After"] = str(RETRY_AFTER)
    return answer


def _members_at(body: Any, within: Sequence[str]) -> frozenset[str]:
    """Return the names of the members of the object to which these members of a body lead."""
    models = list(_models_in(body))
    for name in within:
        inner = [each for model in models for each in _annotations(model, name)]
        models = [model for each in inner for model in _models_in(each)]
    return frozenset(
        each.alias or name for model in models for name, each in model.model_fields.items()
    )


def _annotations(model: type[BaseModel], name: str) -> Iterator[Any]:
    for attribute, each in model.model_fields.items():
        if name == (each.alias or attribute):
            yield each.annotation


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that an annotation names, such as those of `Body | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _models_in(each)

"""Problems: every refusal and failure as application/problem+json (RFC 9457).

`detail` says what is wrong, `advice` what to do. Neither holds a stack trace, a path or the input.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, get_args

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from retrier.api.answers import HEADERS, encode
from retrier.domain.parameters import nearest
from retrier.errors import (
    AnswerTooSlow,
    BrokerUnavailable,
    DatabaseRefused,
    DatabaseUnavailable,
    DataRefused,
    KeyReused,
)

_ADVICE: Mapping[int, str] = MappingProxyType(
    {
        400: "Correct the request as the detail says; sending it again as it is will not help.",
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
_DETAILS: Mapping[int, str] = MappingProxyType(
    {404: "There is nothing at this address.", 405: "This address has no such method."}
)
_PATH = re.compile(r"""(?<![\w:/])/[^\s"':,;()]+""")
_MOST_ERRORS = 100
"""Of a list with 100,000 wrong ids the first ones say enough."""
_LONGEST_NAME = 100
_SECONDS = "5"
_TOO_SLOW = (
    "Narrow the request, with a filter or a smaller page, or try again in a few seconds. If it "
    "stays so, somebody holds a lock in the database."
)
_GRANT = (
    "Trying again does not help before somebody has changed the database: run `retrier check` with "
    "the settings of the service, it names what is missing and the GRANT for it."
)

OUT_OF_BOUNDS = "out_of_bounds"
"""The type of a validation error about a value of the right shape that is out of its range."""


class WrongField(HTTPException):
    """A field of the path or the query has a value that is not allowed; `detail` says why."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(400, detail)
        self.field = field


def problem(status: int, detail: str, **more: object) -> Response:
    """Return the answer with a problem; `more` are further members of the document."""
    document = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "advice": _ADVICE.get(status, _ADVICE[400]),
        **more,
    }
    headers = {**HEADERS, "Content-Type": "application/problem+json", "Cache-Control": "no-store"}
    return Response(encode(document), status_code=status, headers=headers)


def add_handlers(api: FastAPI) -> None:
    """Turn every error of the API into a problem."""
    api.add_exception_handler(HTTPException, _refused)
    api.add_exception_handler(RequestValidationError, _misshapen)
    api.add_exception_handler(AnswerTooSlow, _too_slow)
    api.add_exception_handler(DatabaseRefused, _database_refused)
    api.add_exception_handler(DatabaseUnavailable, _unavailable)
    api.add_exception_handler(BrokerUnavailable, _broker_unavailable)
    api.add_exception_handler(DataRefused, _data_refused)
    api.add_exception_handler(KeyReused, _key_reused)
    api.add_exception_handler(Exception, _unexpected)


def _refused(_request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    unsaid = error.detail == HTTPStatus(error.status_code).phrase
    detail = _DETAILS.get(error.status_code, error.detail) if unsaid else error.detail
    more: dict[str, object] = {}
    if isinstance(error, WrongField):
        more = {"errors": [{"field": error.field, "reason": detail}]}
    answer = problem(error.status_code, detail, **more)
    answer.headers.update(error.headers or {})
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
    return {"field": ".".join(parts), "reason": reason}


def _why_stray(name: str, known: AbstractSet[str]) -> str:
    """Say that nobody reads a member of a body, and which one is perhaps meant."""
    shown, near = name[:_LONGEST_NAME], nearest(name, known)
    if near:
        return f"Nothing here reads a member {shown}; perhaps {near} is meant."
    return f"Nothing here reads a member {shown}; what is read: {', '.join(sorted(known))}."


def _too_slow(request: Request, error: Exception) -> Response:
    detail = _sentence("The database took too long", request, error)
    return later(problem(503, detail, advice=_TOO_SLOW))


def _database_refused(request: Request, error: Exception) -> Response:
    return later(problem(503, _sentence("The request failed", request, error), advice=_GRANT))


def _unavailable(request: Request, error: Exception) -> Response:
    return later(problem(503, _sentence("The database is out of reach", request, error)))


def _broker_unavailable(_request: Request, error: Exception) -> Response:
    reason = _PATH.sub("...", str(error)).rstrip(".")
    return later(problem(503, f"Nothing was sent, for want of the broker: {reason}."))


def _sentence(what: str, request: Request, error: Exception) -> str:
    """Return a whole sentence, without paths: clients append the advice to it."""
    place = request.app.state.parts.db.place
    reason = _PATH.sub("...", str(error).replace(place, "its address"))
    return f"{what}: {reason.rstrip('.')}."


def later(answer: Response) -> Response:
    """Add when to come again."""
    answer.headers["Retry-After"] = _SECONDS
    return answer


def _data_refused(_request: Request, _error: Exception) -> Response:
    return problem(400, "The database takes no such value: a text is too long or no valid text.")


def _key_reused(_request: Request, error: Exception) -> Response:
    advice = "Send this request under another key; repeat only the very same one under this key."
    return problem(422, str(error), advice=advice)


def _unexpected(_request: Request, error: Exception) -> Response:
    return problem(500, f"The request failed unexpectedly ({type(error).__name__}).")


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

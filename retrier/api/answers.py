"""Answers: JSON with its ETag, 304 for unchanged content, a short cache; and problems.

`detail` says what is wrong, `advice` what to do. Neither holds a stack trace, a path or the input.
"""

import json
import re
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, TypeVar, cast, get_args, overload

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from retrier.clock import Clock, SystemClock
from retrier.domain.parameters import nearest
from retrier.errors import (
    AnswerTooSlow,
    BrokerUnavailable,
    DatabaseRefused,
    DatabaseUnavailable,
    DataRefused,
    KeyReused,
)

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


def answer(request: Request, content: object, headers: Mapping[str, str] | None = None) -> Response:
    """Answer 200 with JSON, or 304 if the client has exactly this.

    The ETag is the hash of the content, so every change of the content changes it.
    """
    own = headers or {}
    body = encode(content)
    etag = sha256(body + own.get(TOTAL_COUNT, "").encode()).hexdigest()[:32]
    return revalidated(request, body, etag, {"Content-Type": "application/json", **own})


def revalidated(request: Request, body: bytes, etag: str, headers: Mapping[str, str]) -> Response:
    """Answer 200 with the body, or 304 without it if the client's If-None-Match names the ETag."""
    quoted = f'"{etag}"'
    own = {**HEADERS, "ETag": quoted, **headers}
    known = request.headers.get("if-none-match", "")
    if quoted in known.replace("W/", "").replace(" ", "").split(",") or known.strip() == "*":
        own.pop("Content-Type")
        return Response(status_code=304, headers=own)
    if request.method == "HEAD":
        return Response(headers={**own, "Content-Length": str(len(body))})
    return Response(body, headers=own)


def told(content: object) -> Response:
    """Answer 200 with JSON that no client keeps: what a POST found out."""
    own = {**HEADERS, "Content-Type": "application/json", "Cache-Control": "no-store"}
    return Response(encode(content), headers=own)


def accepted(content: object, location: str | None = None) -> Response:
    """Answer 202: the request is stored durably, and `location` shows its progress."""
    own = {**HEADERS, "Content-Type": "application/json"}
    own |= {"Location": location} if location else {}
    return Response(encode(content), status_code=202, headers=own)


def encode(content: object) -> bytes:
    """Encode as JSON in UTF-8."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


Json = dict[str, object]


@overload
def time(moment: datetime) -> str: ...
@overload
def time(moment: datetime | None) -> str | None: ...
def time(moment: datetime | None) -> str | None:
    """Show a moment in ISO 8601, in UTC, with a Z."""
    if moment is None:
        return None
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def camel(value: StrEnum) -> str:
    """Show a stored value as ServiceControl shows its enums: `retryIssued`."""
    first, *rest = value.split("_")
    return first + "".join(word.capitalize() for word in rest)


def present(members: Mapping[str, object]) -> Json:
    """Leave out members that are None."""
    return {name: value for name, value in members.items() if value is not None}


T = TypeVar("T")

COSTLY = 0.2
"""Seconds; an answer that takes less is not cached."""

TIMES_ITS_COST = 10
LONGEST = 60.0
"""Seconds an answer is cached at most."""

FINDING_TIMEOUT = 5.0
"""Seconds to wait while another thread finds an answer."""


class AnswerCache:
    """Caches a costly answer for ten times as long as it took to find.

    So counting a million messages uses at most a tenth of one thread, however many clients poll.
    With few messages nothing is cached.
    """

    def __init__(self, clock: Clock | None = None, timeout: float = FINDING_TIMEOUT) -> None:
        self._clock = clock or SystemClock()
        self._timeout = timeout
        self._lock = threading.Lock()
        self._finding: dict[Hashable, threading.Lock] = {}
        self._answers: dict[Hashable, tuple[object, float]] = {}

    def get(self, key: Hashable, find: Callable[[], T]) -> T:
        """Return the cached answer of the key, or find it: one thread finds, the others wait.

        Raises AnswerTooSlow after `timeout`: if queries hang, threads must not hang in turn.
        """
        with self._lock:
            finding = self._finding.setdefault(key, threading.Lock())
        if not finding.acquire(timeout=self._timeout):
            raise AnswerTooSlow(f"others have waited for this answer for {self._timeout:g} s")
        try:
            answer, until = self._answers.get(key, (None, 0.0))
            if self._clock.monotonic() < until:
                return cast("T", answer)
            return self._find(key, find)
        finally:
            finding.release()

    def _find(self, key: Hashable, find: Callable[[], T]) -> T:
        started = self._clock.monotonic()
        answer = find()
        ended = self._clock.monotonic()
        cost = ended - started
        if cost >= COSTLY:
            self._answers[key] = (answer, ended + min(cost * TIMES_ITS_COST, LONGEST))
        return answer


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

"""One table of errors for both faces: which error has which status, and what is said of it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from http import HTTPStatus
from types import MappingProxyType

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from retrier.domain.values import dataclass
from retrier.errors import (
    AnswerTooSlow,
    AuditUnavailable,
    BrokerUnavailable,
    DatabaseRefused,
    DatabaseUnavailable,
    DataRefused,
    KeyReused,
    NotAllowed,
    TablesMissing,
    TooManyFound,
)

RETRY_AFTER = 5
"""Seconds after which a client comes again if no answer was possible."""

_DETAILS: Mapping[int, str] = MappingProxyType(
    {404: "There is nothing at this address.", 405: "This address has no such method."}
)
_PATH = re.compile(r"""(?<![\w:/])/[^\s"':,;()]+""")
_TOO_SLOW = (
    "Narrow the request, with a filter or a smaller page, or try again in a few seconds. If it "
    "stays so, somebody holds a lock in the database."
)
_GRANT = (
    "Trying again does not help before somebody has changed the database: run `retrier check` with "
    "the settings of the service, it names what is missing and the GRANT for it."
)
STARTING = "The service is starting: the tables are not in its database yet."
_STARTING = (
    "Try again in a few seconds. If it stays so, no process may make the tables: run `retrier check` "
    "with the settings of the service."
)
_OTHER_KEY = (
    "Under one key only the very same request may be repeated: send this one under another key, or "
    "from a form that is opened anew."
)

_NARROW = (
    "Nothing was done. The list of what is found can be narrowed, and shows how many there are."
)


NO_FULL_TEXT = (
    "Messages are not found by words here: the settings would have to say search.text.enabled."
)
NO_RIGHT = "Ask somebody who has the right, or whoever runs Retrier for a role that has it."


class WrongField(HTTPException):
    """A field of the path, the query or the body has a value that is not allowed.

    `detail` says why.
    """

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(400, detail)
        self.field = name


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What went wrong. `detail` is a whole sentence, without a path and without the input.

    `advice` is what to do; None: what the face says for the status. `wrong_field` is the one that has a
    wrong value.
    """

    status: int
    detail: str
    advice: str | None = None
    wrong_field: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def later(detail: str, seconds: int = RETRY_AFTER) -> HTTPException:
    """Return the refusal of a request that nothing is wrong with, and when to come again."""
    return HTTPException(503, detail, {"Retry-After": str(seconds)})


def add_handlers(face: FastAPI, show: Callable[[Request, Problem], Response]) -> None:
    """Have a face show every error but that of a request of the wrong shape, which is its own."""

    def answer(request: Request, error: Exception) -> Response:
        access = getattr(request.state, "access", None)
        if isinstance(error, KeyReused) and access is not None and access.queues is not None:
            # The words name what another one asked for, perhaps of a queue that is not theirs.
            error = KeyReused("This Idempotency-Key was used for another request.")
        return show(request, _explain(error, request.app.state.parts.db.place))

    kinds = (
        HTTPException,
        AuditUnavailable,
        DatabaseUnavailable,
        BrokerUnavailable,
        DataRefused,
        KeyReused,
        NotAllowed,
        TooManyFound,
    )
    for kind in (*kinds, Exception):
        face.add_exception_handler(kind, answer)


def _explain(error: Exception, place: str) -> Problem:
    """Say what an error is; `place` is where the database is, which nobody is told."""
    match error:
        case HTTPException():
            return _refused(error)
        case DatabaseUnavailable():
            return _no_database(error, place)
        case BrokerUnavailable():
            return _away("Nothing was sent, for want of the broker", error, place)
        case DataRefused():
            detail = "The database takes no such value: a text is too long or no valid text."
            return Problem(status=400, detail=detail)
        case AuditUnavailable():
            return _away("Nothing was done, for want of the audit", error, place)
        case NotAllowed():
            return Problem(status=403, detail=str(error))
        case KeyReused() | TooManyFound():
            advice = _OTHER_KEY if isinstance(error, KeyReused) else _NARROW
            return Problem(status=422, detail=str(error), advice=advice)
        case _:
            detail = f"The request failed unexpectedly ({type(error).__name__})."
            return Problem(status=500, detail=detail)


def _no_database(error: DatabaseUnavailable, place: str) -> Problem:
    match error:
        case TablesMissing():
            soon = {"Retry-After": str(RETRY_AFTER)}
            return Problem(status=503, detail=STARTING, advice=_STARTING, headers=soon)
        case AnswerTooSlow():
            return _away("The database took too long", error, place, _TOO_SLOW)
        case DatabaseRefused():
            return _away("The request failed", error, place, _GRANT)
        case _:
            return _away("The database is out of reach", error, place)


def _refused(error: HTTPException) -> Problem:
    status = error.status_code
    is_unsaid = error.detail == HTTPStatus(status).phrase
    return Problem(
        status=status,
        detail=_DETAILS.get(status, error.detail) if is_unsaid else error.detail,
        wrong_field=error.field if isinstance(error, WrongField) else None,
        headers=error.headers or {},
    )


def _away(what: str, error: Exception, place: str, advice: str | None = None) -> Problem:
    # A whole sentence: clients append the advice to it.
    reason = _PATH.sub("...", str(error).replace(place, "its address"))
    return Problem(
        status=503,
        detail=f"{what}: {reason.rstrip('.')}.",
        advice=advice,
        headers={"Retry-After": str(RETRY_AFTER)},
    )

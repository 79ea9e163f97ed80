"""Makes a log line: cleans its values, adds the trace of an exception, and formats it.

Every value of a line passes through here, also from libraries. Removed are line breaks, passwords
in URLs, and the text of exceptions that may quote a part of a message.
"""

import logging
import re
import sys
import traceback
from collections.abc import Iterator
from typing import Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor

from retrier.errors import RetrierError

Form = Literal["auto", "console", "json"]
"""`console`: lines for people; `json`: one object per line; `auto`: console on a terminal."""

_LONGEST_VALUE = 500
_LONGEST = {"event": 2000}
"""Longest values of fields that differ from _LONGEST_VALUE; `event` is the sentence of a line."""

# Texts of these are logged. Other exceptions may quote data: a header's value, a row, a password.
# RetrierErrors are worded by us; the other two name only types and attributes of the code.
_QUOTE_NOTHING = (RetrierError, TypeError, AttributeError)

_CAUSED_BY = "\n\nThe cause of the above:\n\n"
_OF_A_SENTENCE = ("timestamp", "level", "message", "logger", "exception")
"""What a person reads: the sentence names the fields that matter."""
_KEPT = frozenset({"exc_info", "_record", "_from_structlog"})
_PASSWORD = re.compile(
    r"(://[^:/@\s]*):\S*@"
    r"|(\b(?:\w*password|\w*secret|scram_\w+_key)\s*=\s*)(?:'[^']*'|[^\s&]+)",
    re.IGNORECASE,
)


def finish(stream: TextIO, form: Form, level: int) -> list[Processor]:
    """Return the last processors of every structlog chain: they turn the fields into a line.

    For people a line is its sentence alone, unless the level is that of debugging.
    """
    rename = structlog.processors.EventRenamer("message", "_name")
    for_people = stream.isatty() if form == "auto" else form == "console"
    if not for_people:
        stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
        return [_tidy, _add_exception, stamp, rename, structlog.processors.JSONRenderer()]
    stamp = structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%SZ", utc=True)
    shorten = [] if level <= logging.DEBUG else [_keep_sentence]
    return [_tidy, _add_exception, stamp, rename, *shorten, _console(stream)]


def show(value: object, longest: int = _LONGEST_VALUE) -> object:
    """Return a value in a form that a line may contain."""
    if value is None or isinstance(value, bool | int | float):
        return value
    # Reasons come from brokers and messages: line breaks and control codes are removed, and the
    # length is bounded. Passwords are masked before the cut, which could leave half of one.
    text = _PASSWORD.sub(_mask, str(value)[: 4 * longest])
    text = "".join(c if c.isprintable() else " " for c in text[: longest + 1])
    return text if len(text) <= longest else text[:longest] + "..."


def _mask(found: re.Match[str]) -> str:
    address, name = found.groups()
    return f"{address}:***@" if address is not None else f"{name}***"


def _console(stream: TextIO) -> Processor:
    # The exception is already text here; any formatter except the plain one warns about that.
    return structlog.dev.ConsoleRenderer(
        event_key="message",
        pad_event_to=0,
        colors=stream.isatty(),
        exception_formatter=structlog.dev.plain_traceback,
    )


def _tidy(_logger: object, _method: str, line: EventDict) -> EventDict:
    return {
        name: value if name in _KEPT else show(value, _LONGEST.get(name, _LONGEST_VALUE))
        for name, value in line.items()
    }


def _keep_sentence(_logger: object, _method: str, line: EventDict) -> EventDict:
    return {name: line[name] for name in _OF_A_SENTENCE if name in line}


def _add_exception(_logger: object, _method: str, line: EventDict) -> EventDict:
    error = _find_exception(line.pop("exc_info", None))
    return line if error is None else {**line, "exception": _trace(error)}


def _find_exception(exc_info: object) -> BaseException | None:
    """Return the exception of `exc_info` in any of the three forms that logging allows."""
    match exc_info:
        case BaseException() as error:
            return error
        case (_, BaseException() as error, _):
            return error
        case True:
            return sys.exception()
        case _:
            return None


def _trace(error: BaseException) -> str:
    """Return where an exception and its causes were raised, without local variables."""
    return _CAUSED_BY.join(
        "".join(traceback.format_tb(each.__traceback__)) + _name(each) for each in _chain(error)
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _name(error: BaseException) -> str:
    kind = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    return f"{kind}: {show(error)}" if isinstance(error, _QUOTE_NOTHING) else kind

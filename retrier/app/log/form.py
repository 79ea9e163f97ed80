"""How a log line comes about: what may stand in it, how an exception is told, which form it has.

Whatever a line is made of passes through here, the words of libraries as well: no line breaks, no
password of a URL, and of exceptions only what cannot quote a message.
"""

import re
import sys
import traceback
from collections.abc import Iterator
from typing import Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor

from retrier.errors import RetrierError

Form = Literal["auto", "console", "json"]
"""Lines for people, or one JSON object a line; auto: for people if a terminal reads them."""

_LONGEST_VALUE = 500
_LONGEST = {"event": 2000}
"""Of a line's sentence."""

# Other exceptions may quote what they stumbled over: a value of a header, a row, a password.
# These two name types and attributes of the code.
_QUOTE_NOTHING = (RetrierError, TypeError, AttributeError)

_CAME_OF = "\n\nThat came of this:\n\n"
_KEPT = frozenset({"exc_info", "_record", "_from_structlog"})
_PASSWORD = re.compile(r"(://[^:/@\s]*):\S*@|(\bpassword\s*=\s*)(?:'[^']*'|[^\s&]+)", re.IGNORECASE)


def finish(stream: TextIO, form: Form) -> list[Processor]:
    """Return the processors that end every chain: they make the line out of the fields."""
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    rename = structlog.processors.EventRenamer("message", "_name")
    for_people = stream.isatty() if form == "auto" else form == "console"
    renderer = _console(stream) if for_people else structlog.processors.JSONRenderer()
    return [_tidy, _tell_exception, stamp, rename, renderer]


def show(value: object, longest: int = _LONGEST_VALUE) -> object:
    """Return a value as it may stand in a line."""
    if value is None or isinstance(value, bool | int | float):
        return value
    # Reasons come from brokers and messages: no line breaks, no control codes, no novels. Masked
    # before it is cut: half a password is too much as well.
    text = _PASSWORD.sub(_mask, str(value)[: 4 * longest])
    text = "".join(c if c.isprintable() else " " for c in text[: longest + 1])
    return text if len(text) <= longest else text[:longest] + "..."


def _mask(found: re.Match[str]) -> str:
    address, name = found.groups()
    return f"{address}:***@" if address is not None else f"{name}***"


def _console(stream: TextIO) -> Processor:
    # The exception is text by then; another formatter than the plain one warns of that.
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


def _tell_exception(_logger: object, _method: str, line: EventDict) -> EventDict:
    error = _find_exception(line.pop("exc_info", None))
    return line if error is None else {**line, "exception": _trace(error)}


def _find_exception(exc_info: object) -> BaseException | None:
    """Return what the three forms mean that standard logging allows."""
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
    """Tell where an exception and those behind it were raised, without any local variable."""
    return _CAME_OF.join(
        "".join(traceback.format_tb(each.__traceback__)) + _name(each) for each in _chain(error)
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    told: set[int] = set()
    while error is not None and id(error) not in told:
        told.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _name(error: BaseException) -> str:
    kind = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    return f"{kind}: {show(error)}" if isinstance(error, _QUOTE_NOTHING) else kind

"""Reasons: the words under which failures are classified. The list is open; these are built in."""

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType

UNKNOWN = "unknown"
TRANSPORT_UNAVAILABLE = "transport_unavailable"
HANDLER_EXCEPTION = "handler_exception"
VALIDATION_FAILURE = "validation_failure"
TIMEOUT_EXCEEDED = "timeout_exceeded"
SERIALIZATION_ERROR = "serialization_error"
DEPENDENCY_FAILURE = "dependency_failure"
POISON_MESSAGE = "poison_message"
INVALID_MESSAGE = "invalid_message"

NUMBERS: Mapping[str, int] = MappingProxyType(
    {
        TRANSPORT_UNAVAILABLE: 1,
        HANDLER_EXCEPTION: 2,
        VALIDATION_FAILURE: 3,
        TIMEOUT_EXCEEDED: 4,
        SERIALIZATION_ERROR: 5,
        DEPENDENCY_FAILURE: 6,
        POISON_MESSAGE: 7,
        UNKNOWN: 99,
    }
)
"""The numbers of the reasons that have one."""

BUILT_IN = frozenset({*NUMBERS, INVALID_MESSAGE})

_SEPARATORS = str.maketrans("", "", "_-")


def _plain(word: str) -> str:
    return word.translate(_SEPARATORS).casefold()


_BY_WORD: Mapping[str, str] = MappingProxyType(
    {_plain(name): name for name in BUILT_IN}
    | {str(number): name for name, number in NUMBERS.items()}
)


def find_named(word: str | None) -> str | None:
    """Return the built-in reason that a word or a number names; None if it names none.

    Applications write `TransportUnavailable`, `transport-unavailable` or 1, as their enum has it.
    """
    return None if word is None else _BY_WORD.get(_plain(word))


_LONGEST_WORD = 100


def why_not_a_reason(word: str) -> str | None:
    """Return why a person cannot give a message this reason, with the nearest one; None if they can."""
    if find_named(word) is not None:
        return None
    near = get_close_matches(_plain(word[:_LONGEST_WORD]), sorted(_BY_WORD), n=1, cutoff=0.5)
    meant = f"; perhaps {_BY_WORD[near[0]]} is meant" if near else ""
    return f"It is none of {', '.join(sorted(BUILT_IN))}{meant}."


GATEWAY_CODES = (
    "NOT_PDF",
    "TOO_LARGE",
    "GW_4XX",
    "GW_5XX",
    "GW_TIMEOUT",
    "IO_ERROR",
    "NOT_READY",
    "EXPIRED",
    "FORBIDDEN",
    "UNKNOWN",
)
"""The reasons of the set `gateway`, for failures of calls to a service behind a gateway."""

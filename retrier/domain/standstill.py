"""Whether a processor that has something to do gets on, and what holds it up if it does not."""

from dataclasses import dataclass
from typing import assert_never

STANDSTILL_AFTER = 15.0
"""Seconds without anything recorded after which the processor is reported as not ready."""

_LONG_WAIT = 5.0
"""Seconds after which a wait explains by itself why nothing is recorded."""
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class ForDatabase:
    """The database has not answered yet."""


@dataclass(frozen=True, slots=True)
class ForBroker:
    """The broker has not answered yet, or is being connected to."""


@dataclass(frozen=True, slots=True)
class ForConfirms:
    """The broker has not confirmed yet what was sent to these queues."""

    queues: frozenset[str]


@dataclass(frozen=True, slots=True)
class ForAlarm:
    """The broker takes nothing from whoever publishes until its alarm is over."""


@dataclass(frozen=True, slots=True)
class ForCopies:
    """What was put into the staging queue does not come back, however often it is put there."""


Wait = ForDatabase | ForBroker | ForConfirms | ForAlarm
Cause = Wait | ForCopies


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressNotes:
    """What a processor knows of its own progress; times are monotonic seconds.

    `since` is when something was last recorded, or when there began to be something to do if that
    is later; None while nothing may move. `wait` is None between two turns. `loses_copies` says
    that since then a batch was staged and nothing of it came back.
    """

    since: float | None = None
    wait: Wait | None = None
    waiting_since: float = 0.0
    loses_copies: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """Nothing was recorded for so many seconds, although something may move."""

    seconds: float
    cause: Cause

    @property
    def reason(self) -> str:
        """The standstill in words, for people."""
        return f"no progress for {int(self.seconds)} s: {_describe(self.cause)}"


def find_hang(since: float | None, now: float) -> Standstill | None:
    """Return the standstill of one question to the database, asked at that time."""
    return find_standstill(ProgressNotes(since=since, wait=ForDatabase()), now)


def find_standstill(notes: ProgressNotes, now: float) -> Standstill | None:
    """Return the standstill of a processor; None as long as it gets on, or has nothing to do."""
    cause = _find_cause(notes, now)
    if notes.since is None or cause is None or now - notes.since < STANDSTILL_AFTER:
        return None
    return Standstill(seconds=now - notes.since, cause=cause)


def _find_cause(notes: ProgressNotes, now: float) -> Cause | None:
    # Who loses copies asks database and broker all the time, and each of them answers at once.
    waits_long = notes.wait is not None and now - notes.waiting_since >= _LONG_WAIT
    return ForCopies() if notes.loses_copies and not waits_long else notes.wait


def _describe(cause: Cause) -> str:
    match cause:
        case ForDatabase():
            return "waits for the database"
        case ForBroker():
            return "waits for the broker to answer"
        case ForConfirms(queues):
            return f"waits for the broker to confirm what was sent to {_name(queues)}"
        case ForAlarm():
            return "the broker blocks publishers (alarm)"
        case ForCopies():
            return "copies vanish from the staging queue"
        case _ as never:
            assert_never(never)


def _name(queues: frozenset[str]) -> str:
    first, more = sorted(queues)[:_MOST_NAMED], len(queues) - _MOST_NAMED
    return ", ".join(first) + (f" and {more} more" if more > 0 else "")

"""Whether a processor that has work makes progress, and what it waits for if it does not."""

from dataclasses import dataclass
from typing import assert_never

STANDSTILL_AFTER = 15.0
"""Seconds without anything recorded after which it counts as a standstill (decision 0022)."""

_LONG_WAIT = 5.0
"""Seconds after which a wait alone explains why nothing is recorded."""
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class ForDatabase:
    """The database has not answered yet."""


@dataclass(frozen=True, slots=True)
class ForBroker:
    """The broker has not answered yet, or the connection to it is being made."""


@dataclass(frozen=True, slots=True)
class ForConfirms:
    """The broker has not confirmed yet what was sent to these queues."""

    queues: frozenset[str]


@dataclass(frozen=True, slots=True)
class ForAlarm:
    """The broker accepts no messages from publishers until its alarm is over."""


@dataclass(frozen=True, slots=True)
class ForCopies:
    """Copies vanish from the staging queue, however often the batch is staged again."""


Wait = ForDatabase | ForBroker | ForConfirms | ForAlarm
Cause = Wait | ForCopies


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressNotes:
    """The progress of a processor; times are monotonic seconds.

    `since` is the time of the last record, or the time at which work appeared if that is later;
    None while no work may be done. `wait` is None between two turns. `loses_copies` means that
    after `since` a batch was staged and none of its copies came back.
    """

    since: float | None = None
    wait: Wait | None = None
    waiting_since: float = 0.0
    loses_copies: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """Nothing was recorded for this many seconds, although there is work that may be done."""

    seconds: float
    cause: Cause

    @property
    def reason(self) -> str:
        """The standstill in words, for people."""
        return f"no progress for {int(self.seconds)} s: {_describe(self.cause)}"


def find_hang(since: float | None, now: float) -> Standstill | None:
    """Return the standstill of a database call that began at `since` and has not ended yet."""
    return find_standstill(ProgressNotes(since=since, wait=ForDatabase()), now)


def find_standstill(notes: ProgressNotes, now: float) -> Standstill | None:
    """Return the standstill of a processor; None while it makes progress or has no work."""
    cause = _find_cause(notes, now)
    if notes.since is None or cause is None or now - notes.since < STANDSTILL_AFTER:
        return None
    return Standstill(seconds=now - notes.since, cause=cause)


def _find_cause(notes: ProgressNotes, now: float) -> Cause | None:
    # A processor that loses copies waits often but briefly: only a long wait explains more.
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

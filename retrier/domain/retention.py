"""What is deleted for its age, how deleting gives way, and how a clock that is ahead deletes nothing."""

from collections import deque
from dataclasses import replace
from datetime import datetime, timedelta
from typing import ClassVar, assert_never

from retrier.domain.failed_message import FailedMessageStatus, Resolution
from retrier.domain.values import dataclass


class SecondLook:
    """Remembers what the database's clock said, and when, by a clock that nobody sets.

    A clock that is ahead for a moment would delete for good what is young. So nothing is deleted
    or presumed for its age before two looks agree, `apart` by the monotonic clock of this process.
    """

    def __init__(self, apart: timedelta) -> None:
        self._apart = apart.total_seconds()
        self._looks: deque[tuple[float, datetime]] = deque()
        self._agreed: datetime | None = None

    @property
    def agreed(self) -> datetime | None:
        """The latest time of which all looks agree that it has passed.

        None until the first look is that long ago: nothing is due for anybody.
        """
        return self._agreed

    def note(self, seconds: float, time: datetime) -> None:
        """Take in a look: the database's time, and then the monotonic seconds of this process.

        In this order a look seems younger than it is, and never older.
        """
        looks = self._looks
        looks.append((seconds, time))
        while len(looks) > 1 and looks[1][0] <= seconds - self._apart:
            looks.popleft()
        # The lowest of all since then: a clock that was right for one look in between is believed.
        is_old = looks[0][0] <= seconds - self._apart
        self._agreed = min(each for _, each in looks) if is_old else None


CHUNK = 500
"""Messages, operations or imports that one transaction deletes at most."""

CHUNK_BYTES = 64 * 1024 * 1024
"""Bytes of messages that one transaction deletes at most; always at least one message."""

_BEAT = 0.2
"""Seconds from the beginning of one chunk to that of the next: at most 2,500 messages a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionTimes:
    """How long what is settled is kept; None stands for ever."""

    resolved: timedelta | None
    presumed: timedelta | None
    archived: timedelta | None
    operations: timedelta | None
    imports: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OldMessages:
    """Messages that have been settled in this way for longer than `age`."""

    kind: ClassVar[str] = "messages"
    status: FailedMessageStatus
    resolution: Resolution | None
    age: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class OldOperations:
    """Retry and archive operations that were completed or cancelled longer than `age` ago."""

    kind: ClassVar[str] = "operations"
    age: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class OldImports:
    """Failed imports that were taken off their queue longer than `age` ago."""

    kind: ClassVar[str] = "imports"
    age: timedelta


Old = OldMessages | OldOperations | OldImports


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """How much one sweep deleted."""

    messages: int = 0
    operations: int = 0
    imports: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether it deleted nothing."""
        return not (self.messages or self.operations or self.imports)

    def plus(self, old: Old, count: int) -> "Swept":
        """Return the sums after one chunk more."""
        match old:
            case OldMessages():
                return replace(self, messages=self.messages + count)
            case OldOperations():
                return replace(self, operations=self.operations + count)
            case OldImports():
                return replace(self, imports=self.imports + count)
            case _ as never:
                assert_never(never)


def find_ages(times: RetentionTimes) -> tuple[Old, ...]:
    """Return everything that is deleted for its age; what is kept for ever is left out.

    One entry for each resolution: the index by which the oldest are found has it as a column.
    """
    resolved = [(FailedMessageStatus.RESOLVED, how, _age_of(how, times)) for how in Resolution]
    archived = (FailedMessageStatus.ARCHIVED, None, times.archived)
    return (
        *(
            OldMessages(status=status, resolution=how, age=age)
            for status, how, age in [*resolved, archived]
            if age is not None
        ),
        *([OldOperations(age=times.operations)] if times.operations is not None else []),
        *([OldImports(age=times.imports)] if times.imports is not None else []),
    )


def _age_of(resolution: Resolution, times: RetentionTimes) -> timedelta | None:
    return times.presumed if resolution is Resolution.PRESUMED else times.resolved


def pause_after(seconds: float) -> float:
    """Return how many seconds to do nothing after a chunk that took so many.

    At least as long as the chunk took: the slower the database, the more room is left to others.
    On SQLite, whose other writers wait for its only lock, they get it in this pause.
    """
    return max(seconds, _BEAT - seconds)

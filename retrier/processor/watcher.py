"""Who watches the processor: told of what is done, once it cannot be undone."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from retrier.domain.retry_batch import Ejected, WindowResult
from retrier.domain.wire import Outcome, Outgoing


class Stage(StrEnum):
    """The stages of a batch. Each is passed once by a batch that meets no trouble."""

    MARKING = "marking"
    STAGING = "staging"
    FORWARDING = "forwarding"


class Watcher(Protocol):
    """Counts or traces; it must not raise, and not wait.

    What ends up in the database is told after the commit, in the same thread: never what may
    still be rolled back, and nothing twice.
    """

    def sent(
        self, messages: Sequence[Outgoing], outcomes: Sequence[Outcome], began: datetime
    ) -> None:
        """The broker was handed these retries at `began`, and this became of each by now."""
        ...

    def recorded(self, window: WindowResult) -> None:
        """These messages are recorded as forwarded, or are unresolved again."""
        ...

    def ejected(self, messages: Sequence[Ejected]) -> None:
        """These messages are out of their batch: they could not be staged."""
        ...

    def passed(self, stage: Stage, seconds: float) -> None:
        """A batch has left a stage after so many seconds of this process."""
        ...

    def close(self) -> None:
        """Nothing more comes; what was not handed on yet is handed on, within seconds."""
        ...


class Nobody:
    """Watches nothing."""

    def sent(
        self, messages: Sequence[Outgoing], outcomes: Sequence[Outcome], began: datetime
    ) -> None:
        """See Watcher."""

    def recorded(self, window: WindowResult) -> None:
        """See Watcher."""

    def ejected(self, messages: Sequence[Ejected]) -> None:
        """See Watcher."""

    def passed(self, stage: Stage, seconds: float) -> None:
        """See Watcher."""

    def close(self) -> None:
        """See Watcher."""

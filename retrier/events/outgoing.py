"""Events of sending the copies of failures to the log queue."""

from dataclasses import dataclass

from retrier.events.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingPublished(Event):
    """The broker has settled a window; its rows are still in the database.

    A process that is killed here leaves them to the next one, which sends the window again.
    """

    name = "outgoing.published"
    confirmed: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingPaused(Event):
    """Nothing can be sent, for the first time in a row; `error` is set only if it is unexpected."""

    name = "outgoing.paused"
    reason: str
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingResumed(Event):
    """Sending works again after a pause."""

    name = "outgoing.resumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQueueFailed(Event):
    """One queue takes no copies, for the first time in a row: it is missing or full."""

    name = "outgoing.queue_failed"
    queue: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQueueRecovered(Event):
    """A queue takes copies again."""

    name = "outgoing.queue_recovered"
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingPutOff(Event):
    """Copies were refused, for the first time; each is tried again later, without the others."""

    name = "outgoing.put_off"
    queue: str
    count: int
    reason: str

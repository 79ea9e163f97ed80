"""Events of an error queue, on which failures and confirmations arrive."""

from collections.abc import Sequence

from retrier.domain.failed_message import Noteworthy
from retrier.domain.recording import Recorded
from retrier.domain.values import dataclass
from retrier.events.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorQueueOpened(Event):
    """A test write to the database has succeeded, and the error queue exists."""

    name = "ingestion.opened"
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReceived(Event):
    """A batch is received; nothing of it is stored yet."""

    name = "ingestion.before_record"
    queue: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAlone(Event):
    """One message of a batch that the database refused as a whole is stored."""

    name = "ingestion.recorded_alone"
    queue: str
    recorded: Recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStored(Event):
    """A batch is stored; nothing of it is acknowledged yet.

    `recorded` is None if its messages were stored one by one. `noteworthy` is everything in the
    batch that a person should look at.
    """

    name = "ingestion.after_record"
    queue: str
    recorded: Recorded | None
    noteworthy: Sequence[Noteworthy]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAcked(Event):
    """A batch is acknowledged."""

    name = "ingestion.after_ack"
    queue: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestionStarted(Event):
    """The first turn at this queue succeeded."""

    name = "ingestion.started"
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestionPaused(Event):
    """A turn failed, for the first time in a row; `error` is set only if it is unexpected."""

    name = "ingestion.paused"
    queue: str
    reason: str
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestionResumed(Event):
    """A turn succeeded again after a pause."""

    name = "ingestion.resumed"
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryLimitFound(Event):
    """An error queue, not declared by us, may drop messages that are delivered too often.

    `limit` is None if the broker shows only that there may be one.
    """

    name = "ingestion.delivery_limit"
    queue: str
    limit: int | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorQueueGone(Event):
    """An error queue does not exist, and is not declared: it was deleted, or never was there.

    Until it is there the broker drops what is dead-lettered to it.
    """

    name = "ingestion.queue_missing"
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorQueueDoubted(Event):
    """An error queue may be the queue of a worker, or others consume it as well."""

    name = "ingestion.queue_doubtful"
    queue: str
    reason: str


IngestionEffect = ErrorQueueOpened | BatchReceived | StoredAlone | BatchStored | BatchAcked
"""Each follows an effect that outlives a killed process: tests kill a process at each of them."""

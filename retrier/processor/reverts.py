"""What came back from each destination, told in one line a minute and not in one per message."""

from collections.abc import Iterable
from dataclasses import dataclass

from retrier.clock import Clock
from retrier.domain.retry_batch import Ejected, RetryBatch
from retrier.logs import Say

_EVERY = 60.0
"""Seconds between two lines about one destination."""


@dataclass(slots=True)
class _Notice:
    """What is to be told of one destination: how many, and one of them with its batch."""

    told_at: float | None = None
    count: int = 0
    sample: tuple[RetryBatch, Ejected] | None = None


class Reverts:
    """Tells of reverted messages: the first time at once, then how many more there were.

    Somebody who retries again and again to a queue that is full must not fill the log. The reason
    of each single message is in the database. A destination is forgotten when nothing came back
    from it for a while.
    """

    def __init__(self, say: Say, clock: Clock) -> None:
        self._say = say
        self._clock = clock
        self._notices: dict[str, _Notice] = {}

    def add(self, batch: RetryBatch, reverted: Iterable[Ejected]) -> None:
        """Count the messages of one window that are recorded as reverted; tell what is due."""
        for item in reverted:
            notice = self._notices.setdefault(item.destination, _Notice())
            notice.count += 1
            notice.sample = notice.sample or (batch, item)
        self.tell_due()

    def tell_due(self) -> None:
        """Tell of the destinations of which nothing was told for a while."""
        now = self._clock.monotonic()
        for destination, notice in list(self._notices.items()):
            if notice.told_at is None or now - notice.told_at >= _EVERY:
                self._tell(destination, now)

    def tell_all(self) -> None:
        """Tell what is left to tell, due or not: nobody counts any further."""
        for destination in list(self._notices):
            self._tell(destination, self._clock.monotonic())

    def _tell(self, destination: str, now: float) -> None:
        notice = self._notices.pop(destination)
        if notice.sample is None:
            return
        (batch, item), say = notice.sample, self._say
        say(
            "message.reverted",
            destination=destination,
            count=notice.count,
            unique_message_id=item.unique_message_id,
            batch_id=batch.batch_id,
            operation_id=batch.operation_id,
            reason=item.reason,
        )
        self._notices[destination] = _Notice(told_at=now)

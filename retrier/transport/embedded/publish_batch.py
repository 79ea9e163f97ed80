"""A batch of messages that a Kombu producer publishes in one transaction."""

from collections.abc import Callable, Sequence
from typing import Any

from retrier.transport.embedded.rows import Parcel

Store = Callable[[Sequence[Parcel]], None]


class PublishBatch:
    """What `Producer.batch` collects into: stored when it is full, flushed, or at its end."""

    def __init__(self, channel: Any, store: Store, max_size: int) -> None:
        self.channel = channel
        self._store = store
        self._max_size = max_size
        self._parcels: list[Parcel] = []

    def publish(self, message: dict[str, Any], **options: object) -> None:
        """Route one message, which leads to `add` for each queue it goes to."""
        self.channel.basic_publish(message, batch=self, **options)
        if len(self._parcels) >= self._max_size:
            self.flush()

    def add(self, parcel: Parcel) -> None:
        """Take up what one queue is to get."""
        self._parcels.append(parcel)

    def flush(self) -> None:
        """Store what was collected, all of it or nothing."""
        parcels, self._parcels = self._parcels, []
        if parcels:
            self._store(parcels)

    def discard(self) -> None:
        """Drop what was collected."""
        self._parcels = []

    def close(self) -> None:
        """Do nothing: there is nothing to let go of."""

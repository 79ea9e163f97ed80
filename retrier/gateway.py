"""The gateway: the single door for asking for a retry, whoever asks."""

from collections.abc import Callable

from retrier.domain.retry_operation import RetryRequest
from retrier.store.database import Database
from retrier.store.operations import CreatedOperation, create_operation


class Gateway:
    """Takes requests, makes them durable, and wakes the processor."""

    def __init__(self, db: Database, wake: Callable[[], None]) -> None:
        self._db = db
        self._wake = wake

    def retry(self, request: RetryRequest) -> CreatedOperation:
        """Create the operation, durable when this returns, then wake the processor.

        The same idempotency key gives the same operation again. A crash before the wake-up
        costs time, not the request. Raises DatabaseUnavailable.
        """
        created = create_operation(self._db, request)
        self._wake()
        return created

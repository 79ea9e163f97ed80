"""What ingestion needs of the store: to record a batch, and to find out whether it could."""

from collections.abc import Callable, Sequence
from typing import Protocol

from retrier.domain.failed_message import Received
from retrier.domain.receipt import Recorded
from retrier.overlap import WhileInFlight, nothing_else


class Record(Protocol):
    """Stores a batch in one transaction."""

    def __call__(
        self, received: Sequence[Received], *, while_in_flight: WhileInFlight = nothing_else
    ) -> Recorded:
        """Store it; return the result. Raises DatabaseUnavailable, and DataRefused.

        `while_in_flight` does one small piece of other work and returns whether there is more. Call
        it while waiting for the database.
        """
        ...


Probe = Callable[[], None]
"""Writes something to the database. Raises DatabaseUnavailable."""

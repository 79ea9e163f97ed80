"""What ingestion needs of the store: to record a batch, and to find out whether it could."""

from collections.abc import Callable, Sequence
from typing import Protocol

from retrier.domain.failed_message import Received
from retrier.domain.receipt import Recorded
from retrier.overlap import WhileInFlight, is_sure, nothing_else


class Record(Protocol):
    """Stores a batch in one transaction."""

    def __call__(
        self,
        received: Sequence[Received],
        *,
        while_in_flight: WhileInFlight = nothing_else,
        make_sure: Callable[[], None] = is_sure,
    ) -> Recorded:
        """Store it; return the result. Raises DatabaseUnavailable, and DataRefused.

        `while_in_flight` does one small piece of other work and returns whether there is more. Call
        it while waiting for the database. `make_sure` raises if the messages may have been handed to
        another process meanwhile. Call it when nothing is waited for any more.
        """
        ...


Probe = Callable[[], None]
"""Writes something to the database. Raises DatabaseUnavailable."""

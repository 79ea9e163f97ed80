"""Waking the processor for what other processes were asked for."""

from dataclasses import dataclass

from retrier.app.building import Parts
from retrier.errors import DatabaseUnavailable
from retrier.store.engine.requests import listen_for_requests

_PAUSE = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """A thread's work on PostgreSQL. The tick that looks for requests makes up for its gaps."""

    parts: Parts

    def run(self) -> None:
        """Listen until told to stop; connect again after each loss."""
        while not self.parts.stop.is_set():
            try:
                listen_for_requests(self.parts.db, self.parts.stop, self.parts.wake.set)
            except DatabaseUnavailable:
                # Said by the parts that need the database; here only a second or two are lost.
                self.parts.stop.wait(_PAUSE)

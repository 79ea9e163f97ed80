"""The processor's progress: noted by its own thread, read by the threads that report health."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from retrier.clock import Clock
from retrier.domain.processor_work import (
    ForAlarm,
    ForBroker,
    ForConfirms,
    ForDatabase,
    ProgressNotes,
    Standstill,
    Wait,
    find_standstill,
)
from retrier.errors import BrokerUnavailable, DatabaseUnavailable
from retrier.transport.seam import Awaited


class Progress:
    """Holds when something was last recorded, and what the processor waits for at present.

    One thread notes, any thread reads. The notes are one value that is replaced, so a reader needs
    no lock, whatever the processor hangs on. By default a turn is noted as waiting for the
    database; waits for the broker are noted by `waiting`.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._notes = ProgressNotes()

    @property
    def standstill(self) -> Standstill | None:
        """Why nothing was recorded for too long; None while the processor makes progress."""
        return find_standstill(self._notes, self._clock.monotonic())

    def begin(self) -> None:
        """Note that a turn begins: until it ends, there may be work to do."""
        now, since = self._clock.monotonic(), self._notes.since
        self._note(since=now if since is None else since, wait=ForDatabase(), waiting_since=now)

    def made(self) -> None:
        """Note that a commit brought a retry nearer to its end."""
        self._note(since=self._clock.monotonic(), loses_copies=False)

    def lost(self) -> None:
        """Note that copies did not come back: the batch waits for them, or is staged again."""
        self._note(loses_copies=True)

    def idle(self, is_any_staging: Callable[[], bool]) -> None:
        """Note that a turn found no work.

        A turn does not find what is paused or waits for its time, and that is no standstill. It
        does not find a batch that backs off because its copies vanish either, but there the
        standstill goes on (decision 0022).
        """
        if self._notes.loses_copies and is_any_staging():
            self._note(wait=None)
        else:
            self.rest()

    def rest(self) -> None:
        """Note that there is nothing to do: no work was found, or another process has the lease."""
        self._notes = ProgressNotes()

    @contextmanager
    def waiting(self, wait: Wait) -> Iterator[None]:
        """Note this wait for the time of the block; restore the previous one afterwards."""
        before = self._notes.wait
        self._note(wait=wait, waiting_since=self._clock.monotonic())
        try:
            yield
        finally:
            self._note(wait=before, waiting_since=self._clock.monotonic())

    def awaits(self, awaited: Awaited) -> None:
        """Note what a publisher waits for: the end of an alarm, confirms, or the broker itself."""
        if awaited.blocked:
            self._note(wait=ForAlarm())
        else:
            queues = awaited.queues
            self._note(wait=ForConfirms(queues) if queues else ForBroker())

    def _note(self, **changes: object) -> None:
        self._notes = replace(self._notes, **changes)  # type: ignore[arg-type]  # fields by name


SERVERS = (BrokerUnavailable, DatabaseUnavailable)


def kind_of(error: Exception) -> type[Exception]:
    """Return the kind under which an error is logged: a server out of reach is always one kind."""
    return next((kind for kind in SERVERS if isinstance(error, kind)), type(error))

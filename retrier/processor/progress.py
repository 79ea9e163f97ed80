"""The processor's progress: noted by its thread, read by whoever asks how it is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from retrier.clock import Clock
from retrier.domain.standstill import (
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
    """Knows when something was last recorded, and what the processor waits for at present.

    One thread notes, any thread reads: the notes are one value that is replaced, so nobody waits
    for a lock, whatever the processor hangs on. What a turn does is a question to the database
    unless it is noted as something else.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._notes = ProgressNotes()

    @property
    def standstill(self) -> Standstill | None:
        """Why nothing was recorded for too long; None while the processor gets on."""
        return find_standstill(self._notes, self._clock.monotonic())

    def begin(self) -> None:
        """Note that a turn begins: until it is over there may be something to do."""
        now, since = self._clock.monotonic(), self._notes.since
        self._note(since=now if since is None else since, wait=ForDatabase(), waiting_since=now)

    def made(self) -> None:
        """Note that something was recorded that brings a retry nearer to its end."""
        self._note(since=self._clock.monotonic(), loses_copies=False)

    def lost(self) -> None:
        """Note that copies did not come back, whether the batch begins anew or still waits."""
        self._note(loses_copies=True)

    def idle(self, is_any_staging: Callable[[], bool]) -> None:
        """Note that a turn found nothing that may move.

        Whatever is held back on purpose is not found: what a person paused, what waits for its
        time. A batch that waits because its copies vanish is not found either, but that is no
        purpose: the standstill goes on.
        """
        if self._notes.loses_copies and is_any_staging():
            self._note(wait=None)
        else:
            self.rest()

    def rest(self) -> None:
        """Note that there is nothing to do here: another process is the processor."""
        self._notes = ProgressNotes()

    @contextmanager
    def waiting(self, wait: Wait) -> Iterator[None]:
        """Note what is waited for in between, and afterwards what was waited for before."""
        before = self._notes.wait
        self._note(wait=wait, waiting_since=self._clock.monotonic())
        try:
            yield
        finally:
            self._note(wait=before, waiting_since=self._clock.monotonic())

    def awaits(self, awaited: Awaited) -> None:
        """Note what a publisher that waits for the broker says of it."""
        if awaited.blocked:
            self._note(wait=ForAlarm())
        else:
            queues = awaited.queues
            self._note(wait=ForConfirms(queues) if queues else ForBroker())

    def _note(self, **changes: object) -> None:
        self._notes = replace(self._notes, **changes)  # type: ignore[arg-type]  # fields by name


SERVERS = (BrokerUnavailable, DatabaseUnavailable)


def kind_of(error: Exception) -> type[Exception]:
    """Return what makes one trouble: all the ways in which a server is out of reach are one."""
    return next((kind for kind in SERVERS if isinstance(error, kind)), type(error))

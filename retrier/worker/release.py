"""When a worker lets go of messages that it has not started, and how."""

from collections.abc import Sequence

from retrier.domain import headers
from retrier.worker.hand import Hand, Held
from retrier.worker.line import Line
from retrier.worker.pause import Pause
from retrier.worker.settlement import Settlements


class Release:
    """Other workers may be able to handle them, or they are neighbours of a suspect."""

    def __init__(
        self, hand: Hand, pause: Pause, settlements: Settlements, *, hold_streams: bool
    ) -> None:
        self._hand = hand
        self._pause = pause
        self._settlements = settlements
        self._hold_streams = hold_streams

    def is_due(self, line: Line) -> bool:
        """Return whether to take no more: for a pause, or for a suspect that has neighbours.

        Not while a message of a stream is held: that would lose its place.
        """
        is_holding = any(map(self.is_held, self._hand.waiting))
        has_suspect = not line.careful and bool(self._hand.suspects) and not self._hand.is_small
        return has_suspect or (self._pause.active and not is_holding)

    def is_held(self, held: Held) -> bool:
        """Return whether the message stays in hand during a pause."""
        return self._hold_streams and held.properties.text(headers.STREAM) is not None

    def find_kept(self) -> list[Held]:
        """Return the message that is still to be handled, alone: a suspect, if there is one."""
        return [] if self._pause.active else self._hand.suspects[:1]

    def keeps_place(self, line: Line, held: Held) -> bool:
        """Return whether the message is left to the end of the line, to be in its place again.

        Only where the queue counts: elsewhere it would be counted by a copy for the tail.
        """
        return self.is_held(held) and held.delivery.queue in line.counted

    def put_back_running(self, line: Line) -> None:
        """Put what is still being handled to the tail: a stop is no crash, and nothing is counted.

        A message that is to keep its place is left to the end of the line.
        """
        for held in self._hand.running:
            if not self.keeps_place(line, held):
                self._settlements.add_again(held, held.crashes)
        self._hand.running.clear()

    def put_back_early(self, now: float) -> None:
        """Put what is too early to be started to the tail, so that it does not hold its queue."""
        for held in list(self._hand.waiting):
            if held.timeouts and held.seen_until <= now < held.not_before:
                self._hand.waiting.remove(held)
                self._settlements.add_again(held, held.crashes)

    def put_back(self, keep: Sequence[Held] = ()) -> None:
        """Put what was not started to the tail: to requeue it would count as a crash (R44).

        Where streams are held, it is left to the end of the line, which puts it in its place.
        """
        for held in self._hand.waiting if not self._hold_streams else ():
            if held not in keep:
                self._settlements.add_again(held, held.crashes)
        self._hand.waiting[:] = [held for held in self._hand.waiting if held in keep]

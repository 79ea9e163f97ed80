"""How long a consumer waits between two looks at a queue that is empty."""

from threading import Event

FIRST = 0.01
LAST = 0.05


class Idling:
    """Waits that grow from 10 ms: short for whoever expects something, cheap for the idle."""

    def __init__(self, longest: float = LAST) -> None:
        """`longest` is the wait in seconds that they grow to."""
        self._longest = longest
        self._next = min(FIRST, longest)
        self._never = Event()

    def wait(self, left: float | None) -> None:
        """Wait once, no longer than `left` seconds."""
        self._never.wait(self._next if left is None else min(self._next, left))
        self._next = min(2 * self._next, self._longest)

"""The breaker of a worker: where most messages fail, none is taken for a time, then one."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """Open when this share of the last so many messages failed; after `cooldown` seconds one is tried."""

    window: int = 20
    threshold: float = 0.5
    cooldown: float = 30.0

    def find_problems(self) -> Iterator[str]:
        """Yield what cannot be, each in a sentence."""
        if self.window < 1:
            yield f"the window of the breaker must be at least 1, not {self.window}"
        if not 0 < self.threshold <= 1:
            yield f"the threshold of the breaker must be above 0, at most 1, not {self.threshold:g}"
        if not self.cooldown > 0:
            yield f"the cooldown of the breaker must be more than 0 seconds, not {self.cooldown:g}"


class State(StrEnum):
    """What a breaker lets through: everything, nothing, or one message at a time."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Circuit:
    """A breaker at work. `now` is the monotonic clock's. Without a breaker it is closed for ever."""

    def __init__(self, breaker: Breaker | None) -> None:
        self._breaker = breaker
        self._failed: deque[bool] = deque(maxlen=None if breaker is None else breaker.window)
        self._until = 0.0
        self.state = State.CLOSED
        self.why = ""
        """What is said while it is open."""

    def note(self, now: float, *, failed: bool) -> bool:
        """Note what became of a message that was tried; return whether the state is another one.

        While it is open, what was begun before is not counted: it says nothing of the time after.
        """
        before = self.state
        if self._breaker is None:
            return False
        match self.state:
            case State.CLOSED:
                self._failed.append(failed)
                self._judge(self._breaker, now)
            case State.HALF_OPEN if failed:
                self._open(self._breaker, now, "the message that was tried failed")
            case State.HALF_OPEN:
                self.state = State.CLOSED
            case _:
                pass
        return self.state is not before

    def check(self, now: float) -> bool:
        """Return whether nothing is to be taken; when its time is over, one message is."""
        if self.state is State.OPEN and now >= self._until:
            self.state = State.HALF_OPEN
        return self.state is State.OPEN

    def _judge(self, breaker: Breaker, now: float) -> None:
        failures = sum(self._failed)
        is_full = len(self._failed) == breaker.window
        if is_full and failures / breaker.window >= breaker.threshold:
            self._open(breaker, now, f"{failures} of the last {breaker.window} messages failed")

    def _open(self, breaker: Breaker, now: float, why: str) -> None:
        self.state = State.OPEN
        self._failed.clear()
        self._until = now + breaker.cooldown
        self.why = f"{why}; one is tried after {breaker.cooldown:g} s"

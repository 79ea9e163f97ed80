"""Whether the broker has a queue with `@` in its name: asked for few names, and remembered."""

from collections.abc import Callable, Sequence
from threading import Lock

from retrier.clock import Clock
from retrier.http.parts import Sight

MOST_NAMES = 100
"""Names that are remembered, and so asked in a minute: a sender may write any number of them."""

KEPT = 60.0
"""Seconds for which an answer holds: the queue may be declared, or deleted."""

KEPT_UNKNOWN = 5.0
"""Seconds until the broker is asked again that has not answered."""


LOOK_SECONDS = 5.0
"""How long ingestion waits for one answer: longer than a person, as a wrong name misleads a retry."""


class WholeNames:
    """Answers from its memory if it can; never raises, and takes as long as one look at most.

    A broker that has not answered is not asked about other names either, for a while.
    """

    def __init__(self, look_at: Callable[[Sequence[str]], Sight], clock: Clock) -> None:
        self._look_at = look_at
        self._clock = clock
        self._lock = Lock()
        self._known: dict[str, tuple[bool, float]] = {}
        self._rests_until = float("-inf")

    def exists(self, queue: str) -> bool:
        """Return whether the broker has it; False too if nobody can say, or too many are asked."""
        with self._lock:
            now = self._clock.monotonic()
            self._known = {name: each for name, each in self._known.items() if each[1] > now}
            if queue in self._known:
                return self._known[queue][0]
            if len(self._known) >= MOST_NAMES or now < self._rests_until:
                return False
            seen = self._look_at([queue])
            is_known = seen.why_not is None and queue not in seen.unsure
            if seen.why_not is not None:
                self._rests_until = self._clock.monotonic() + KEPT_UNKNOWN
            found = is_known and queue not in seen.missing
            kept = KEPT if is_known else KEPT_UNKNOWN
            self._known[queue] = found, self._clock.monotonic() + kept
            return found

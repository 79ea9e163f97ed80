"""How often what is costly may be done, and answers that are kept meanwhile."""

import threading
from collections.abc import Callable, Hashable
from math import inf
from typing import TypeVar, cast

from retrier.clock import Clock, SystemClock
from retrier.domain.values import dataclass
from retrier.errors import AnswerTooSlow

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often something may be done: it takes one part in `times` of a thread.

    `least` and `longest` bound the seconds between two times.
    """

    times: float
    least: float = 0.0
    longest: float = inf

    def rest(self, cost: float) -> float:
        """Return the seconds to wait after something that took `cost` seconds."""
        return max(self.least, min(self.times * cost, self.longest))


COSTLY = 0.2
"""Seconds; an answer that takes less is not cached."""

ANSWERS = Pace(times=10, longest=60.0)
"""How long a costly answer is cached."""

FINDING_TIMEOUT = 5.0
"""Seconds to wait while another thread finds an answer."""


class AnswerCache:
    """Caches a costly answer for ten times as long as it took to find.

    So counting a million messages uses at most a tenth of one thread, however many clients poll.
    With few messages nothing is cached.
    """

    def __init__(self, clock: Clock | None = None, timeout: float = FINDING_TIMEOUT) -> None:
        self._clock = clock or SystemClock()
        self._timeout = timeout
        self._lock = threading.Lock()
        self._finding: dict[Hashable, threading.Lock] = {}
        self._answers: dict[Hashable, tuple[object, float]] = {}

    def get(self, key: Hashable, find: Callable[[], T]) -> T:
        """Return the cached answer of the key, or find it: one thread finds, the others wait.

        Raises AnswerTooSlow after `timeout`: if queries hang, threads must not hang in turn.
        """
        with self._lock:
            finding = self._finding.setdefault(key, threading.Lock())
        if not finding.acquire(timeout=self._timeout):
            raise AnswerTooSlow(f"others have waited for this answer for {self._timeout:g} s")
        try:
            answer, until = self._answers.get(key, (None, 0.0))
            if self._clock.monotonic() < until:
                return cast("T", answer)
            return self._find(key, find)
        finally:
            finding.release()

    def _find(self, key: Hashable, find: Callable[[], T]) -> T:
        started = self._clock.monotonic()
        answer = find()
        ended = self._clock.monotonic()
        cost = ended - started
        if cost >= COSTLY:
            self._answers[key] = (answer, ended + ANSWERS.rest(cost))
        return answer

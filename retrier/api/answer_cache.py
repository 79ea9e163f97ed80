"""Answers that are costly to find, remembered for a while: clients ask for them every second."""

import threading
from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from retrier.clock import Clock, SystemClock
from retrier.errors import AnswerTooSlow

T = TypeVar("T")

COSTLY = 0.2
"""Seconds; what is found faster is found anew each time."""

TIMES_ITS_COST = 10
LONGEST = 60.0
"""Seconds an answer is remembered at most."""

PATIENCE = 5.0
"""Seconds to wait while another thread finds an answer."""


class AnswerCache:
    """Remembers a costly answer for ten times as long as it took to find.

    So counting a million messages takes a tenth of one thread at most, however many clients
    poll; with few messages nothing is remembered.
    """

    def __init__(self, clock: Clock | None = None, patience: float = PATIENCE) -> None:
        self._clock = clock or SystemClock()
        self._patience = patience
        self._lock = threading.Lock()
        self._finding: dict[Hashable, threading.Lock] = {}
        self._answers: dict[Hashable, tuple[object, float]] = {}

    def get(self, key: Hashable, find: Callable[[], T]) -> T:
        """Return the answer remembered under the key, or find it; one thread finds, others wait.

        Raises AnswerTooSlow: where nobody finds it, they must not wait for each other in turn.
        """
        with self._lock:
            finding = self._finding.setdefault(key, threading.Lock())
        if not finding.acquire(timeout=self._patience):
            raise AnswerTooSlow(f"others have waited for this answer for {self._patience:g} s")
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
            self._answers[key] = (answer, ended + min(cost * TIMES_ITS_COST, LONGEST))
        return answer

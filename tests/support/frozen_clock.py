"""A clock that stands still until it is moved."""

from datetime import UTC, datetime, timedelta


class FrozenClock:
    """Implements retrier.clock.Clock."""

    def __init__(self) -> None:
        self._elapsed = 0.0
        self._start = datetime(2026, 5, 4, 13, 0, tzinfo=UTC)

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return 1000.0 + self._elapsed

    def advance(self, seconds: float) -> None:
        self._elapsed += seconds

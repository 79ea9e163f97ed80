"""What lies ready on the error queues and does not become less, as the looks at them show it."""

from collections.abc import Mapping
from dataclasses import dataclass

from retrier.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """So many messages were ready at the last look; `since` then it was never fewer, monotonic."""

    ready: int
    since: float


class Backlogs:
    """Written by the tick that looks at the broker, read by whoever asks how ingestion is.

    A queue that is handed out to one consumer at a time refuses no other: a broker tells nobody
    that he is not the one.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: Mapping[str, Backlog] = {}

    def find(self, queue: str) -> Backlog | None:
        """Return what lay ready there at the last look; None for nothing."""
        return self._seen.get(queue)

    def note(self, depths: Mapping[str, int | None]) -> None:
        """Note a look at queues."""
        self._seen = {queue: self._follow(queue, ready) for queue, ready in depths.items() if ready}

    def _follow(self, queue: str, ready: int) -> Backlog:
        before = self._seen.get(queue)
        if before is None or ready < before.ready:
            return Backlog(ready=ready, since=self._clock.monotonic())
        return Backlog(ready=ready, since=before.since)

"""Whether the service is ready, part by part, each with its reason; asked at any time, waits for nothing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from retrier.clock import Clock
from retrier.domain.standstill import PATIENCE, find_hang
from retrier.ingestion.ingestor import Ingestor
from retrier.processor.lease import Lease
from retrier.processor.processor import Processor
from retrier.processor.progress import Progress


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


Readiness = Mapping[str, tuple[bool, str]]
"""For each part whether it is ready, and why not (or a word on how it is)."""

Look = Callable[[], tuple[bool, str]]


class ReadinessBoard:
    """Collects what the parts say of themselves."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._looks: dict[str, Look] = {}

    def put(self, part: str, *, ready: bool, reason: str) -> None:
        """Note how a part is, until it is noted anew."""
        self.watch(part, lambda: (ready, reason))

    def watch(self, part: str, look: Look) -> None:
        """Ask a part itself whenever somebody wants to know."""
        with self._lock:
            self._looks[part] = look

    def read(self) -> Readiness:
        """Return how all parts are."""
        with self._lock:
            looks = dict(self._looks)
        return {part: look() for part, look in looks.items()}


def describe_database(imports: int) -> str:
    """Say how a database is that answers, and what waits in it that nobody else would name."""
    if imports == 0:
        return "reached"
    messages = "1 message" if imports == 1 else f"{imports} messages"
    return f"reached; {messages} could not be read: `retrier imports list`"


def describe_processor(processor: Processor, lease: Lease, progress: Progress) -> tuple[bool, str]:
    """Say whether it works, and how. A standby is ready: it is there to take over."""
    # Read once: its thread may take it back in between.
    reason = processor.reason
    if reason is not None:
        return not lease.held, reason
    if not lease.held:
        return True, "standing by"
    standstill = progress.standstill
    return (True, "processing") if standstill is None else (False, standstill.reason)


def describe_ingestion(ingestors: Sequence[Ingestor], backlogs: Backlogs) -> tuple[bool, str]:
    """Say whether every error queue is consumed, and each of them why not."""
    told = [_describe_queue(ingestor, backlogs) for ingestor in ingestors]
    return all(ready for ready, _ in told), "; ".join(words for _, words in told)


def _describe_queue(ingestor: Ingestor, backlogs: Backlogs) -> tuple[bool, str]:
    state = ingestor.state
    trouble = _find_trouble(ingestor, backlogs) if state.consuming else state.reason
    return trouble is None, f"{state.queue}: {trouble or 'consuming'}"


def _find_trouble(ingestor: Ingestor, backlogs: Backlogs) -> str | None:
    """Say why nothing moves although the queue is consumed, as far as the broker knows."""
    now = ingestor.clock.monotonic()
    hang = find_hang(ingestor.storing_since, now)
    if hang is not None:
        return hang.reason
    backlog = backlogs.find(ingestor.state.queue)
    if backlog is None or now - max(backlog.since, ingestor.handed_at) < PATIENCE:
        return None
    seconds = int(now - max(backlog.since, ingestor.handed_at))
    return (
        f"{backlog.ready} messages are ready, and none was handed out here for {seconds} s: "
        "another consumer is the active one"
    )

"""Whether the service is ready, part by part, each with a reason; can be read at any time."""

from collections.abc import Callable, Mapping, Sequence
from threading import Lock

from retrier.clock import Clock
from retrier.domain.processor_work import STANDSTILL_AFTER, find_hang
from retrier.domain.text import count_messages
from retrier.domain.values import dataclass
from retrier.ingestion.ingestor import Ingestor
from retrier.processor.broker import Progress
from retrier.processor.lease import Lease
from retrier.processor.processor import Processor
from retrier.store.words import WordLag
from retrier.web.parts import QueueState


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """`ready` messages at the last look; since `since` (monotonic) their number never fell."""

    ready: int
    since: float


class Backlogs:
    """Backlogs of the queues: written by the recurring task, read for the state of ingestion.

    A queue with a single active consumer accepts other consumers, too, and does not report to
    them that they get nothing. A backlog that does not shrink is the only sign of it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: Mapping[str, Backlog] = {}
        self.depths: Mapping[str, int | None] = {}
        """What the last look saw; None: there is no such queue. Empty: nobody could look."""

    def find(self, queue: str) -> Backlog | None:
        """Return the backlog of a queue at the last look; None if it was empty."""
        return self._seen.get(queue)

    def note(self, depths: Mapping[str, int | None]) -> None:
        """Store the depths seen by one look at the queues."""
        self.depths = depths
        self._seen = {queue: self._follow(queue, ready) for queue, ready in depths.items() if ready}

    def _follow(self, queue: str, ready: int) -> Backlog:
        before = self._seen.get(queue)
        if before is None or ready < before.ready:
            return Backlog(ready=ready, since=self._clock.monotonic())
        return Backlog(ready=ready, since=before.since)


Readiness = Mapping[str, tuple[bool, str]]
"""For each part whether it is ready, and the reason if not, else a word about its state."""

Look = Callable[[], tuple[bool, str]]


class ReadinessBoard:
    """Collects the readiness of all parts."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._looks: dict[str, Look] = {}

    def put(self, part: str, *, ready: bool, reason: str) -> None:
        """Set the state of a part, until it is set again."""
        self.watch(part, lambda: (ready, reason))

    def watch(self, part: str, look: Look) -> None:
        """Call `look` for the state of a part each time the board is read."""
        with self._lock:
            self._looks[part] = look

    def read(self) -> Readiness:
        """Return the state of all parts."""
        with self._lock:
            looks = dict(self._looks)
        return {part: look() for part, look in looks.items()}


_BEHIND = 60.0
"""Seconds by which words may be behind before it is told: a burst of failures is read after it."""


def describe_database(
    imports: int,
    *,
    recovering: bool = False,
    words: WordLag | None = None,
    vacuum: Sequence[str] = (),
) -> str:
    """Say how a database is that answers, and what waits in it that nobody else would name."""
    told = ["reached"]
    if imports:
        messages = count_messages(imports)
        told.append(f"{messages} could not be read: `retrier imports list`")
    if recovering:
        told.append("a recovery is under way, and nothing is presumed: `retrier recover`")
    if words is not None and words.seconds > _BEHIND:
        told.append(f"full text does not find what failed in the last {words.seconds:.0f} s")
    told += [f"warning: {each}" for each in vacuum]
    return "; ".join(told)


def describe_processor(processor: Processor, lease: Lease, progress: Progress) -> tuple[bool, str]:
    """Return whether the processor works, and a reason. A standby is ready: it can take over."""
    # Read once: the processor's thread may reset it to None between two reads.
    reason = processor.reason
    if reason is not None:
        return not lease.held, reason
    if not lease.held:
        return True, "standing by"
    standstill = progress.standstill
    return (True, "processing") if standstill is None else (False, standstill.reason)


def describe_ingestion(ingestors: Sequence[Ingestor], backlogs: Backlogs) -> tuple[bool, str]:
    """Return whether every error queue is consumed, and the state of each."""
    states = [_describe_queue(ingestor, backlogs) for ingestor in ingestors]
    return all(ready for ready, _ in states), "; ".join(words for _, words in states)


def look_at_queues(
    error_queues: Sequence[str],
    staging_queue: str,
    ingestors: Sequence[Ingestor],
    backlogs: Backlogs,
) -> Sequence[QueueState]:
    """Return the state of every queue that this installation reads, for the page."""
    by_name = {each.state.queue: each for each in ingestors}
    depths = backlogs.depths
    return [
        QueueState(
            name=name,
            is_staging=name == staging_queue,
            is_known=name in depths,
            depth=depths.get(name),
            is_consumed=name in by_name,
            trouble=_trouble_of(by_name[name], backlogs) if name in by_name else None,
        )
        for name in (*error_queues, staging_queue)
    ]


def _trouble_of(ingestor: Ingestor, backlogs: Backlogs) -> str | None:
    state = ingestor.state
    return _find_trouble(ingestor, backlogs) if state.consuming else state.reason


def _describe_queue(ingestor: Ingestor, backlogs: Backlogs) -> tuple[bool, str]:
    state = ingestor.state
    trouble = _trouble_of(ingestor, backlogs)
    # A reason that begins with the queue's name would name it twice.
    words = (trouble or "consuming").removeprefix(f"the error queue {state.queue} ")
    return trouble is None, f"{state.queue}: {words}"


def _find_trouble(ingestor: Ingestor, backlogs: Backlogs) -> str | None:
    """Return why nothing is ingested although we consume the queue; None if all is well."""
    now = ingestor.clock.monotonic()
    hang = find_hang(ingestor.storing_since, now)
    if hang is not None:
        return hang.reason
    backlog = backlogs.find(ingestor.state.queue)
    if backlog is None or now - max(backlog.since, ingestor.handed_at) < STANDSTILL_AFTER:
        return None
    seconds = int(now - max(backlog.since, ingestor.handed_at))
    return (
        f"{count_messages(backlog.ready)} {'is' if backlog.ready == 1 else 'are'} ready, and none was handed out here for {seconds} s: "
        "another consumer is the active one"
    )

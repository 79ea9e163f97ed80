"""How the parts of this process are, in words: asked at any time, and nothing is waited for."""

from collections.abc import Sequence

from retrier.app.backlogs import Backlogs
from retrier.domain.standstill import PATIENCE, find_hang
from retrier.ingestion.ingestor import Ingestor
from retrier.processor.lease import Lease
from retrier.processor.processor import Processor
from retrier.processor.progress import Progress


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

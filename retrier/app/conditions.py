"""How the parts of this process are, in words: asked at any time, and nothing is waited for."""

from collections.abc import Sequence

from retrier.domain.standstill import find_hang
from retrier.ingestion.ingestor import Ingestor
from retrier.processor.lease import Lease
from retrier.processor.processor import Processor
from retrier.processor.progress import Progress


def describe_processor(processor: Processor, lease: Lease, progress: Progress) -> tuple[bool, str]:
    """Say whether it works, and how. A standby is ready: it is there to take over."""
    if processor.reason is not None:
        return not lease.held, processor.reason
    if not lease.held:
        return True, "standing by"
    standstill = progress.standstill
    return (True, "processing") if standstill is None else (False, standstill.reason)


def describe_ingestion(ingestors: Sequence[Ingestor]) -> tuple[bool, str]:
    """Say whether every error queue is consumed, and each of them why not."""
    told = [_describe_queue(ingestor) for ingestor in ingestors]
    return all(ready for ready, _ in told), "; ".join(words for _, words in told)


def _describe_queue(ingestor: Ingestor) -> tuple[bool, str]:
    state = ingestor.state
    hang = find_hang(ingestor.storing_since, ingestor.clock.monotonic())
    if state.consuming and hang is not None:
        return False, f"{state.queue}: {hang.reason}"
    return state.consuming, f"{state.queue}: {state.reason or 'consuming'}"

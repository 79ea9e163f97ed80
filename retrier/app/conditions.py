"""How the parts of this process are, in words: asked at any time, and nothing is waited for."""

from collections.abc import Sequence

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
    states = [ingestor.state for ingestor in ingestors]
    words = [f"{state.queue}: {state.reason or 'consuming'}" for state in states]
    return all(state.consuming for state in states), "; ".join(words)

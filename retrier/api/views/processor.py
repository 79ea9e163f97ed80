"""The processor as JSON: who it is, what it does, what it waits for and why."""

from dataclasses import asdict

from retrier.api.answers import Json, camel, present, time
from retrier.domain.processor_work import Work, find_work, wait_until
from retrier.domain.retry_operation import RetryOperation
from retrier.domain.waiting import why_it_waits
from retrier.store.queries.processor_work import Processor, ProcessorState


def processor(found: ProcessorState, here: tuple[bool, str] | None) -> Json:
    """Show the processor; `here` is what this process says of itself if it is the processor."""
    held = found.processor is not None and found.processor.is_held
    queue = found.queue
    shown = {} if here is None else {"here": {"ok": here[0], "reason": here[1]}}
    trouble = None if here is None or here[0] else here[1]
    waiting = [_waiting(each, found, trouble) for each in queue.operations]
    work = _work(find_work(queue, is_held=held, trouble=trouble))
    return _holder(found.processor) | work | shown | {"operations": waiting}


def _holder(found: Processor | None) -> Json:
    if found is None:
        return {"is_held": False}
    times = {n: time(getattr(found, n)) for n in ("acquired_at", "renewed_at", "expires_at")}
    return present(asdict(found) | times)


def _work(work: Work) -> Json:
    return present(asdict(work) | {"until": time(work.until)})


def _waiting(operation: RetryOperation, found: ProcessorState, trouble: str | None) -> Json:
    """Show an operation that is not over, with why it is not cut, or what keeps the processor."""
    at, key = found.queue.at, operation.operation_id
    batch = next((each for each in found.queue.batches if each.operation_id == key), None)
    schedule = found.queue.schedule
    why = why_it_waits(operation, at, schedule, found.queue.obstacles)
    until = wait_until(operation, at, schedule)
    if batch is not None:
        why, until = why or batch.reason, until or batch.not_before
    return present(
        {
            "id": key,
            "originator": operation.originator,
            "state": camel(operation.state),
            "remaining": operation.remaining,
            "batch_id": None if batch is None else batch.batch_id,
            "waits_because": why or trouble,
            "until": time(until),
        }
    )

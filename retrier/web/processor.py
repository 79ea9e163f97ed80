"""The processor, the instances and the ledger: who works, at what, and whether all adds up."""

from collections.abc import Iterator
from datetime import datetime

from fastapi import APIRouter, Request, Response

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.processes import find_differences
from retrier.domain.processor_work import WaitingFor, Work, find_work
from retrier.domain.retry_batch import RetryBatchStatus
from retrier.store.batches import list_batches
from retrier.store.figures import KINDS_OF_DELIVERY, count_taken_off, read_ledger
from retrier.store.outgoing import count_outgoing
from retrier.store.policies import list_judging_processes
from retrier.store.processes import list_processes
from retrier.store.processor_work import LeaseState, find_processor
from retrier.web.operation_lines import MOMENT, operation_line
from retrier.web.page import show
from retrier.web.parts import Parts, QueueState
from retrier.web.wording import Fact, plural, sentence, time_facts

_KINDS = {
    "new": "new failed messages",
    "repeated": "failed again",
    "redelivered": "delivered twice by the broker",
    "confirmations": "confirmations",
    "own_copies": "own copies that came back",
    "failed_imports": "could not be read",
}


def _headline(found: LeaseState | None, session_id: str) -> str:
    if found is None:
        return "No process was the processor yet"
    if not found.is_held:
        return "No process is the processor: nothing is sent until one takes the lease"
    if found.session_id == session_id:
        return "This process is the processor"
    return f"The processor is process {found.pid} on {found.host}"


def _lease(found: LeaseState, session_id: str) -> Iterator[Fact]:
    if found.host is not None:
        name = "Holder" if found.is_held else "Last holder"
        own = ", this process" if found.session_id == session_id else ""
        yield Fact(name=name, value=f"process {found.pid} on {found.host}{own}")
    yield Fact(name="Epoch", value=str(found.epoch))
    yield from time_facts(
        held_since=found.acquired_at, renewed=found.renewed_at, ends=found.expires_at
    )
    if found.session_id is not None:
        yield Fact(name="Session", value=found.session_id)


_STAGES = {
    RetryBatchStatus.MARKING: "It claims the next messages of an operation.",
    RetryBatchStatus.STAGING: "It puts copies into the staging queue.",
    RetryBatchStatus.FORWARDING: "It sends copies to their queues.",
}


def _goes_on(work: Work, at: datetime) -> bool:
    return work.waits_for is WaitingFor.TIME and work.until is not None and work.until - at < MOMENT


def _work(work: Work, at: datetime) -> str:
    if _goes_on(work, at):
        return "It sends at a rate: the next messages go out within seconds."
    if work.waits_for is not None:
        return f"It waits: {work.why or work.waits_for.value}."
    stage = "" if work.stage is None else _STAGES[work.stage]
    return stage if work.why is None else f"{stage} It does not get on: {work.why}."


def _ready(each: QueueState) -> str:
    if not each.is_known:
        return "not known"
    if each.depth is None:
        return "not created yet" if each.is_staging else "does not exist"
    return plural(each.depth, "message")


def _state(each: QueueState) -> tuple[str, str]:
    if each.is_staging:
        return "holds copies while a batch is sent", ""
    if not each.is_consumed:
        return "another process takes its messages off, or none does", ""
    if each.trouble is not None:
        return sentence(each.trouble), "bad"
    return "its messages are taken off", "good"


router = APIRouter(prefix="/processor")


@router.get("")
def get_processor(request: Request, parts: Parts) -> Response:
    """Show who is the processor, what it does, and what waits."""
    state, health = find_processor(parts.db), parts.health()
    found, queue, session_id = state.processor, state.queue, parts.session_id
    is_held = found is not None and found.is_held
    ok, reason = health.get("processor", (True, ""))
    # Why it does not get on is only known if this process is it.
    is_here = found is not None and found.session_id == session_id
    work = find_work(queue, is_held=is_held, trouble=reason if is_here and not ok else None)
    processes = list_judging_processes(parts.db)
    return show(
        request,
        "processor.html",
        current="/processor",
        headline=_headline(found, session_id),
        is_held=is_held,
        work=_work(work, queue.at),
        operation_id=work.operation_id,
        until=None if _goes_on(work, queue.at) else work.until,
        lease=[] if found is None else list(_lease(found, session_id)),
        health=[(name, *of_part) for name, of_part in sorted(health.items())],
        queues=[(each, _ready(each), *_state(each)) for each in parts.queues()],
        operations=[
            operation_line(each, queue.at, schedule=queue.schedule, obstacles=queue.obstacles)
            for each in queue.operations
        ],
        batches=list_batches(parts.db),
        processes=processes,
        sets=len({each.set_hash for each in processes}),
        session_id=session_id,
        differences=find_differences(list_processes(parts.db)),
        outgoing=count_outgoing(parts.db),
        taken_off=count_taken_off(parts.db),
    )


@router.get("/ledger")
def get_ledger(request: Request, parts: Parts) -> Response:
    """Show the ledger: every stored message is counted for it, so it is asked for apart."""
    parts.must_see_all()
    read = read_ledger(parts.db)
    deliveries = read.entry("taken_off") + read.entry("reimported")
    kinds = {_KINDS[kind]: read.entry(kind) for kind in KINDS_OF_DELIVERY}
    states = {each.replace("_", " "): read.stored.get(each, 0) for each in FailedMessageStatus}
    messages = {**states, "deleted for their age": read.entry("deleted")}
    return show(
        request,
        "ledger.html",
        current="/processor",
        sums=[
            (
                "Taken off the error queues, or read again",
                deliveries,
                kinds,
                read.uncounted_deliveries,
            ),
            ("New failed messages", read.entry("new"), messages, read.missing_messages),
        ],
    )

"""The processor, the instances and the ledger: who works, at what, and whether all adds up."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from fastapi import APIRouter, Request, Response

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.processes import RunningProcess, find_differences
from retrier.domain.processor_work import WaitingFor, Work, find_work
from retrier.domain.retry_batch import RetryBatchStatus
from retrier.http.parts import Health
from retrier.store.batches import BatchCount, list_batches
from retrier.store.figures import KINDS_OF_DELIVERY, Ledger, count_taken_off, read_ledger
from retrier.store.outgoing import OutgoingCounts, count_outgoing
from retrier.store.policies import JudgingProcess, list_judging_processes
from retrier.store.processes import list_processes
from retrier.store.processor_work import LeaseState, ProcessorState, find_processor
from retrier.web.operation_lines import MOMENT, BatchView, OperationLine, batch_view, operation_line
from retrier.web.page import show
from retrier.web.parts import Parts, QueueState
from retrier.web.wording import Fact, number, plural, sentence, time_facts

_KINDS = {
    "new": "new failed messages",
    "repeated": "failed again",
    "redelivered": "delivered twice by the broker",
    "confirmations": "confirmations",
    "own_copies": "own copies that came back",
    "failed_imports": "could not be read",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """What must add up: `whole` is the sum of the `terms`, apart from the `difference`."""

    title: str
    whole: int
    terms: Sequence[tuple[str, int]]
    difference: int
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerView:
    """Both sums."""

    sums: Sequence[Sum]


def ledger_view(read: Ledger) -> LedgerView:
    """Return the ledger as people read it."""
    deliveries = read.entry("taken_off") + read.entry("reimported")
    return LedgerView(
        sums=[
            Sum(
                title="Taken off the error queues, or read again",
                whole=deliveries,
                terms=[(_KINDS[kind], read.entry(kind)) for kind in KINDS_OF_DELIVERY],
                difference=read.uncounted_deliveries,
                verdict=_verdict(read.uncounted_deliveries),
            ),
            Sum(
                title="New failed messages",
                whole=read.entry("new"),
                terms=list(_messages(read)),
                difference=read.missing_messages,
                verdict=_verdict(read.missing_messages),
            ),
        ]
    )


def _messages(read: Ledger) -> Iterator[tuple[str, int]]:
    for status in FailedMessageStatus:
        yield status.value.replace("_", " "), read.stored.get(status, 0)
    yield "deleted for their age", read.entry("deleted")


def _verdict(difference: int) -> str:
    if difference == 0:
        return "It adds up."
    what = plural(abs(difference), "message")
    return f"It does not add up: {what} of difference ({number(difference)}). Run `retrier verify`."


@dataclass(frozen=True, slots=True, kw_only=True)
class PartLine:
    """A part of this process, whether it works, and a reason."""

    name: str
    is_well: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLine:
    """A queue in words."""

    name: str
    kind: str
    depth: int | None
    ready: str
    state: str
    tone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLine:
    """A process that judges by policies. `differs` says that others judge by another set."""

    process: JudgingProcess
    is_here: bool
    differs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was read for the page. `taken_off` counts deliveries by instance."""

    state: ProcessorState
    batches: Sequence[BatchCount]
    processes: Sequence[JudgingProcess]
    running: Sequence[RunningProcess]
    outgoing: Sequence[OutgoingCounts]
    taken_off: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """What this process knows of itself."""

    session_id: str
    instance: str
    health: Health
    queues: Sequence[QueueState]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorPage:
    """All that the page shows."""

    headline: str
    tone: str
    work: str
    work_link: str | None
    until: datetime | None
    lease: Sequence[Fact]
    parts: Sequence[PartLine]
    queues: Sequence[QueueLine]
    operations: Sequence[OperationLine]
    batches: Sequence[BatchView]
    processes: Sequence[ProcessLine]
    sets: int
    differences: Sequence[str]
    outgoing: Sequence[OutgoingCounts]
    taken_off: Mapping[str, int]


def processor_page(seen: Seen, here: Here) -> ProcessorPage:
    """Return the page."""
    found, queue = seen.state.processor, seen.state.queue
    held = found is not None and found.is_held
    work = find_work(queue, is_held=held, trouble=_trouble(found, here))
    sets = len({each.set_hash for each in seen.processes})
    return ProcessorPage(
        headline=_headline(found, here),
        tone="good" if held else "bad",
        work=_work(work, queue.at),
        work_link=None if work.operation_id is None else f"/operations/{work.operation_id}",
        until=None if _goes_on(work, queue.at) else work.until,
        lease=[] if found is None else list(_lease(found, here)),
        parts=[
            PartLine(name=name, is_well=ok, reason=reason)
            for name, (ok, reason) in sorted(here.health.items())
        ],
        queues=[_queue(each) for each in here.queues],
        operations=[
            operation_line(each, queue.at, schedule=queue.schedule, obstacles=queue.obstacles)
            for each in queue.operations
        ],
        batches=[batch_view(each) for each in seen.batches],
        processes=[
            ProcessLine(process=each, is_here=each.session_id == here.session_id, differs=sets > 1)
            for each in seen.processes
        ],
        sets=sets,
        differences=find_differences(seen.running),
        outgoing=seen.outgoing,
        taken_off=seen.taken_off,
    )


def _headline(found: LeaseState | None, here: Here) -> str:
    if found is None:
        return "No process was the processor yet"
    if not found.is_held:
        return "No process is the processor: nothing is sent until one takes the lease"
    if found.session_id == here.session_id:
        return "This process is the processor"
    return f"The processor is process {found.pid} on {found.host}"


def _lease(found: LeaseState, here: Here) -> Iterator[Fact]:
    if found.host is not None:
        name = "Holder" if found.is_held else "Last holder"
        own = ", this process" if found.session_id == here.session_id else ""
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
    told = "" if work.stage is None else _STAGES[work.stage]
    return told if work.why is None else f"{told} It does not get on: {work.why}."


def _trouble(found: LeaseState | None, here: Here) -> str | None:
    """Return why it does not get on, if this process is it: no other one knows."""
    ok, reason = here.health.get("processor", (True, ""))
    is_here = found is not None and found.session_id == here.session_id
    return reason if is_here and not ok else None


def _queue(each: QueueState) -> QueueLine:
    state, tone = _state(each)
    return QueueLine(
        name=each.name,
        kind="staging queue" if each.is_staging else "error queue",
        depth=each.depth,
        ready=_ready(each),
        state=state,
        tone=tone,
    )


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
    seen = Seen(
        state=find_processor(parts.db),
        batches=list_batches(parts.db),
        processes=list_judging_processes(parts.db),
        running=list_processes(parts.db),
        outgoing=count_outgoing(parts.db),
        taken_off=count_taken_off(parts.db),
    )
    here = Here(
        session_id=parts.session_id,
        instance=parts.instance,
        health=parts.health(),
        queues=parts.queues(),
    )
    return show(request, "processor.html", processor_page(seen, here), current="/processor")


@router.get("/ledger")
def get_ledger(request: Request, parts: Parts) -> Response:
    """Show the ledger: every stored message is counted for it, so it is asked for apart."""
    view = ledger_view(read_ledger(parts.db))
    return show(request, "ledger.html", view, current="/processor")

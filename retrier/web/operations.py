"""Retry operations: all of them, one of them, and what a person may do to it while it runs."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Query, Request, Response

from retrier.domain.outcomes import OUTCOME_WORDS, RetryOutcome
from retrier.domain.retry_batch import RetryBatchStatus
from retrier.domain.retry_operation import (
    ALIVE,
    CanaryState,
    Cancel,
    Order,
    Pause,
    Resume,
    RetryOperation,
    RetryOperationState,
    RetryType,
    SetRate,
    SteeringRefusal,
    hash_patch,
    name_skipped,
    refuse,
)
from retrier.domain.selection import chosen_parts, is_of_content
from retrier.domain.streams import tells_held
from retrier.domain.wait_reasons import estimate_end
from retrier.store.archive_lists import find_archive_operation
from retrier.store.batches import BatchDetails, find_batch
from retrier.store.event_log import EventFilter, list_newest_events
from retrier.store.message_lists import PageRequest
from retrier.store.operation_lists import (
    OperationDetails,
    find_operation,
    list_operations,
)
from retrier.web.approvals import why_not_approve, why_not_own
from retrier.web.counts import Snapshot
from retrier.web.forms import Form, QuestionForm, SentForm
from retrier.web.operation_lines import OperationLine, operation_line
from retrier.web.page import see_other, show
from retrier.web.pages import PAGE, PagedList, page_number
from retrier.web.parts import PageParts, Parts
from retrier.web.wording import Fact, capital, duration, number, plural, sentence, time_facts

PATH = "/operations"
SHOWN_SKIPPED = 100
"""Skipped ids that are shown one by one."""
SHOWN_CLAIMS = 20
"""Claims in doubt that are shown one by one."""
STAGES = {
    RetryBatchStatus.MARKING: "Its messages are being claimed. None of them is sent yet.",
    RetryBatchStatus.STAGING: "Copies are being put into the staging queue.",
    RetryBatchStatus.FORWARDING: "Its copies are being sent to their queues, one after another.",
}
"""What is done with a batch, by its status."""


def _pages_about(why: str, known: Snapshot) -> Mapping[str, str]:
    """Return the pages of breakers and streams if a reason to wait is about such a thing."""
    names = (f"“{each.key.name}”" for each in known.breakers.waiting)
    found = {"Breakers": "/breakers"} if any(name in why for name in names) else {}
    return found | ({"Streams": "/streams?held=1"} if tells_held(why) else {})


def outcome_link(shown: RetryOperation, outcome: RetryOutcome) -> str:
    """Return the address of the messages whose retry by this operation has this outcome."""
    key = shown.operation_id
    if outcome is RetryOutcome.WAITING:
        return f"/pending?operation={key}"
    return f"/messages?operation={key}&outcome={outcome}"


def messages_link(shown: RetryOperation, parts: PageParts, **more: str) -> str | None:
    """Return the address of the messages that match what was asked for, as they are now.

    None for who may not find them by what was asked for: the address would hold it.
    """
    chosen = chosen_parts(shown.selection)
    if not parts.shows_content and any(map(is_of_content, chosen)):
        return None
    told = {**chosen, **more}
    return f"/messages?{urlencode(told)}" if told else "/messages"


def refuse_now(shown: RetryOperation, order: Pause | Cancel) -> str | None:
    """Return why an order would be refused as things are."""
    return refuse(
        order,
        shown.state,
        cancel_asked=shown.cancel_asked,
        standing=shown.is_standing,
        asking=shown.is_asking,
    )


def _asked(shown: RetryOperation, parts: PageParts) -> Iterator[Fact]:
    yield Fact(name="Asked by", value=shown.requested_by)
    if shown.why:
        yield Fact(name="Because", value=shown.why)
    if shown.selection.ids is not None:
        yield Fact(name="Of", value=f"{plural(shown.total, 'message')} named by id")
    elif not shown.is_standing:
        chosen = parts.conditions(chosen_parts(shown.selection)).items()
        # The id of a group says nothing: its title is in the heading.
        words = ", ".join(
            "messages of this group" if name == "group" else f"{name.replace('_', ' ')} {value}"
            for name, value in chosen
        )
        yield Fact(name="Of", value=words or "all messages", link=messages_link(shown, parts))
    yield from _terms(shown)
    yield from time_facts(asked=shown.created_at, not_before=shown.not_before)


def _terms(shown: RetryOperation) -> Iterator[Fact]:
    if shown.limit is not None:
        yield Fact(name="Limit", value=plural(shown.limit, "message"))
    if shown.destination is not None:
        yield Fact(name="Sent to", value=shown.destination)
    if shown.drop_headers:
        yield Fact(name="Without the headers", value=", ".join(shown.drop_headers))
    if shown.patch is not None:
        yield Fact(name="Changed by the patch", value=hash_patch(shown.patch))
    if shown.rate is not None:
        yield Fact(name="Rate", value=f"{plural(shown.rate, 'message')} a second at most")


def _approval(shown: RetryOperation) -> Iterator[Fact]:
    """Tell who asked for approval, and what was decided."""
    found = shown.approval
    if found is None:
        return
    yield Fact(name="Asked for by", value=found.asked_by)
    yield Fact(name="Messages", value=number(found.total))
    if found.decided_by is not None:
        yield Fact(name=f"{capital(found.state)} by", value=found.decided_by)
    ends = found.lapses_at if found.is_asked else None
    yield from time_facts(asked=found.asked_at, lapses=ends, decided=found.decided_at)


def _progress(details: OperationDetails) -> Iterator[Fact]:
    shown, live = details.operation, f"operation/{details.operation.operation_id}"
    if not shown.is_standing:
        yield Fact(name="Messages", value=number(shown.total))
    yield Fact(name="Sent", value=number(shown.forwarded), live=f"{live}/forwarded")
    for outcome, count in shown.outcomes_shown.items():
        name = OUTCOME_WORDS[outcome]
        link = outcome_link(shown, outcome) if count else None
        yield Fact(name=capital(name), value=number(count), live=f"{live}/{outcome}", link=link)
    yield Fact(
        name=capital(name_skipped(shown.state)), value=number(shown.skipped), live=f"{live}/skipped"
    )
    yield Fact(name="Could not be sent", value=number(shown.failed), live=f"{live}/failed")
    yield Fact(name="Remaining", value=number(shown.remaining), live=f"{live}/remaining")
    yield Fact(name="Batches", value=number(shown.batches))
    schedule = details.schedule
    if schedule is not None:
        yield Fact(name="Scheduled", value=number(schedule.scheduled))
        yield from time_facts(next_due=schedule.next_at)
    yield from time_facts(
        started=shown.started_at,
        expected_end=estimate_end(shown, details.at, details.obstacles),
        ended=shown.completed_at,
        acknowledged=shown.acknowledged_at,
    )


_CANARY = {
    CanaryState.SENDING: "The first messages are being sent alone.",
    CanaryState.WAITING: "The first messages are sent. It waits to see whether they come back.",
    CanaryState.PASSED: "Few enough of the first messages came back: the rest goes on.",
    CanaryState.FAILED: "Too many of the first messages came back: it is paused. "
    "If you resume it, the rest is sent.",
}


def _canary(details: OperationDetails) -> str | None:
    """Say how far the first messages are, which are sent alone."""
    shown = details.operation
    canary = shown.canary
    if canary is None:
        return None
    back = details.came_back or 0
    return (
        f"{_CANARY[canary.state]} {number(min(canary.size, shown.sent))} of "
        f"{number(canary.size)} sent, {number(back)} came back, {number(canary.most_back)} may "
        f"within {duration(canary.wait)}."
    )


_PAUSE = "Pause it instead: it stays paused until somebody resumes it."


def cancel_form(found: OperationDetails, batch: BatchDetails | None) -> QuestionForm:
    """Return the question; nothing is asked where a cancel would be refused."""
    shown = found.operation
    address = f"/operations/{shown.operation_id}"
    why_not = "it is cancelled already" if shown.cancel_asked else refuse_now(shown, Cancel())
    if why_not is not None:
        return QuestionForm(
            title="It cannot be cancelled",
            what=sentence(why_not),
            button="",
            post_to=f"{address}/cancel",
            back=address,
            warnings=[_PAUSE] if shown.is_standing else [],
        )
    return QuestionForm(
        title="Cancel this operation?",
        what=capital(shown.originator),
        button=f"Cancel it, and leave {plural(shown.remaining, 'message')} unsent",
        post_to=f"{address}/cancel",
        back=address,
        counts=_counts(found, batch),
        warnings=["A cancelled operation does not begin again. A paused one does."],
        why="",
        leave="Keep it",
    )


def _counts(found: OperationDetails, batch: BatchDetails | None) -> list[str]:
    shown = found.operation
    sent, left = (plural(count, "message") for count in (shown.forwarded, shown.remaining))
    counts = [
        f"Sent already, and not to be taken back: {sent}.",
        f"Not sent yet: {left}. What is not sent stays unresolved, and can be retried later.",
    ]
    if batch is not None and batch.counted.in_doubt:
        count = plural(batch.counted.in_doubt, "message")
        counts.append(f"In doubt: {count}. These may have been sent already, and are finished.")
    return counts


router = APIRouter(prefix=PATH)

_EVENTS = 12
"""Lines of the event log that the page of one operation shows, the newest ones."""

PageText = Annotated[str, Query(alias="page")]


@router.get("")
def get_operations(request: Request, parts: Parts, page: PageText = "") -> Response:
    """List the operations, newest first; the standing one and those that are open come before."""
    wanted = PageRequest(number=page_number(page), size=PAGE)
    known, listed = parts.counts.snapshot(), list_operations(parts.db, wanted)
    alive = {each.operation_id: each for each in known.work.queue.operations}
    others = [each for each in listed.page.items if not each.is_standing]
    standing = [each for each in (*listed.page.items, *alive.values()) if each.is_standing]
    hidden = sorted(set(alive) - {each.operation_id for each in others})
    is_first = wanted.number == 1

    def line(each: RetryOperation) -> OperationLine:
        # What became of its retries is as it was last counted.
        schedule = listed.schedule or known.work.queue.schedule
        return operation_line(each, known.at, schedule, listed.obstacles)

    return show(
        request,
        "operations.html",
        current=PATH,
        standing=line(standing[0]) if standing and is_first else None,
        open_now=[line(alive[key]) for key in hidden if is_first and not alive[key].is_standing],
        listing=PagedList(
            rows=[line(each) for each in others],
            total=max(0, listed.page.total - bool(standing)),
            number=wanted.number,
            path=PATH,
            values={},
        ),
    )


@router.get("/{operation_id}")
def get_operation(request: Request, operation_id: str, parts: Parts) -> Response:
    """Show one operation."""
    found = find_operation(parts.db, operation_id)
    if found is None:
        return _find_elsewhere(parts, operation_id)
    shown, key = found.operation, found.operation.operation_id
    events = list_newest_events(
        parts.db, _EVENTS, EventFilter(operation_id=key, with_routine=False)
    )
    batch, known = _batch(parts, found), parts.counts.snapshot()
    line = operation_line(shown, found.at, found.schedule, found.obstacles)
    waits = line.waits or (found.batch_reason and sentence(found.batch_reason))
    may_steer = refuse_now(shown, Pause()) is None
    return show(
        request,
        "operation.html",
        current=PATH,
        operation=shown,
        line=line,
        asked=_asked(shown, parts),
        how_far=_progress(found),
        may_steer=may_steer,
        not_own=why_not_own(parts, key) or "",
        why_not_approve=why_not_approve(parts, shown) if shown.is_asking else None,
        approved=tuple(_approval(shown)),
        may_pause=may_steer and shown.state is not RetryOperationState.PAUSED,
        may_cancel=shown.state in ALIVE and not shown.cancel_asked and not shown.is_standing,
        refused=refuse_now(shown, Cancel()) if shown.is_standing else None,
        waits=waits,
        pages_about=_pages_about(waits or "", known),
        canary=_canary(found),
        batch=batch,
        stages=STAGES,
        claims=() if batch is None else batch.in_doubt[:SHOWN_CLAIMS],
        skipped=list(found.skipped.items())[:SHOWN_SKIPPED],
        skipped_because=Counter(found.skipped.values()),
        dead_link=messages_link(shown, parts, disposition="dead"),
        events=events,
    )


@router.get("/{operation_id}/cancel")
def ask_before_cancel(request: Request, operation_id: str, parts: Parts) -> Response:
    """Say what a cancel would end, and ask for it."""
    found = _found(parts, operation_id)
    question = cancel_form(found, _batch(parts, found))
    return show(request, "question.html", current=PATH, question=question)


@router.post("/{operation_id}/cancel")
def cancel(operation_id: str, parts: Parts, form: SentForm) -> Response:
    """Cancel it: nothing of it is sent that is not being sent already."""
    return _steer(parts, form, operation_id, Cancel(), "cancelled")


@router.post("/{operation_id}/pause")
def pause(operation_id: str, parts: Parts, form: SentForm) -> Response:
    """Pause it: its batch that is alive is finished, and no other is cut."""
    return _steer(parts, form, operation_id, Pause(), "paused")


@router.post("/{operation_id}/resume")
def resume(operation_id: str, parts: Parts, form: SentForm) -> Response:
    """Let it go on."""
    return _steer(parts, form, operation_id, Resume(), "resumed")


@router.post("/{operation_id}/rate")
def set_rate(operation_id: str, parts: Parts, form: SentForm) -> Response:
    """Limit how many messages of it are sent a second; an empty field lifts the limit."""
    rate = form.rate
    done = "unlimited" if rate is None else "limited"
    return _steer(parts, form, operation_id, SetRate(rate), done)


@router.post("/{operation_id}/acknowledge")
def acknowledge(operation_id: str, parts: Parts, form: SentForm) -> Response:
    """Take note that it is over, and with it others that were asked for in the same words."""
    shown = _found(parts, operation_id).operation
    _acknowledge(parts, shown, form.requested_by)
    return see_other(form.next("dismissed", f"{PATH}/{shown.operation_id}"))


def _acknowledge(parts: PageParts, shown: RetryOperation, who: str) -> None:
    group = shown.selection.group
    if shown.retry_type is RetryType.FAILURE_GROUP and group is not None:
        parts.gateway.acknowledge_group(group, who)
    else:
        parts.gateway.acknowledge_operation(shown.operation_id, who)


def _steer(parts: PageParts, form: Form, operation_id: str, order: Order, done: str) -> Response:
    came_to = parts.gateway.steer(operation_id, (order,), form.requested_by)
    if isinstance(came_to, SteeringRefusal):
        if came_to is SteeringRefusal.UNKNOWN:
            raise HTTPException(404, f"No operation has the id {operation_id[:100]}.")
        raise HTTPException(409, f"The operation is left as it is: {came_to}.")
    return see_other(form.next(done, f"{PATH}/{came_to.operation_id}"))


def _found(parts: PageParts, operation_id: str) -> OperationDetails:
    found = find_operation(parts.db, operation_id)
    if found is None:
        raise HTTPException(404, f"No operation has the id {operation_id[:100]}.")
    return found


def _batch(parts: PageParts, found: OperationDetails) -> BatchDetails | None:
    # The batch may have been done since the operation was read: then there is none any more.
    return None if found.batch_id is None else find_batch(parts.db, found.batch_id)


def _find_elsewhere(parts: PageParts, operation_id: str) -> Response:
    """Lead to the archive operation of this id: lines of the event log name both alike."""
    found = find_archive_operation(parts.db, operation_id)
    if found is None:
        raise HTTPException(404, f"No operation has the id {operation_id[:100]}.")
    return see_other(f"/archive_operations/{found.operation_id}")

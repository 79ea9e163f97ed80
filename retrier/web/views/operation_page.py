"""One retry operation: what was asked, by whom, why, how far it is, and what can be done with it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from retrier.domain.retry_operation import (
    ALIVE,
    CanaryState,
    Cancel,
    Pause,
    RetryOperation,
    RetryOperationState,
    refuse,
)
from retrier.domain.selection import chosen_parts
from retrier.domain.streams import tells_held
from retrier.domain.waiting import estimate_end
from retrier.store.queries.batches import BatchDetails
from retrier.store.queries.event_log import LoggedEvent
from retrier.store.queries.operation_outcomes import Outcomes
from retrier.store.queries.operations import OperationDetails
from retrier.web.snapshot import Snapshot
from retrier.web.views.batches import BatchView, batch_view
from retrier.web.views.event_lines import EventLine, event_lines
from retrier.web.views.facts import Fact, time_facts
from retrier.web.views.operations import OperationLine, operation_line
from retrier.web.wording import duration, number, plural, sentence

SHOWN_SKIPPED = 100
"""Skipped ids that are shown one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationPage:
    """All that the page of an operation shows. `refused` says why it cannot be cancelled.

    `look_at` has the pages that say more of what it waits for, by name.
    """

    line: OperationLine
    asked: Sequence[Fact]
    progress: Sequence[Fact]
    rate: int | None
    may_pause: bool
    may_resume: bool
    may_cancel: bool
    refused: str | None
    to_acknowledge: bool
    waits: str | None
    look_at: Mapping[str, str]
    canary: str | None
    canary_tone: str
    batch: BatchView | None
    skipped: Sequence[tuple[str, str]]
    skipped_because: Mapping[str, int]
    skipped_in_all: int
    dead: int
    dead_link: str
    events: Sequence[EventLine]
    outcomes: Outcomes | None

    @property
    def may_steer(self) -> bool:
        """Whether its rate may be changed."""
        return self.may_pause or self.may_resume


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundOperation:
    """What was read of it: itself, its batch alive, and the last lines of the event log about it."""

    details: OperationDetails
    batch: BatchDetails | None
    events: Sequence[LoggedEvent]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomesPage:
    """What became of the retries of an operation."""

    operation: RetryOperation
    outcomes: Outcomes


def operation_page(found: FoundOperation, known: Snapshot) -> OperationPage:
    """Return the page."""
    details = found.details
    shown = details.operation
    outcomes = known.outcomes.get(shown.operation_id)
    line = operation_line(shown, details.at, outcomes, details.schedule, details.obstacles)
    paused = shown.state is RetryOperationState.PAUSED
    steered = refuse_now(shown, Pause()) is None
    waits = line.waits or (details.batch_reason and sentence(details.batch_reason))
    return OperationPage(
        line=line,
        asked=list(_asked(shown)),
        progress=list(_progress(details)),
        rate=shown.rate,
        may_pause=steered and not paused,
        may_resume=steered and paused,
        may_cancel=shown.state in ALIVE and not shown.cancel_asked and not shown.is_standing,
        refused=refuse_now(shown, Cancel()) if shown.is_standing else None,
        to_acknowledge=line.is_over and shown.acknowledged_at is None,
        waits=waits,
        look_at=_look_at(waits or "", known),
        canary=_canary(details),
        canary_tone=_canary_tone(shown),
        batch=None if found.batch is None else batch_view(found.batch.counted, found.batch),
        skipped=list(details.skipped.items())[:SHOWN_SKIPPED],
        skipped_because=Counter(details.skipped.values()),
        skipped_in_all=shown.skipped,
        dead=shown.dead_left_out,
        dead_link=messages_link(shown, disposition="dead"),
        events=event_lines(found.events),
        outcomes=outcomes,
    )


def _look_at(why: str, known: Snapshot) -> Mapping[str, str]:
    """Return the pages of breakers and streams if the reason is about such a thing."""
    names = (f"`{each.key.name}`" for each in known.breakers.waiting)
    found = {"Breakers": "/breakers"} if any(name in why for name in names) else {}
    return found | ({"Streams": "/streams?held=1"} if tells_held(why) else {})


def messages_link(shown: RetryOperation, **more: str) -> str:
    """Return the address of the messages that match what was asked for, as they are now."""
    parts = {**chosen_parts(shown.selection), **more}
    return f"/messages?{urlencode(parts)}" if parts else "/messages"


def refuse_now(shown: RetryOperation, order: Pause | Cancel) -> str | None:
    """Return why an order would be refused as things are."""
    return refuse(order, shown.state, cancel_asked=shown.cancel_asked, standing=shown.is_standing)


def _asked(shown: RetryOperation) -> Iterator[Fact]:
    yield Fact(name="Asked by", value=shown.requested_by)
    if shown.why:
        yield Fact(name="Because", value=shown.why)
    if shown.selection.ids is not None:
        yield Fact(name="Of", value=f"{plural(shown.total, 'message')} named by id")
    elif not shown.is_standing:
        parts = chosen_parts(shown.selection).items()
        # The id of a group says nothing: its title is in the heading.
        words = ", ".join(
            "messages of this group" if name == "group" else f"{name.replace('_', ' ')} {value}"
            for name, value in parts
        )
        yield Fact(name="Of", value=words or "all messages", link=messages_link(shown))
    yield from _terms(shown)
    yield from time_facts(asked=shown.created_at, not_before=shown.not_before)


def _terms(shown: RetryOperation) -> Iterator[Fact]:
    if shown.limit is not None:
        yield Fact(name="Limit", value=plural(shown.limit, "message"))
    if shown.destination is not None:
        yield Fact(name="Sent to", value=shown.destination)
    if shown.drop_headers:
        yield Fact(name="Without the headers", value=", ".join(shown.drop_headers))
    if shown.rate is not None:
        yield Fact(name="Rate", value=f"{plural(shown.rate, 'message')} a second at most")


def _progress(details: OperationDetails) -> Iterator[Fact]:
    shown, live = details.operation, f"operation/{details.operation.operation_id}"
    if not shown.is_standing:
        yield Fact(name="Messages", value=number(shown.total))
    yield Fact(name="Sent", value=number(shown.forwarded), live=f"{live}/forwarded")
    yield Fact(name="Skipped", value=number(shown.skipped), live=f"{live}/skipped")
    yield Fact(name="Could not be sent", value=number(shown.failed), live=f"{live}/failed")
    yield Fact(name="Remaining", value=number(shown.remaining), live=f"{live}/remaining")
    yield Fact(name="Batches", value=number(shown.batches))
    schedule = details.schedule
    if schedule is not None:
        yield Fact(name="Scheduled", value=number(schedule.scheduled))
        yield from time_facts(next_due=schedule.next_at)
    yield from time_facts(
        started=shown.started_at,
        expected_end=estimate_end(shown, details.at),
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


def _canary_tone(shown: RetryOperation) -> str:
    failed = shown.canary is not None and shown.canary.state is CanaryState.FAILED
    return "bad" if failed else "wait"

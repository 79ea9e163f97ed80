"""The large numbers of the overview, each with a note."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from retrier.domain.failed_message import FailedMessageStatus, Resolution
from retrier.domain.waiting import estimate_end
from retrier.web.snapshot import Snapshot
from retrier.web.wording import ago, duration, number, plural, share

LATELY = timedelta(minutes=5)
"""Failures of this time are told beside those that are unresolved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One number; `tone` is `bad`, `wait` or nothing, and never says what the text does not."""

    key: str
    name: str
    value: str
    note: str
    tone: str = ""


def tiles(found: Snapshot) -> Sequence[Tile]:
    """Return the numbers of the overview."""
    return [_unresolved(found), _retried(found), _pending(found), _resolved(found), _dead(found)]


def _unresolved(found: Snapshot) -> Tile:
    count = found.unresolved
    recent = sum(each.failed for each in found.minutes if found.at - each.at < LATELY)
    return Tile(
        key="unresolved",
        name="Unresolved",
        value=number(count),
        note=f"{plural(recent, 'failure')} in 5 minutes",
        tone="bad" if count else "",
    )


def _retried(found: Snapshot) -> Tile:
    alive = found.work.queue.operations
    left = sum(each.remaining for each in alive)
    ends = [end for each in alive if (end := estimate_end(each, found.at)) is not None]
    if ends and left:
        note = f"about {duration(max(ends) - found.at)} left"
    else:
        note = f"{plural(len(alive), 'operation')} open" if alive else "no retry is open"
    return Tile(key="retried", name="Being retried", value=number(left), note=note)


def _pending(found: Snapshot) -> Tile:
    count, oldest = found.others.pending, found.others.oldest_pending
    note = "every retry has an outcome" if oldest is None else f"the oldest {ago(oldest, found.at)}"
    return Tile(key="pending", name="Pending retries", value=number(count), note=note)


def _resolved(found: Snapshot) -> Tile:
    by = found.others.resolved_lately
    count = sum(by.values())
    confirmed = by.get(Resolution.CONFIRMED, 0)
    note = f"{share(confirmed, count)} confirmed" if count else "in the last 24 hours"
    return Tile(key="resolved", name="Resolved in 24 hours", value=number(count), note=note)


def _dead(found: Snapshot) -> Tile:
    scheduled = found.scheduled
    if found.dead or scheduled:
        note = f"{number(scheduled)} scheduled"
        tone = "bad" if found.dead else ""
        return Tile(key="dead", name="Dead", value=number(found.dead), note=note, tone=tone)
    archived = found.others.statuses.get(FailedMessageStatus.ARCHIVED, 0)
    return Tile(key="archived", name="Archived", value=number(archived), note="set aside")

"""Redirects as rows: from where to where, and how many messages they concern now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from retrier.store.queries.redirects import Redirect
from retrier.web.parts import Sight
from retrier.web.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class RedirectRow:
    """One redirect. `unresolved` counts the messages that failed on the queue it comes from."""

    redirect_id: str
    from_queue: str
    to_queue: str
    modified_at: datetime
    unresolved: int
    is_missing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RedirectList:
    """All that the page shows; `queues` are suggested, as messages failed there."""

    rows: Sequence[RedirectRow]
    queues: Sequence[str]
    why_not_looked: str | None
    unsure: Mapping[str, str]


def redirect_list(redirects: Sequence[Redirect], found: Snapshot, seen: Sight) -> RedirectList:
    """Return the redirects with what is known of their queues."""
    counts = counts_of(found)
    return RedirectList(
        rows=[row(each, counts, seen) for each in redirects],
        queues=sorted(counts),
        why_not_looked=seen.why_not if redirects else None,
        unsure=seen.unsure,
    )


def row(redirect: Redirect, counts: Mapping[str, int], seen: Sight) -> RedirectRow:
    """Return one redirect as a row."""
    return RedirectRow(
        redirect_id=redirect.redirect_id,
        from_queue=redirect.from_queue,
        to_queue=redirect.to_queue,
        modified_at=redirect.modified_at,
        unresolved=counts.get(redirect.from_queue, 0),
        is_missing=redirect.to_queue in seen.missing,
    )


def counts_of(found: Snapshot) -> Mapping[str, int]:
    """Return how many messages are unresolved by queue."""
    return {each.key: each.count for each in found.queues}

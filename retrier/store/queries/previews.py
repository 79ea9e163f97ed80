"""Previews: what an operation would do, as things are. Nothing is changed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Select, and_, case, exists, func, select

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.retry_operation import (
    MOST_NUMBERS,
    RETRY,
    Plan,
    RetryRequest,
    hash_subject,
    hold_numbers,
)
from retrier.domain.selection import Selection
from retrier.domain.wire import PropertyCodec
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.cuts import CLAIMED, ISSUED
from retrier.store.queries.messages import ListedMessage, load
from retrier.store.queries.named import judge, look_up
from retrier.store.queries.preview_counts import COUNTED, By, Counts, Line, count_by
from retrier.store.queries.selections import Condition, conditions_looked_up, may_be_retried
from retrier.store.schema import failed_message_retries, failed_messages

messages = failed_messages.c
claims = failed_message_retries.c

DEAD = "it is dead, and dead messages were not asked for"

SAMPLES = 5
"""Messages that are shown, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What an operation would do; `total` is the one it would have.

    Of these `left` could be claimed now: they are counted in `counts`, and the first of them are
    the `samples`. `skipped` counts by reason what the selection matches and the operation would
    not send. `reasons` has those of named ids.

    The rest is for a plan. What failed up to `counted_to` was seen, at the time `at`. `cut_off` is
    the failure number of the last message that is counted, where a limit leaves out later ones.
    `passed_over` has those below that another retry had claimed; None if there are too many.
    """

    counted_to: int
    at: datetime
    cut_off: int
    passed_over: tuple[int, ...] | None
    total: int
    skipped: Mapping[str, int]
    counts: Counts
    samples: Sequence[ListedMessage]
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def left(self) -> int:
        """How many messages would be sent."""
        return sum(line.count for line in self.lines(By.ALL))

    def lines(self, by: By) -> Sequence[Line]:
        """Return the largest counts, at most 50 of them."""
        return self.counts.get(by, ())


def plan_of(request: RetryRequest, found: Preview) -> Plan:
    """Return the plan that holds an operation to what its preview counted."""
    return Plan(
        subject=hash_subject(RETRY, request.selection),
        counted_to=found.counted_to,
        cut_off=found.cut_off,
        total=found.total,
        at=found.at,
        numbers=found.passed_over,
    )


@reading
def preview(tx: Transaction, request: RetryRequest, cut_off: int, codec: PropertyCodec) -> Preview:
    """Return what an operation would do with this cut-off. Raises DatabaseUnavailable."""
    if request.selection.ids is not None:
        return _preview_named(tx, request, cut_off, codec)
    selection, limit = request.selection, request.terms.limit
    matching = conditions_looked_up(tx, selection)
    up_to = [messages.failure_seq <= cut_off, *matching]
    retryable = [*up_to, *may_be_retried(selection)]
    chosen = select(*COUNTED).where(*retryable, ~_is_claimed())
    if limit is not None:
        chosen = chosen.order_by(messages.failure_seq).limit(limit)
    found, dead = _count_unresolved(tx, selection, up_to)
    skipped = {
        CLAIMED: _count(tx, [*retryable, _is_claimed()]),
        ISSUED: _count(tx, [messages.status == FailedMessageStatus.RETRY_ISSUED, *matching]),
        DEAD: dead,
    }
    last = cut_off if limit is None else _find_last(tx, chosen, limit) or cut_off
    return Preview(
        counted_to=cut_off,
        at=tx.now,
        cut_off=last,
        passed_over=_find_claimed(tx, [messages.failure_seq <= last, *retryable]),
        total=found if limit is None else min(found, limit),
        skipped={reason: count for reason, count in skipped.items() if count},
        counts=count_by(tx, chosen),
        samples=_samples(tx, chosen, codec),
    )


def _preview_named(
    tx: Transaction, request: RetryRequest, cut_off: int, codec: PropertyCodec
) -> Preview:
    limit = request.terms.limit
    ids = tuple(dict.fromkeys(request.selection.ids or ()))
    found = look_up(tx, ids)
    reasons = judge(tx, ids, found, cut_off)
    # Two ids may be one message, in lower and in upper case.
    numbers = list(dict.fromkeys(found[each].number for each in ids if each not in reasons))
    chosen = select(*COUNTED).where(tx.sql.member(messages.number, numbers[:limit]))
    return Preview(
        counted_to=cut_off,
        at=tx.now,
        cut_off=cut_off,
        passed_over=(),
        total=len(ids) if limit is None else min(len(ids), limit),
        skipped=Counter(reasons.values()),
        counts=count_by(tx, chosen),
        samples=load(tx, numbers[:limit][:SAMPLES], codec),
        reasons=reasons,
    )


def _find_last(tx: Transaction, chosen: Select[Any], limit: int) -> int | None:
    """Return the failure number of the last message within the limit; None if it is not reached."""
    counted = chosen.subquery().c
    count, last = tx.execute(select(func.count(), func.max(counted.failure_seq))).one()
    return last if count == limit else None


def _find_claimed(tx: Transaction, retryable: Sequence[Condition]) -> tuple[int, ...] | None:
    """Return the failure numbers of what another retry has claimed; None if they are too many.

    Their claims may be released before the act: without these they would be taken instead of what
    was counted.
    """
    query = select(messages.failure_seq).where(*retryable, _is_claimed()).limit(MOST_NUMBERS + 1)
    return hold_numbers(tx.execute(query).scalars().all())


def _is_claimed() -> Condition:
    return exists().where(claims.number == messages.number)


def _count_unresolved(
    tx: Transaction, selection: Selection, up_to: Sequence[Condition]
) -> tuple[int, int]:
    """Count what may be retried and what may not, because it is dead, in one reading."""
    retryable = func.coalesce(func.sum(case((and_(*may_be_retried(selection)), 1), else_=0)), 0)
    unresolved = messages.status == FailedMessageStatus.UNRESOLVED
    query = select(func.count(), retryable).select_from(failed_messages).where(unresolved, *up_to)
    every, found = tx.execute(query).one()
    return int(found), int(every - found)


def _count(tx: Transaction, found: Sequence[Condition]) -> int:
    query = select(func.count()).select_from(failed_messages).where(*found)
    return int(tx.execute(query).scalar_one())


def _samples(
    tx: Transaction, chosen: Select[Any], codec: PropertyCodec
) -> tuple[ListedMessage, ...]:
    first = chosen.subquery().c
    query = select(first.number).order_by(first.failure_seq).limit(SAMPLES)
    return load(tx, tx.execute(query).scalars().all(), codec)

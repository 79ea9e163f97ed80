"""Previews: what an operation would do, as things are. Nothing is changed.

Messages are counted by cause first: joined to queues and groups, each message would be several
rows.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import accumulate, groupby, pairwise, takewhile
from operator import attrgetter
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    FromClause,
    Select,
    Text,
    case,
    cast,
    exists,
    func,
    literal,
    literal_column,
    not_,
    null,
    select,
    true,
    union_all,
)

from retrier.domain.access import NOT_YOURS, QueuePatterns
from retrier.domain.classifiers import CLASSIFIERS
from retrier.domain.copies import SendingTerms, why_unsendable, without_envelope
from retrier.domain.dialects.dialect import LOST_NEXT, NOT_KNOWN
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.patches import PatchRefused, read_patch
from retrier.domain.retry_operation import (
    MOST_NUMBERS,
    Plan,
    RetryRequest,
    hash_retry,
    hold_numbers,
)
from retrier.domain.selection import Selection
from retrier.domain.values import dataclass
from retrier.domain.wire import PropertyCodec, UnreadableProperties
from retrier.store.cuts import CLAIMED, ISSUED
from retrier.store.engine.database import reading
from retrier.store.engine.sql_dialect import by_code_point
from retrier.store.engine.transaction import Transaction
from retrier.store.marking import judge_named, look_up_named
from retrier.store.message_lists import ListedMessage, load
from retrier.store.patches import PatchPreview, load_whole, make_patched, preview_patch
from retrier.store.redirects import REDIRECTED_FROM
from retrier.store.schema import (
    cause_groups,
    causes,
    failed_message_retries,
    failed_messages,
    failure_groups,
    message_redirects,
)
from retrier.store.selections import (
    Condition,
    are_dead,
    asks_for_dead,
    check_frozen,
    conditions_looked_up,
    is_within,
    may_be_retried,
)

messages = failed_messages.c
claims = failed_message_retries.c


MOST_LINES = 50
"""Lines of a breakdown; what they leave out is summed."""

MOST_DESTINATIONS = 10_000
"""Queues to which retries would go: whether they exist is asked of more than are shown."""

AGES = (
    ("less than an hour", timedelta(hours=1)),
    ("less than a day", timedelta(days=1)),
    ("less than a week", timedelta(days=7)),
    ("less than 30 days", timedelta(days=30)),
)
OLDEST = "30 days or more"


class By(StrEnum):
    """By what messages are counted. ALL has one line; COPIES, LOST and REDIRECTS leave messages out."""

    ALL = "all"
    GROUP = "group"
    QUEUE = "queue"
    DESTINATION = "destination"
    AGE = "age"
    ATTEMPTS = "attempts"
    REDIRECTS = "redirects"
    COPIES = "copies"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewLine:
    """How many messages have the same `key`; `name` is for people."""

    key: str
    name: str
    count: int


Counts = Mapping[By, Sequence[PreviewLine]]


def count_by(tx: Transaction, chosen: Select[Any]) -> Counts:
    """Count messages in every way; `chosen` selects COUNTED columns of them.

    Of each way the 50 largest counts, the largest first; of destinations more of them.
    """
    counted = _by_cause(tx, chosen)
    parts = [_largest(by, *what) for by, what in _ways(counted)]
    rows = tx.execute(union_all(*parts)).all()
    found = sorted(rows, key=lambda row: (row.by, -row.n, row.key))
    return {
        By(by): [
            PreviewLine(key=row.key, name=row.name or row.key, count=int(row.n)) for row in same
        ]
        for by, same in groupby(found, attrgetter("by"))
    }


COUNTED = (
    messages.number,
    messages.failure_seq,
    messages.cause_id,
    messages.attempts,
    messages.last_failure,
    messages.maybe_copy_of,
)


def _by_cause(tx: Transaction, chosen: Select[Any]) -> CTE:
    """Count them by cause and attempts, all else in columns beside.

    Two numbers to group by: more keys, and ages as texts, took three times as long, and PostgreSQL
    expected so many groups that it gave the work to one process alone.
    """
    row = chosen.subquery().c
    younger = [func.count(case((row.last_failure > tx.now - age, 1))) for _, age in AGES]
    n = func.count()
    ages = [after - before for before, after in pairwise([literal_column("0"), *younger, n])]
    return (
        select(
            row.cause_id,
            row.attempts,
            n.label("n"),
            func.count(row.maybe_copy_of).label("copies"),
            *(each.label(f"age_{place}") for place, each in enumerate(ages)),
        )
        .group_by(row.cause_id, row.attempts)
        .cte("counted")
    )


def _of_ages(counted: CTE) -> tuple[FromClause, ColumnElement[Any], ColumnElement[Any]]:
    """Return each of its rows once for each age, the age, and how many have it."""
    names = [*(name for name, _ in AGES), OLDEST]
    places: list[Any] = [
        select(literal_column(str(n)).label("place"), literal(name).label("name"))
        for n, name in enumerate(names)
    ]
    of_age = union_all(*places).subquery()
    count = case({n: counted.c[f"age_{n}"] for n in range(len(names))}, value=of_age.c.place)
    return counted.join(of_age, true()), of_age.c.name, count


Way = tuple[FromClause, ColumnElement[Any], ColumnElement[Any], ColumnElement[Any]]
"""Where to count, by what, its name, and how many messages a row stands for."""


def _ways(counted: CTE) -> Iterator[tuple[By, Way]]:
    n = counted.c.n
    of_cause = counted.join(causes, causes.c.cause_id == counted.c.cause_id)
    to = message_redirects.c.to_queue
    gone = of_cause.outerjoin(message_redirects, message_redirects.c.from_queue == REDIRECTED_FROM)
    grouped = counted.join(cause_groups, cause_groups.c.cause_id == counted.c.cause_id).join(
        failure_groups, failure_groups.c.group_id == cause_groups.c.group_id
    )
    default = case((failure_groups.c.classifier == CLASSIFIERS[0], n), else_=0)
    yield By.ALL, (counted, literal_column("''"), null(), n)
    yield By.COPIES, (counted, literal_column("''"), null(), counted.c.copies)
    is_lost = causes.c.failure_reason == LOST_NEXT
    yield By.LOST, (of_cause, literal_column("''"), null(), case((is_lost, n), else_=0))
    yield By.QUEUE, (of_cause, causes.c.queue, null(), n)
    yield By.DESTINATION, (gone, func.coalesce(to, causes.c.destination), null(), n)
    yield By.REDIRECTS, (gone, REDIRECTED_FROM, to, case((to.is_not(None), n), else_=0))
    aged, age, of_age = _of_ages(counted)
    yield By.AGE, (aged, age, null(), of_age)
    yield By.ATTEMPTS, (counted, counted.c.attempts, null(), n)
    yield By.GROUP, (grouped, failure_groups.c.group_id, failure_groups.c.title, default)


def _largest(
    by: By,
    source: FromClause,
    key: ColumnElement[Any],
    name: ColumnElement[Any],
    n: ColumnElement[Any],
) -> Select[Any]:
    known = (cast(key, Text).label("key"), cast(name, Text).label("name"))
    each = select(*known, n.label("n")).select_from(source).subquery().c
    total = func.sum(each.n)
    lines = (
        select(literal_column(f"'{by}'").label("by"), each.key, each.name, total.label("n"))
        .group_by(each.key, each.name)
        .having(total > 0)
        .order_by(total.desc(), by_code_point(each.key))
        .limit(MOST_DESTINATIONS if by is By.DESTINATION else MOST_LINES)
        .subquery()
    )
    return select(lines)


DEAD = "it is dead, and dead messages were not asked for"

SAMPLES = 5
"""Messages that are shown, at most."""

MOST_FITTED = 1000
MOST_FITTED_BYTES = 8 * 1024 * 1024
"""Messages, and their bytes, of which a preview makes retries to see whether the broker takes them."""

TermsOf = Callable[[str], SendingTerms]
"""Returns how messages that were found on an error queue are sent back."""


def usual_terms(error_queue: str) -> SendingTerms:
    """Return how they are sent back if the settings say nothing about it."""
    return SendingTerms(acknowledgement_queue=error_queue, own_user=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsendable:
    """Which of the first messages the broker would never take as they are.

    `example` is why it takes the first of them not. With `is_all` there are no others than `looked_at`.
    """

    count: int
    looked_at: int
    is_all: bool
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What an operation would do; `total` is the one it would have.

    Of these `left` could be claimed now: they are counted in `counts`, and the first of them are
    the `samples`. `patched` is what its patch would make of them. `skipped` counts by reason what the selection matches and the operation would
    not send. `reasons` has those of named ids.

    The rest is for a plan. What failed up to `counted_to` was seen, at the time `at`. `cut_off` is
    the failure number of the last message that is counted, where a limit leaves out later ones.
    `passed_over` has those below that another retry had claimed; None if there are too many.
    `unsendable` tells of those that the broker would never take; None if none was found.
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
    patched: PatchPreview | None = None
    unsendable: Unsendable | None = None

    @property
    def left(self) -> int:
        """How many messages would be sent."""
        return _sum(self.counts)

    def lines(self, by: By) -> Sequence[PreviewLine]:
        """Return the largest counts, at most 50 of them."""
        return self.counts.get(by, ())[:MOST_LINES]

    @property
    def all_destinations(self) -> Sequence[PreviewLine]:
        """The queues to which they would go, the fullest first, also those that no list has."""
        return self.counts.get(By.DESTINATION, ())

    @property
    def counts_by_destination(self) -> Mapping[str, int]:
        """How many messages would go to each of them."""
        return {line.key: line.count for line in self.all_destinations}

    @property
    def destinations(self) -> Sequence[str]:
        """The names of those that are known."""
        return [line.key for line in self.all_destinations if line.key != NOT_KNOWN]


def plan_of(request: RetryRequest, found: Preview) -> Plan:
    """Return the plan that holds an operation to what its preview counted."""
    return Plan(
        subject=hash_retry(request),
        counted_to=found.counted_to,
        cut_off=found.cut_off,
        total=found.total,
        at=found.at,
        numbers=found.passed_over,
    )


@reading
def preview(
    tx: Transaction,
    request: RetryRequest,
    cut_off: int,
    codec: PropertyCodec,
    terms_of: TermsOf = usual_terms,
) -> Preview:
    """Return what an operation would do with this cut-off. Raises DatabaseUnavailable, TooManyFound."""
    if request.selection.ids is not None:
        return _preview_named(tx, request, cut_off, codec, terms_of)
    selection, limit = request.selection, request.terms.limit
    matching = conditions_looked_up(tx, selection)
    up_to = [messages.failure_seq <= cut_off, *matching]
    retryable = [*up_to, *may_be_retried(selection)]
    chosen = select(*COUNTED).where(*retryable, *_unclaimed(tx))
    if limit is not None:
        chosen = chosen.order_by(messages.failure_seq).limit(limit)
    counts, claimed = count_by(tx, chosen), _count(tx, [*retryable, _is_claimed()])
    # A million are read once: what would be sent, and what is claimed, are all there are.
    total = claimed + _sum(counts) if limit is None else _count_first(tx, retryable, limit)
    check_frozen(selection, total)
    skipped = {
        CLAIMED: claimed,
        ISSUED: _count(tx, [messages.status == FailedMessageStatus.RETRY_ISSUED, *matching]),
        DEAD: 0 if asks_for_dead(selection) else _count(tx, [*up_to, are_dead()]),
        NOT_YOURS: _count_foreign(tx, selection, selection.within, cut_off),
    }
    last = cut_off if limit is None else _find_last(tx, chosen, limit) or cut_off
    return Preview(
        counted_to=cut_off,
        at=tx.now,
        cut_off=last,
        passed_over=_find_claimed(tx, [messages.failure_seq <= last, *retryable]),
        total=total,
        skipped={reason: count for reason, count in skipped.items() if count},
        counts=counts,
        samples=_samples(tx, chosen, codec),
        patched=_patched(tx, request, chosen, codec),
        unsendable=_find_unsendable(tx, request, chosen, codec, terms_of),
    )


def _preview_named(
    tx: Transaction, request: RetryRequest, cut_off: int, codec: PropertyCodec, terms_of: TermsOf
) -> Preview:
    limit = request.terms.limit
    ids = tuple(dict.fromkeys(request.selection.ids or ()))
    found = look_up_named(tx, ids)
    reasons = judge_named(tx, ids, found, cut_off, request.selection.within)
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
        patched=_patched(tx, request, chosen, codec),
        unsendable=_find_unsendable(tx, request, chosen, codec, terms_of),
    )


def _find_unsendable(
    tx: Transaction,
    request: RetryRequest,
    chosen: Select[Any],
    codec: PropertyCodec,
    terms_of: TermsOf,
) -> Unsendable | None:
    """Make retries of the first messages, and ask whether the broker would take them.

    What cannot be read, deleted or not patched is told elsewhere.
    """
    if codec.surely_fits is None:
        return None
    row = chosen.subquery().c
    size = (messages.properties_size + messages.body_size).label("size")
    query = (
        select(messages.attempt_id, messages.properties_size, size)
        .join_from(row.number.table, failed_messages, messages.number == row.number)
        .order_by(row.failure_seq)
        .limit(MOST_FITTED + 1)
    )
    found = tx.execute(query).all()
    first = found[:MOST_FITTED]
    totals = accumulate(each.size for each in first)
    first = first[: max(1, sum(1 for _ in takewhile(lambda n: n <= MOST_FITTED_BYTES, totals)))]
    terms = request.terms
    patch = None if terms.patch is None else read_patch(terms.patch)
    doubtful = [each for each in first if patch or each.properties_size > codec.surely_fits]
    reasons = []
    for _, original in load_whole(tx, doubtful):
        if original is None:
            continue
        sent = replace(original, drop_headers=tuple(terms.drop_headers))
        try:
            sent = without_envelope(codec, sent)
            made = None if patch is None else make_patched(codec, sent, patch)
            if not isinstance(made, PatchRefused):
                whole = sent if made is None else made[1]
                reasons.append(why_unsendable(codec, whole, terms_of(sent.error_queue)))
        except UnreadableProperties:
            continue
    whys = [each for each in reasons if each is not None]
    if not whys:
        return None
    is_all = len(first) == len(found)
    return Unsendable(count=len(whys), looked_at=len(first), is_all=is_all, example=whys[0])


def _patched(
    tx: Transaction, request: RetryRequest, chosen: Select[Any], codec: PropertyCodec
) -> PatchPreview | None:
    patch = request.terms.patch
    return None if patch is None else preview_patch(tx, chosen, patch, codec)


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


def _unclaimed(tx: Transaction) -> Sequence[Condition]:
    """Return the condition that no retry has claimed a message; none while there is no claim.

    To look a million times into an empty table takes a third of the whole preview.
    """
    is_any = tx.execute(select(exists(select(claims.number)))).scalar_one()
    return (~_is_claimed(),) if is_any else ()


def _sum(counts: Counts) -> int:
    return sum(line.count for line in counts.get(By.ALL, ()))


def _count_first(tx: Transaction, found: Sequence[Condition], most: int) -> int:
    """Count no further than so many."""
    first = select(messages.number).where(*found).limit(most).subquery()
    return int(tx.execute(select(func.count()).select_from(first)).scalar_one())


def _count_foreign(
    tx: Transaction, selection: Selection, own: QueuePatterns | None, cut_off: int
) -> int:
    """Count what may be retried of a selection, but not by who asks: it failed on other queues."""
    if own is None:
        return 0
    every = replace(selection, within=None)
    retryable = [*conditions_looked_up(tx, every), *may_be_retried(every)]
    elsewhere = messages.cause_id.in_(select(causes.c.cause_id).where(not_(is_within(own))))
    return _count(tx, [messages.failure_seq <= cut_off, *retryable, elsewhere])


def _count(tx: Transaction, found: Sequence[Condition]) -> int:
    query = select(func.count()).select_from(failed_messages).where(*found)
    return int(tx.execute(query).scalar_one())


def _samples(
    tx: Transaction, chosen: Select[Any], codec: PropertyCodec
) -> tuple[ListedMessage, ...]:
    first = chosen.subquery().c
    query = select(first.number).order_by(first.failure_seq).limit(SAMPLES)
    return load(tx, tx.execute(query).scalars().all(), codec)

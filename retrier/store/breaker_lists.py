"""Breakers as they are, what was counted for each, and what waits for them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, exists, false, func, not_, or_, select

from retrier.domain.breakers import (
    Breaker,
    BreakerEvidence,
    BreakerKey,
    BreakerRules,
    BreakerState,
    BreakerTerms,
    ManualState,
    Per,
    Trial,
    TrialEnd,
    TrialSeen,
    comes_back,
    why_waiting,
)
from retrier.domain.failed_message import FailedMessageStatus, RetryEnd
from retrier.domain.values import dataclass
from retrier.store.engine.database import reading
from retrier.store.engine.sql_dialect import by_code_point
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.redirects import REDIRECTED_FROM
from retrier.store.schema import (
    breaker_counts,
    breakers,
    cause_groups,
    causes,
    ended_retries,
    failed_message_retries,
    failed_messages,
    message_redirects,
)

columns = breakers.c
counts = breaker_counts.c
claims = failed_message_retries.c
ended = ended_retries.c
messages = failed_messages.c


NOT_CLOSED: ColumnElement[bool] = or_(
    columns.state != BreakerState.CLOSED, columns.hand.is_not(None)
)
"""The condition that a breaker is open or half open, or that a person has set it."""
DUE = func.coalesce(columns.hand_until, columns.due_at)
"""When a breaker is to be looked at again; NULL: when something is counted."""


ANY_NOT_CLOSED = exists().where(NOT_CLOSED)
"""The condition that there is such a breaker: a part of queries that are made anyway."""
TRIAL_ENDED = exists().where(
    columns.trial_number.is_not(None),
    columns.hand.is_(None),
    ~exists().where(
        claims.number == columns.trial_number, claims.retry_id == columns.trial_retry_id
    ),
)
"""The condition that a message that tried a breaker has its outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenBreaker:
    """A breaker, and what there is to decide about it."""

    breaker: Breaker
    evidence: BreakerEvidence
    trial: TrialSeen | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenBreakers:
    """Breakers that may turn, and the database's time at which they were looked at."""

    seen: tuple[SeenBreaker, ...]
    at: datetime


@reading
def look_at_breakers(tx: Transaction, rules: BreakerRules) -> SeenBreakers:
    """Return the breakers that may turn now, with what was counted for them.

    Without those that stay as they are whatever was counted: an outage has hundreds of breakers,
    and they are looked at several times a second. Raises DatabaseUnavailable.
    """
    rows = tx.execute(_WITH_TRIALS.where(_may_turn(tx, rules))).all()
    found = [breaker_from_row(row) for row in rows]
    terms = {each.breaker_id: rules.terms_of(each.rule) for each in found}
    counted = _count(tx, found, terms)
    seen = (
        SeenBreaker(
            breaker=breaker,
            evidence=counted.get(breaker.breaker_id, BreakerEvidence()),
            trial=None if breaker.trial is None else _seen(row),
        )
        for row, breaker in zip(rows, found, strict=True)
    )
    return SeenBreakers(seen=tuple(seen), at=tx.now)


def _may_turn(tx: Transaction, rules: BreakerRules) -> ColumnElement[bool]:
    """Return the condition that a breaker may turn now: wider than `judge`, never narrower."""
    terms = rules.all_terms
    known = func.coalesce(tx.sql.member(columns.rule, sorted(terms)), false())
    is_over = or_(columns.due_at.is_(None), columns.due_at <= tx.now, columns.changed_at > tx.now)
    by_itself = [
        and_(columns.state != BreakerState.CLOSED, not_(known)),
        and_(columns.state == BreakerState.OPEN, is_over),
        and_(columns.state == BreakerState.HALF_OPEN, columns.trial_number.is_not(None)),
    ]
    if terms:
        closed = columns.state == BreakerState.CLOSED
        by_itself.append(and_(closed, known, _has_enough(tx, terms)))
    return or_(
        and_(columns.hand.is_not(None), columns.hand_until <= tx.now),
        and_(columns.hand.is_(None), or_(*by_itself)),
    )


def _has_enough(tx: Transaction, terms: Mapping[str, BreakerTerms]) -> ColumnElement[bool]:
    """Return the condition that enough was counted for a closed breaker to decide about it.

    By the widest of all terms: whatever opens by those of its own rule is among these.
    """
    of_time = terms.values()
    failed = func.sum(counts.returned + counts.came_back)
    enough = (
        select(counts.breaker_id)
        .join(breakers, columns.breaker_id == counts.breaker_id)
        .where(*_counted_now(tx, terms))
        .group_by(counts.breaker_id, columns.confirms)
        .having(
            or_(
                and_(
                    func.sum(counts.sent) >= min(each.least for each in of_time),
                    failed >= min(1, *(each.threshold for each in of_time)),
                ),
                and_(not_(columns.confirms), func.sum(counts.confirmed) > 0),
            )
        )
    )
    # Of the last outcomes some may be older than any time.
    by_outcomes = sorted(rule for rule, each in terms.items() if each.last is not None)
    counted = columns.breaker_id.in_(enough)
    if not by_outcomes:
        return counted
    return or_(counted, and_(columns.confirms, tx.sql.member(columns.rule, by_outcomes)))


def find_coming_back(tx: Transaction, rules: BreakerRules) -> tuple[BreakerKey, ...]:
    """Return for what most retries come back, though its breaker is closed.

    Only the order of what is sent depends on it, so the longest time of all terms counts.
    """
    if not rules.any:
        return ()
    sent, confirmed = func.sum(counts.sent), func.sum(counts.confirmed)
    failed = func.sum(counts.returned + counts.came_back)
    query = (
        select(columns.per, columns.name, columns.rule)
        .add_columns(sent.label("sent"), failed.label("failed"), confirmed.label("confirmed"))
        .join(breaker_counts, columns.breaker_id == counts.breaker_id)
        .where(*_counted_now(tx, rules.all_terms))
        .group_by(columns.per, columns.name, columns.rule)
        .having(failed > confirmed)
    )
    return tuple(
        BreakerKey(per=Per(row.per), name=row.name)
        for row in tx.execute(query)
        if comes_back(rules.terms_of(row.rule), int(row.sent), int(row.failed), int(row.confirmed))
    )


def _counted_now(
    tx: Transaction, terms: Mapping[str, BreakerTerms]
) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions on counts that may open closed breakers, whatever their terms."""
    return (
        columns.state == BreakerState.CLOSED,
        counts.since >= columns.changed_at,
        counts.since >= tx.now - max(each.time for each in terms.values()),
    )


@reading
def list_breakers(tx: Transaction) -> tuple[tuple[Breaker, ...], datetime]:
    """Return all breakers, those that are not closed first. Raises DatabaseUnavailable."""
    return all_breakers(tx), tx.now


def all_breakers(tx: Transaction) -> tuple[Breaker, ...]:
    """Return all breakers, those that are not closed first."""
    closed = and_(columns.state == BreakerState.CLOSED, columns.hand.is_(None))
    rows = tx.execute(select(breakers).order_by(closed, by_code_point(columns.breaker_key)))
    return tuple(map(breaker_from_row, rows))


def find_not_closed(tx: Transaction) -> tuple[Breaker, ...]:
    """Return the breakers that are not closed, or that a person has set."""
    rows = tx.execute(
        select(breakers).where(NOT_CLOSED).order_by(by_code_point(columns.breaker_key))
    )
    return tuple(map(breaker_from_row, rows))


def count_open(tx: Transaction) -> Mapping[str, tuple[BreakerState, timedelta]]:
    """Return the state of each breaker for which messages wait, and for how long they have.

    Those that opened by themselves first, then those that people have opened, which may be for
    names that nothing has; of each the one that has waited longest first.
    """
    now = tx.now
    waiting = [
        each for each in find_not_closed(tx) if each.state_at(now) is not BreakerState.CLOSED
    ]
    waiting.sort(key=lambda each: (each.hand is not None, each.held_since))
    return {
        str(each.key): (each.state_at(now), max(timedelta(0), now - each.held_since))
        for each in waiting
    }


read_not_closed = reading(find_not_closed)
"""`find_not_closed` in a transaction of its own. Raises DatabaseUnavailable."""


def breaker_from_row(row: StoredRow) -> Breaker:
    """Return a row of breakers as a Breaker."""
    return Breaker(
        breaker_id=row.breaker_id,
        key=BreakerKey(per=Per(row.per), name=row.name),
        state=BreakerState(row.state),
        changed_at=row.changed_at,
        rule=row.rule,
        opened_at=row.opened_at,
        due_at=row.due_at,
        cooldown=timedelta(milliseconds=row.cooldown_ms),
        sent=row.sent,
        failed=row.failed,
        confirms=row.confirms,
        trial=None
        if row.trial_number is None
        else Trial(number=row.trial_number, retry_id=row.trial_retry_id),
        hand=None
        if row.hand is None
        else ManualState(
            state=BreakerState(row.hand),
            until=row.hand_until,
            who=row.hand_who or "",
            why=row.hand_why,
        ),
    )


_WITH_TRIALS = (
    select(
        breakers,
        claims.retry_id.label("claimed"),
        claims.forwarded_at,
        ended.outcome,
        ended.forwarded_at.label("ended_forwarded_at"),
    )
    .outerjoin_from(
        breakers,
        failed_message_retries,
        and_(claims.number == columns.trial_number, claims.retry_id == columns.trial_retry_id),
    )
    .outerjoin(
        ended_retries,
        and_(ended.number == columns.trial_number, ended.retry_id == columns.trial_retry_id),
    )
    .order_by(columns.breaker_id)
)


def _seen(row: StoredRow) -> TrialSeen:
    """Say what became of the trial, by its claim, or by what is kept of it after it ended."""
    if row.claimed is not None:
        end = TrialEnd.UNDERWAY if row.forwarded_at is None else TrialEnd.SENT
        return TrialSeen(end=end, sent_at=row.forwarded_at)
    match row.outcome:
        case None:
            return TrialSeen(end=TrialEnd.NEVER_SENT)
        case RetryEnd.CONFIRMED:
            return TrialSeen(end=TrialEnd.CONFIRMED)
        case RetryEnd.FAILED | RetryEnd.REVERTED:
            return TrialSeen(end=TrialEnd.FAILED)
        case _:
            # A person has ended it: whether it was handled shows only in that it does not come back.
            sent = row.ended_forwarded_at
            end = TrialEnd.NEVER_SENT if sent is None else TrialEnd.SENT
            return TrialSeen(end=end, sent_at=sent)


def _count(
    tx: Transaction, found: Sequence[Breaker], terms: Mapping[int, BreakerTerms | None]
) -> Mapping[int, BreakerEvidence]:
    """Add up what counts now; only a closed breaker is decided about by that."""
    open_for = {
        each.breaker_id: each
        for each in found
        if each.state is BreakerState.CLOSED and each.hand is None
    }
    judged = {key: given for key in open_for if (given := terms[key]) is not None}
    if not judged:
        return {}
    oldest = tx.now - max(each.time for each in judged.values())
    query = (
        select(
            counts.breaker_id,
            counts.since,
            func.sum(counts.sent).label("sent"),
            func.sum(counts.returned + counts.came_back).label("failed"),
            func.sum(counts.confirmed).label("confirmed"),
        )
        .join(breakers, columns.breaker_id == counts.breaker_id)
        .where(
            tx.sql.member(counts.breaker_id, sorted(judged)),
            counts.since >= columns.changed_at,
            counts.since >= oldest,
        )
        .group_by(counts.breaker_id, counts.since)
    )
    last = _find_last(tx, {key: given.last for key, given in judged.items() if given.last})
    within: dict[int, list[Any]] = {}
    for row in tx.execute(query):
        given = judged.get(row.breaker_id)
        if given is not None and row.since >= tx.now - given.time:
            within.setdefault(row.breaker_id, []).append(row)
    return {
        key: BreakerEvidence(
            sent=int(sum(row.sent for row in within.get(key, ()))),
            failed=int(sum(row.failed for row in within.get(key, ()))),
            confirmed=any(row.confirmed for row in within.get(key, ())),
            outcomes=() if given.last is None else last.get(key, ()),
        )
        for key, given in judged.items()
    }


def _find_last(tx: Transaction, most: Mapping[int, int]) -> Mapping[int, tuple[bool, ...]]:
    """Return the newest outcomes of these breakers, the last at the end, so many of each at most."""
    if not most:
        return {}
    newest_first = func.row_number().over(
        partition_by=counts.breaker_id, order_by=(counts.since.desc(), counts.counted_by)
    )
    placed = (
        select(counts.breaker_id, counts.outcomes, newest_first.label("place"))
        .join(breakers, columns.breaker_id == counts.breaker_id)
        .where(
            tx.sql.member(counts.breaker_id, sorted(most)),
            counts.since >= columns.changed_at,
            counts.outcomes != "",
        )
        .subquery()
    )
    # Each row has one outcome at least, so no more rows are needed than outcomes count.
    query = select(placed).where(placed.c.place <= max(most.values())).order_by(placed.c.place)
    found: dict[int, list[str]] = {}
    for row in tx.execute(query):
        found.setdefault(row.breaker_id, []).append(row.outcomes)
    newest = {key: "".join(reversed(texts))[-most[key] :] for key, texts in found.items()}
    return {key: tuple(letter == "f" for letter in text) for key, text in newest.items()}


_TARGET = func.coalesce(message_redirects.c.to_queue, causes.c.destination)


def why_each_waits(tx: Transaction, numbers: Sequence[int]) -> Mapping[int, str]:
    """Say of these messages, by number, for which breaker they wait; of others nothing."""
    return _why_waiting(tx, tx.sql.member(messages.number, sorted(numbers))) if numbers else {}


def _why_waiting(tx: Transaction, named: ColumnElement[bool]) -> Mapping[int, str]:
    words = _find_words(tx)
    if not words:
        return {}
    claimed = exists().where(failed_message_retries.c.number == messages.number)
    query = (
        _targets(messages.number, _TARGET, causes.c.message_type)
        .join(failed_messages, messages.cause_id == causes.c.cause_id)
        .where(named, messages.status == FailedMessageStatus.UNRESOLVED, ~claimed)
    )
    found = ((row[0], _first(words, row[1], row[2])) for row in tx.execute(query))
    return {number: why for number, why in found if why is not None}


def find_groups(tx: Transaction, group_ids: Sequence[str]) -> Mapping[str, str]:
    """Say of those groups for which breaker messages of them wait."""
    words = _find_words(tx)
    if not words or not group_ids:
        return {}
    query = (
        _targets(cause_groups.c.group_id, _TARGET, causes.c.message_type)
        .join(cause_groups, cause_groups.c.cause_id == causes.c.cause_id)
        .where(
            tx.sql.member(cause_groups.c.group_id, group_ids),
            _is_for(words),
            # Asked of each cause, of which there are few: a message of it that is unresolved.
            exists().where(
                messages.cause_id == causes.c.cause_id,
                messages.status == FailedMessageStatus.UNRESOLVED,
            ),
        )
        .distinct()
    )
    found = ((row[0], _first(words, row[1], row[2])) for row in tx.execute(query))
    return {group_id: why for group_id, why in found if why is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenByPeople:
    """All breakers at a time of the database, those that are not closed first.

    `causes` gives, for those that are not closed, the causes of the messages that wait for them.
    """

    breakers: tuple[Breaker, ...]
    at: datetime
    causes: Mapping[BreakerKey, frozenset[int]]

    @property
    def waiting(self) -> Mapping[Breaker, str]:
        """The breakers for which messages wait, with what is said of each."""
        told = {each: why_waiting(each, self.at) for each in self.breakers}
        return {each: why for each, why in told.items() if why is not None}


@reading
def show_breakers(tx: Transaction) -> SeenByPeople:
    """Return all breakers, and what waits for them. Raises DatabaseUnavailable."""
    found = all_breakers(tx)
    held = [each.key for each in found if each.state_at(tx.now) is not BreakerState.CLOSED]
    return SeenByPeople(breakers=found, at=tx.now, causes=_find_causes(tx, held))


@reading
def find_causes_of(tx: Transaction, key: BreakerKey) -> frozenset[int]:
    """Return the causes of the messages that a breaker is for. Raises DatabaseUnavailable."""
    return _find_causes(tx, [key])[key]


def _find_causes(
    tx: Transaction, keys: Sequence[BreakerKey]
) -> Mapping[BreakerKey, frozenset[int]]:
    if not keys:
        return {}
    found: dict[BreakerKey, set[int]] = {key: set() for key in keys}
    query = _targets(causes.c.cause_id, _TARGET, causes.c.message_type).where(_is_for(keys))
    for cause_id, *names in tx.execute(query):
        for per, name in zip(Per, names, strict=True):
            found.get(BreakerKey(per=per, name=name or ""), set()).add(cause_id)
    return {key: frozenset(ids) for key, ids in found.items()}


def _is_for(keys: Iterable[BreakerKey]) -> ColumnElement[bool]:
    names: dict[Per, list[str]] = {per: [] for per in Per}
    for key in keys:
        names[key.per].append(key.name)
    of_type = causes.c.message_type.in_(names[Per.MESSAGE_TYPE])
    return or_(_TARGET.in_(names[Per.DESTINATION]), of_type)


def _targets(*columns: Any) -> Select[Any]:
    return select(*columns).outerjoin_from(
        causes, message_redirects, message_redirects.c.from_queue == REDIRECTED_FROM
    )


def _find_words(tx: Transaction) -> Mapping[BreakerKey, str]:
    """Return what is said of the breakers for which messages wait now."""
    said = ((each.key, why_waiting(each, tx.now)) for each in find_not_closed(tx))
    return {key: words for key, words in said if words is not None}


def _first(words: Mapping[BreakerKey, str], queue: str, message_type: str | None) -> str | None:
    by_queue = words.get(BreakerKey(per=Per.DESTINATION, name=queue))
    by_type = words.get(BreakerKey(per=Per.MESSAGE_TYPE, name=message_type or ""))
    return by_queue or by_type

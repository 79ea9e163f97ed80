"""Selections of failed messages as SQL conditions and as JSON, and their messages in chunks."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    CompoundSelect,
    Select,
    Text,
    and_,
    bindparam,
    cast,
    exists,
    false,
    func,
    literal_column,
    not_,
    or_,
    select,
)

from retrier.domain.access import QueuePatterns
from retrier.domain.failed_message import GIVEN_UP, Disposition, FailedMessageStatus, RetryEnd
from retrier.domain.failure_texts import fold
from retrier.domain.fields import FieldConditions, conditions_in
from retrier.domain.identity import canonical, is_guid
from retrier.domain.outcomes import RetryOutcome
from retrier.domain.selection import (
    OF_PLACE,
    Selection,
    WantedDisposition,
    bounds_of,
    chosen_parts,
)
from retrier.domain.values import dataclass
from retrier.errors import TooManyFound
from retrier.policy.reasons import GATEWAY_CODES, HANDLER_EXCEPTION, find_named
from retrier.store.engine.database import Database, reading, writing
from retrier.store.engine.sql_dialect import NumberSource, SqlDialect, contains, like_pattern
from retrier.store.engine.transaction import Transaction
from retrier.store.fields import have_fields, holders_of
from retrier.store.schema import (
    cause_groups,
    causes,
    ended_retries,
    failed_message_retries,
    failed_messages,
    message_texts,
    processing_attempts,
)
from retrier.store.words import have_words, holders_of_words

messages = failed_messages.c
texts = message_texts.c
claims = failed_message_retries.c
ended = ended_retries.c
attempts = processing_attempts.c
members = cause_groups.c


Condition = ColumnElement[bool]

MOST_LOOKED_UP = 1000
"""Causes that are looked up before the messages, at most."""

MOST_TEXTS = 10_000
"""Texts that are, and messages by words: of a million each further look takes as long as the first."""


def conditions(selection: Selection) -> list[Condition]:
    """Return the conditions, to be joined by AND; there is none for named ids."""
    wanted = causes_of(selection)
    of_cause = [] if wanted is None else [messages.cause_id.in_(wanted)]
    return [*_of_row(selection), *of_cause]


def conditions_looked_up(tx: Transaction, selection: Selection) -> list[Condition]:
    """Return the same conditions, with the ids of causes looked up first.

    The same for texts. With ids in the statement, PostgreSQL knows from its statistics how many messages match: it
    reads few by their index, and many by a scan. With a subquery it cannot know.
    """
    by_text = [] if selection.text is None else [_with_text_looked_up(tx, selection.text)]
    by_text += [] if selection.reason is None else [_with_reason_looked_up(tx, selection.reason)]
    by_text += _with_fields_looked_up(tx, selection.fields)
    by_text += _with_words_looked_up(tx, selection)
    others = replace(selection, text=None, reason=None, fields=(), words=None, anywhere=None)
    wanted = causes_of(others)
    found = None if wanted is None else _look_up(tx, wanted)
    if found is None:
        return [*conditions(others), *by_text]
    return [*_of_row(others), tx.sql.member(messages.cause_id, found), *by_text]


def _look_up(
    tx: Transaction, wanted: Select[tuple[int]], most: int = MOST_LOOKED_UP
) -> Sequence[int] | None:
    """Return the ids of causes or texts; None if there are too many of them."""
    found = tx.execute(wanted.limit(most + 1)).scalars().all()
    return None if len(found) > most else found


def _with_text_looked_up(tx: Transaction, wanted: str) -> Condition:
    found = _look_up(tx, texts_with(wanted), MOST_TEXTS)
    has_text = (
        messages.text_id.in_(texts_with(wanted))
        if found is None
        else tx.sql.member(messages.text_id, found)
    )
    # Nearly no text is an id. With OR, the index of texts alone would not do.
    named = select(messages.number).where(is_id(wanted)).limit(1)
    return has_text | is_id(wanted) if tx.execute(named).first() else has_text


def _with_reason_looked_up(tx: Transaction, wanted: str) -> Condition:
    found = _look_up(tx, causes_of_word(wanted))
    return has_reason(wanted) if found is None else has_reason(wanted, among=found, sql=tx.sql)


def _with_fields_looked_up(tx: Transaction, fields: FieldConditions) -> Iterator[Condition]:
    for each in fields:
        found = _look_up(tx, holders_of(each))
        yield from (
            have_fields([each]) if found is None else (tx.sql.member(messages.number, found),)
        )


def _with_words_looked_up(tx: Transaction, selection: Selection) -> Iterator[Condition]:
    if selection.words is not None:
        yield _with_words(tx, selection.words, selection.counted_to)
    if selection.anywhere is not None:
        by_text = _with_text_looked_up(tx, selection.anywhere)
        yield or_(by_text, _with_words(tx, selection.anywhere))


def _with_words(tx: Transaction, wanted: str, counted_to: int | None = None) -> Condition:
    # Once, if they are not too many: of a phrase of frequent words PostgreSQL reads all that has them.
    found = _look_up(tx, holders_of_words(wanted, counted_to), MOST_TEXTS)
    return (
        have_words(wanted, counted_to) if found is None else tx.sql.member(messages.number, found)
    )


MOST_FROZEN = 100_000
"""Messages that an act may take by the words in them: they are written down, each with its id."""


def check_frozen(selection: Selection, count: int, most: int = MOST_FROZEN) -> None:
    """Raise TooManyFound if a selection by words is of more messages than an act may take."""
    if selection.words is not None and count > most:
        raise TooManyFound(
            f"More than {most:,} messages have these words, and an act by words takes no more: add "
            "another condition, such as a queue or a time, or a limit."
        )


def freeze_words(
    tx: Transaction,
    selection: Selection,
    *more: Condition,
    limit: int | None = None,
    most: int = MOST_FROZEN,
) -> Selection:
    """Return a selection by words as the messages that have them now, and meet `more`.

    An act that goes on for hours would look for the words before each step. Other selections are
    returned as they are. Raises TooManyFound.
    """
    if selection.words is None:
        return selection
    found = (
        select(messages.unique_message_id)
        .where(*conditions_looked_up(tx, selection), *more)
        .order_by(messages.failure_seq)
        .limit(most + 1 if limit is None else min(limit, most + 1))
    )
    ids = tuple(tx.execute(found).scalars())
    check_frozen(selection, len(ids), most)
    return Selection(ids=ids, within=selection.within)


def may_be_retried(selection: Selection) -> list[Condition]:
    """Return the conditions, beside its own, of what an operation with this selection may take.

    Of what matches: only *unresolved* messages, *scheduled* ones too; *dead* ones only if the
    selection asks for them. Count, preview and cut ask in these words, so that they agree. Not for
    named ids: a person who names a message means it.
    """
    of_person = () if asks_for_dead(selection) else (messages.disposition != Disposition.DEAD,)
    return [messages.status == FailedMessageStatus.UNRESOLVED, *of_person]


def asks_for_dead(selection: Selection) -> bool:
    """Say whether it is about dead messages, too."""
    return selection.disposition in (WantedDisposition.DEAD, WantedDisposition.ANY)


def are_dead() -> Condition:
    """Return the condition that messages are dead, in the words of the index that has only those."""
    return messages.disposition == literal_column(f"'{Disposition.DEAD}'")


def are_scheduled() -> Condition:
    """Return the condition that messages are scheduled, in the words of their index."""
    return messages.disposition == literal_column(f"'{Disposition.SCHEDULED}'")


def to_json(selection: Selection) -> dict[str, object]:
    """Return the JSON of an operation's row: of ids only how many, as they have their own rows."""
    parts: dict[str, object] = {**chosen_parts(selection), **bounds_of(selection)}
    if selection.ids is not None:
        parts["ids"] = len(selection.ids)
    return parts


def from_json(parts: Mapping[str, object]) -> Selection:
    """Return the selection of an operation's row; `ids` is empty, as they have their own rows."""
    disposition, least = parts.get("disposition"), parts.get("attempts_at_least")
    counted_to, passed_over = parts.get("counted_to"), parts.get("passed_over")
    within = parts.get("within")
    return Selection(
        ids=() if "ids" in parts else None,
        group=_text(parts.get("group")),
        queue=_text(parts.get("queue")),
        endpoint=_text(parts.get("endpoint")),
        exception_type=_text(parts.get("exception_type")),
        message_type=_text(parts.get("message_type")),
        reason=_text(parts.get("reason")),
        stream=_text(parts.get("stream")),
        host=_text(parts.get("host")),
        process=_text(parts.get("process")),
        node=_text(parts.get("node")),
        text=_text(parts.get("text")),
        words=_text(parts.get("words")),
        archived_by=_text(parts.get("archived_by")),
        operation=_text(parts.get("operation")),
        outcome=None if (outcome := parts.get("outcome")) is None else RetryOutcome(str(outcome)),
        failed_from=_time(parts.get("failed_from")),
        failed_to=_time(parts.get("failed_to")),
        disposition=None if disposition is None else WantedDisposition(str(disposition)),
        attempts_at_least=None if least is None else int(str(least)),
        counted_to=None if counted_to is None else int(str(counted_to)),
        passed_over=tuple(passed_over) if isinstance(passed_over, list) else (),
        within=tuple(within) if isinstance(within, list) else None,
        fields=conditions_in(parts),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _time(text: object) -> datetime | None:
    return None if text is None else datetime.fromisoformat(str(text))


def _of_row(selection: Selection) -> Iterator[Condition]:
    if selection.statuses is not None:
        yield _has_status(selection.statuses)
    if selection.up_to is not None:
        yield messages.failure_seq <= selection.up_to
    yield from _of_plan(selection)
    yield from _of_failure(selection)
    if selection.reason is not None:
        yield has_reason(selection.reason)
    if selection.modified is not None:
        yield messages.last_modified.between(*selection.modified)
    if selection.sent_in is not None:
        yield messages.time_sent.between(*selection.sent_in)
    if selection.id_range is not None:
        first, last = selection.id_range.first, selection.id_range.last
        yield messages.unique_message_id.between(first, last)
    if selection.operation is not None:
        yield messages.number.in_(_retried_by(selection.operation, selection.outcome))
    if selection.pending:
        # Of the messages alone: the query around may read the claims, too.
        pending = exists().where(claims.number == messages.number, *_was_sent(selection))
        yield pending.correlate(failed_messages)


_CAME_LATE = (
    exists()
    .where(attempts.number == ended.number, attempts.retry_id == cast(ended.retry_id, Text))
    .correlate(ended_retries)
)
"""The condition that a retry which had ended otherwise came back after that."""
_GIVEN_UP = and_(ended.outcome.in_(GIVEN_UP), ended.forwarded_at.is_not(None))
"""The condition that a retry was sent, and that its outcome was waited for no longer."""


def _retried_by(
    operation: str, outcome: RetryOutcome | None
) -> Select[tuple[int]] | CompoundSelect[tuple[int]]:
    """Return the numbers of messages that an operation has retried, with this outcome."""
    # No operation has another kind of id, and PostgreSQL refuses to compare that with a `uuid`.
    if not is_guid(operation):
        return select(ended.number).where(false())
    key = canonical(operation)
    over = select(ended.number).where(ended.operation_id == key)
    claimed = select(claims.number).where(claims.operation_id == key)
    match outcome:
        case None:
            return over.union_all(claimed)
        case RetryOutcome.WAITING:
            return claimed.where(claims.forwarded_at.is_not(None))
        case RetryOutcome.CAME_BACK:
            return over.where(or_(ended.outcome == RetryEnd.FAILED, and_(_GIVEN_UP, _CAME_LATE)))
        case RetryOutcome.CONFIRMED | RetryOutcome.EDITED:
            return over.where(ended.outcome == RetryEnd(outcome))
        case RetryOutcome.PRESUMED | RetryOutcome.RESOLVED | RetryOutcome.RELEASED:
            return over.where(ended.outcome == RetryEnd(outcome), _GIVEN_UP, ~_CAME_LATE)
        case _ as never:
            assert_never(never)


def _of_plan(selection: Selection) -> Iterator[Condition]:
    """Yield the conditions that a plan adds: they leave out what came to match after its preview.

    A transaction that began before the preview and ended after it has a higher number, whatever
    its time is: it takes the number under the lock that a cut-off waits for.
    """
    if selection.counted_to is not None:
        yield messages.failure_seq <= selection.counted_to
        yield _by(messages.changed_seq, selection.counted_to)
    if selection.passed_over:
        # In the statement itself: there may be more of them than a statement has parameters.
        passed_over: BindParameter[int] = bindparam(
            "passed_over", selection.passed_over, expanding=True, literal_execute=True
        )
        yield messages.failure_seq.not_in(passed_over)


def _by(number: ColumnElement[int], counted_to: int) -> Condition:
    """Return the condition that a number is no higher, or that there is none."""
    return or_(number.is_(None), number <= counted_to)


def _of_failure(selection: Selection) -> Iterator[Condition]:
    if selection.failed_from is not None:
        yield messages.last_failure >= selection.failed_from
    if selection.failed_to is not None:
        yield messages.last_failure <= selection.failed_to
    if selection.attempts_at_least is not None:
        yield messages.attempts >= selection.attempts_at_least
    if selection.disposition not in (None, WantedDisposition.ANY):
        yield messages.disposition == selection.disposition
    if selection.archived_by is not None:
        # No operation has another kind of id, and PostgreSQL refuses to compare that with a `uuid`.
        known = is_guid(selection.archived_by)
        by = messages.archive_operation_id == canonical(selection.archived_by)
        yield by if known else false()
    exact = (
        (messages.message_id, selection.message_id),
        (messages.stream_id, selection.stream),
        *((messages[name], getattr(selection, name)) for name in OF_PLACE),
    )
    yield from (column == value for column, value in exact if value is not None)
    if selection.fields:
        yield from have_fields(selection.fields)
    if selection.text is not None:
        yield holds_text(selection.text)
    if selection.words is not None:
        yield have_words(selection.words, selection.counted_to)
    if selection.anywhere is not None:
        yield or_(holds_text(selection.anywhere), have_words(selection.anywhere))


def sent(before: datetime | None) -> Iterator[Condition]:
    """Yield the conditions that a claim is recorded as forwarded, and by that time."""
    yield claims.forwarded_at.is_not(None)
    if before is not None:
        yield claims.forwarded_at <= before


def _was_sent(selection: Selection) -> Iterator[Condition]:
    yield from sent(selection.sent_before)
    if selection.sent_since is not None:
        yield claims.forwarded_at >= selection.sent_since
    if selection.counted_to is not None:
        yield _by(claims.sent_seq, selection.counted_to)
    if selection.sent_to is not None:
        own = select(causes.c.cause_id).where(causes.c.destination == selection.sent_to)
        yield and_(claims.sent_to.is_(None), messages.cause_id.in_(own))


def _has_status(statuses: frozenset[FailedMessageStatus]) -> Condition:
    if len(statuses) == 1:
        return messages.status == next(iter(statuses))
    return messages.status.in_(sorted(statuses))


def causes_of(selection: Selection) -> Select[tuple[int]] | None:
    """Return the causes of what is meant; None if no condition is about causes."""
    parts = (
        (causes.c.queue, selection.queue),
        (causes.c.exception_type, selection.exception_type),
        (causes.c.message_type, selection.message_type),
    )
    alike = [column == value for column, value in parts if value is not None]
    if selection.endpoint is not None:
        alike.append(is_shown_at(selection.endpoint))
    if selection.within is not None:
        alike.append(is_within(selection.within))
    if selection.group is None:
        return select(causes.c.cause_id).where(*alike) if alike else None
    in_group = _causes_in(selection.group)
    if not alike:
        return in_group
    return in_group.join(causes, causes.c.cause_id == members.cause_id).where(*alike)


def is_shown_at(endpoint: str) -> Condition:
    """Return the condition that failures of a cause are shown with this endpoint.

    Those that name none are shown under their queue's name. As two conditions,
    each of which has an index.
    """
    of_queue = causes.c.queue == endpoint
    return or_(causes.c.endpoint == endpoint, causes.c.endpoint.is_(None) & of_queue)


def is_within(patterns: QueuePatterns) -> Condition:
    """Return the condition that failures of a cause were on a queue of these patterns."""
    return or_(false(), *(like_pattern(causes.c.queue, each) for each in patterns))


@reading
def has_any(tx: Transaction, selection: Selection) -> bool:
    """Say whether any message matches. Raises DatabaseUnavailable."""
    query = select(messages.number).where(*conditions(selection)).limit(1)
    return tx.execute(query).first() is not None


@reading
def count_matches(tx: Transaction, selection: Selection) -> int:
    """Count the messages that match. Raises DatabaseUnavailable."""
    query = select(func.count()).select_from(failed_messages).where(*conditions(selection))
    return int(tx.execute(query).scalar_one())


@reading
def find_queues(tx: Transaction, ids: Sequence[str]) -> Mapping[str, str]:
    """Return the queue on which each of these messages failed last, by the id given.

    An id that no message has is left out. Raises DatabaseUnavailable.
    """
    wanted = {each: canonical(each) for each in ids if is_guid(each)}
    query = (
        select(messages.unique_message_id, causes.c.queue)
        .join_from(failed_messages, causes, causes.c.cause_id == messages.cause_id)
        .where(tx.sql.member(messages.unique_message_id, sorted({*wanted.values()})))
    )
    found = {row.unique_message_id: row.queue for row in tx.execute(query)} if wanted else {}
    return {each: found[key] for each, key in wanted.items() if key in found}


def find_foreign(
    tx: Transaction, within: QueuePatterns | None, numbers: Sequence[int]
) -> frozenset[int]:
    """Return those of these messages that failed last on a queue of none of the patterns.

    Asked where the act is done: a message may fail elsewhere after its queue was looked at.
    """
    if within is None or not numbers:
        return frozenset()
    query = (
        select(messages.number)
        .join_from(failed_messages, causes, causes.c.cause_id == messages.cause_id)
        .where(tx.sql.member(messages.number, sorted(numbers)), not_(is_within(within)))
    )
    return frozenset(tx.execute(query).scalars())


def _causes_in(group: str) -> Select[tuple[int]]:
    # No group has another kind of id, and PostgreSQL refuses to compare that with a `uuid`.
    in_group = members.group_id == canonical(group) if is_guid(group) else false()
    return select(members.cause_id).where(in_group)


CHUNK = 1000
"""How many messages one transaction changes at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Unique message ids, and the number of the last one, where the next chunk begins."""

    unique_ids: tuple[str, ...]
    last: int


@reading
def last_number(tx: Transaction) -> int:
    """Return the failure number at which a bulk act ends. Raises DatabaseUnavailable."""
    return tx.sql.last_number(tx.conn, NumberSource.FAILURE_SEQ)


def known_by_now(db: Database, selection: Selection) -> Selection:
    """Return a selection whose plan says no more than can have been counted by now.

    Nobody can have counted what has no number yet, whatever the plan says. Raises
    DatabaseUnavailable.
    """
    if selection.counted_to is None:
        return selection
    return replace(selection, counted_to=min(selection.counted_to, last_number(db)))


@writing
def take_cut_off(tx: Transaction) -> int:
    """Return the failure number up to which all are committed; what fails later has a higher one.

    A short transaction of its own, because ingestion waits while the lock is held. What counts
    messages comes afterwards. It writes nothing, but takes its turn with those that do. Raises
    DatabaseUnavailable.
    """
    tx.sql.take_cut_off(tx.conn)
    return tx.sql.last_number(tx.conn, NumberSource.FAILURE_SEQ)


@reading
def find_chunk(tx: Transaction, selection: Selection, after: int) -> Chunk | None:
    """Return the next messages after the number `after`, at most CHUNK; None at the end.

    In order of number, so that all chunks together read the table once. Raises DatabaseUnavailable.
    """
    query = (
        select(messages.number, messages.unique_message_id)
        .where(messages.number > after, *conditions(selection))
        .order_by(messages.number)
        .limit(CHUNK)
    )
    rows = tx.execute(query).all()
    if not rows:
        return None
    return Chunk(unique_ids=tuple(row.unique_message_id for row in rows), last=rows[-1].number)


def has_reason(
    wanted: str, *, among: Sequence[int] | None = None, sql: SqlDialect | None = None
) -> ColumnElement[bool]:
    """Return the condition that a failure is classified under a reason, or names it in its headers.

    The word of the headers counts as well: it is what people see in titles of groups, and messages
    that were stored before reasons were derived have nothing else. What an application calls a
    built-in reason is understood as in its headers (`TransportUnavailable`, 1). `among` are the ids of the causes
    with that word, if the caller has looked them up.
    """
    named = None if wanted in GATEWAY_CODES else find_named(wanted)
    classified = messages.reason == wanted
    if named not in (None, wanted):
        classified = messages.reason.in_([wanted, named])
    if named == HANDLER_EXCEPTION:
        # As a word it says nothing: it counts only for what was stored before there were reasons.
        unclassified = messages.reason.is_(None)
        return or_(classified, and_(unclassified, messages.cause_id.in_(causes_of_word(wanted))))
    if among is None or sql is None:
        return or_(classified, messages.cause_id.in_(causes_of_word(wanted)))
    return or_(classified, sql.member(messages.cause_id, among)) if among else classified


def causes_of_word(wanted: str) -> Select[tuple[int]]:
    """Return the query for the causes whose headers have this word."""
    return select(causes.c.cause_id).where(causes.c.failure_reason == wanted)


def holds_text(wanted: str) -> ColumnElement[bool]:
    """Return the condition that a text is in what a message shows, or is its id."""
    return or_(messages.text_id.in_(texts_with(wanted)), is_id(wanted))


def is_id(wanted: str) -> ColumnElement[bool]:
    """Return the condition that a text is exactly the id or the message id of a message."""
    is_message_id = messages.message_id == wanted
    if is_guid(wanted):
        return is_message_id | (messages.unique_message_id == canonical(wanted))
    return is_message_id


def texts_with(wanted: str) -> Select[tuple[int]]:
    """Return the query for the stored texts with this text in them, in any case."""
    return select(texts.text_id).where(contains(texts.folded, fold(wanted)))


@reading
def find_ids(tx: Transaction, texts: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return the unique ids of the messages that each text names; a text that names none is left out.

    Whole ids only. Senders use ids like ours, so both kinds are looked up. Raises
    DatabaseUnavailable.
    """
    ours = {canonical(text): text for text in texts if is_guid(text)}
    found: defaultdict[str, set[str]] = defaultdict(set)
    by_ours = select(messages.unique_message_id).where(
        tx.sql.member(messages.unique_message_id, sorted(ours))
    )
    for key in tx.execute(by_ours).scalars() if ours else ():
        found[ours[key]].add(key)
    by_theirs = select(messages.message_id, messages.unique_message_id).where(
        tx.sql.member(messages.message_id, sorted(set(texts)))
    )
    for row in tx.execute(by_theirs) if texts else ():
        found[row.message_id].add(row.unique_message_id)
    return {text: sorted(keys) for text, keys in found.items()}

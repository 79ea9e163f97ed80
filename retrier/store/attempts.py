"""Processing attempts (`processing_attempts`): every failure of a message, never changed later."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from functools import cache
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple, assert_never

from sqlalchemy import Select, and_, delete, func, select

from retrier.domain.decision import (
    Dead,
    Decision,
    Judgement,
    Manual,
    RetryAt,
    disposition_of,
)
from retrier.domain.failed_message import Disposition, FailedMessageStatus, Failure
from retrier.domain.folding import message_id_of
from retrier.domain.identity import canonical, is_guid
from retrier.domain.message_views import read_facts
from retrier.domain.recording import Attempt, MessageChange, StoredAttempt
from retrier.domain.retry_batch import StoredOriginal
from retrier.domain.streams import LOOKED_AT, NO_POSITION, unite
from retrier.domain.values import dataclass
from retrier.domain.wire import PropertyCodec
from retrier.store.engine.database import reading
from retrier.store.engine.sql_dialect import IN_BINARY, NumberSource, SqlDialect
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.event_log import identifier, long, short
from retrier.store.message_lists import SOURCES, Page, PageRequest, texts_of
from retrier.store.schema import causes, failed_messages, processing_attempts

attempts = processing_attempts.c


Columns = Mapping[str, object]
"""Values by the names of their columns."""

NO_POLICY: Columns = MappingProxyType(dict.fromkeys(("disposition_reason", "policy", "retry_at")))
"""The columns that are empty unless a policy decided, or somebody said why."""

_UNDECIDED: Columns = MappingProxyType({"disposition": None, **NO_POLICY})


class NewAttempt(NamedTuple):
    """An attempt under its id, with the columns of its judgement."""

    attempt_id: int
    attempt: Attempt
    judgement: Judgement
    columns: Columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """What a message shows from now on: its change, and its newest attempt with cause and text."""

    change: MessageChange
    shown: NewAttempt
    cause_id: int
    text_id: int


def decided_columns(decision: Decision) -> Columns:
    """Return the columns that say what was decided about a failure."""
    return {
        "disposition": disposition_of(decision),
        "disposition_reason": short(decision.why),
        "policy": short(decision.policy),
        "retry_at": decision.at if isinstance(decision, RetryAt) else None,
    }


def decision_of(row: StoredRow) -> Decision:
    """Return the decision that stands in these columns of a message."""
    why, policy = row.disposition_reason, row.policy
    match Disposition(row.disposition):
        case Disposition.MANUAL:
            return Manual(why=why, policy=policy)
        case Disposition.SCHEDULED:
            return RetryAt(at=row.retry_at, why=why or "", policy=policy or "")
        case Disposition.DEAD:
            return Dead(why=why or "", policy=policy)
        case _ as never:
            assert_never(never)


def judged_columns(judgement: Judgement, failures: int | None) -> Columns:
    """Return the columns of a judgement; of a failure that changes nothing only its reason."""
    decided = _UNDECIDED if failures is None else decided_columns(judgement.decision)
    return {**decided, "reason": short(judgement.reason), "failure_count": failures}


def columns_of(judged: Iterable[tuple[Judgement, int | None]]) -> list[Columns]:
    """Return the columns of many judgements, the same names for all; made once for equal ones.

    Without policies most of them are empty in all rows: then they are left out, as each column of a
    row that is added takes time.
    """
    known: dict[tuple[int, int | None], Columns] = {}
    # The judgements live on in the list, so that no two of them have one id.
    pairs = [(judgement, (id(judgement), failures)) for judgement, failures in judged]
    for judgement, key in pairs:
        if key not in known:
            known[key] = judged_columns(judgement, key[1])
    if not any(columns[name] for columns in known.values() for name in NO_POLICY):
        for key, columns in known.items():
            known[key] = {name: each for name, each in columns.items() if name not in NO_POLICY}
    return [known[key] for _, key in pairs]


def shown_columns(newest: Newest) -> Columns:
    """Return the columns of a message that come from its newest failure and its judgement.

    Of the judgement those are left out that no failure of the batch has.
    """
    shown = newest.shown
    failure = shown.attempt.failure
    details, is_new = failure.details, newest.change.is_new
    return {
        "attempt_id": shown.attempt_id,
        "cause_id": newest.cause_id,
        "text_id": newest.text_id,
        "message_id": short(failure.message_id),
        "time_sent": details.time_sent,
        # A missing time is filled in for display only; last_failure_known is false then.
        "last_failure": shown.attempt.shown_time,
        "last_failure_known": details.time_of_failure is not None,
        "last_modified": failure.received_at,
        "body_size": len(failure.body),
        "properties_size": len(failure.raw),
        "stream_id": short(details.stream_id),
        "stream_queue": short(details.queue) if details.stream_id else None,
        "stream_position": details.stream_position or NO_POSITION,
        "stream_position_unread": details.stream_position_unread,
        # One that fails again may be in a stream although this failure does not say so.
        "stream_rule": shown.judgement.stream if details.stream_id or not is_new else None,
        "maybe_copy_of": shown.attempt.maybe_copy_of,
        "host": short(details.host),
        "process": short(details.process),
        "node": short(details.node),
        **shown.columns,
    }


class StoredBody(NamedTuple):
    """A body's hash, and the attempt that stores the body; None if somebody deleted that."""

    body_hash: str
    held_by: int | None


BodyHolders = dict[tuple[int, str], int]
"""The attempt that stores a body, by the number of its message and the body's hash."""


def seen(tx: Transaction, fingerprints: Sequence[str]) -> dict[str, AbstractSet[str]]:
    """Return, for each fingerprint that has attempts, the unique ids of their messages."""
    found: dict[str, set[str]] = {}
    if fingerprints:
        query = (
            select(attempts.fingerprint, failed_messages.c.unique_message_id)
            .join_from(
                processing_attempts, failed_messages, failed_messages.c.number == attempts.number
            )
            .where(tx.sql.member(attempts.fingerprint, fingerprints))
        )
        for fingerprint, unique_id in tx.execute(query):
            found.setdefault(fingerprint, set()).add(unique_id)
    return dict(found)


def find_redelivered(tx: Transaction, fingerprints: Sequence[str]) -> frozenset[str]:
    """Return those of these fingerprints that an attempt has which the broker had handed out before."""
    if not fingerprints:
        return frozenset()
    query = select(attempts.fingerprint).where(
        tx.sql.member(attempts.fingerprint, fingerprints), attempts.redelivered
    )
    return frozenset(tx.execute(query).scalars())


def find_elsewhere(tx: Transaction, nameless: Mapping[str, str]) -> dict[str, str]:
    """Return, by fingerprint, a message that came with the same bytes on another error queue.

    `nameless` has the error queues of failures without a message id, by their fingerprints.
    """
    found: dict[str, str] = {}
    if nameless:
        query = (
            select(attempts.fingerprint, attempts.error_queue, failed_messages.c.unique_message_id)
            .join_from(
                processing_attempts, failed_messages, failed_messages.c.number == attempts.number
            )
            .where(tx.sql.member(attempts.fingerprint, sorted(nameless)))
            .order_by(attempts.attempt_id)
        )
        for fingerprint, error_queue, unique_id in tx.execute(query):
            if error_queue != nameless[fingerprint]:
                found.setdefault(fingerprint, unique_id)
    return found


def find_namesakes(tx: Transaction, failures: Sequence[Failure]) -> dict[str, Sequence[str]]:
    """Return, by fingerprint, open messages with the same message id, queue, type and body."""
    wanted = {each.fingerprint: _name_of(each) for each in failures if each.message_id is not None}
    if not wanted:
        return {}
    messages = failed_messages.c
    query = (
        select(
            messages.message_id,
            causes.c.queue,
            causes.c.message_type,
            attempts.body_hash,
            messages.unique_message_id,
        )
        .join_from(failed_messages, processing_attempts, attempts.attempt_id == messages.attempt_id)
        .join(causes, causes.c.cause_id == messages.cause_id)
        .where(
            tx.sql.member(messages.message_id, sorted({str(key[0]) for key in wanted.values()})),
            tx.sql.member(attempts.body_hash, sorted({each.body_hash for each in failures})),
            messages.status.in_(_OPEN),
        )
        .order_by(messages.number)
    )
    found: dict[tuple[object, ...], list[str]] = {}
    for *key, unique_id in tx.execute(query):
        found.setdefault(tuple(key), []).append(unique_id)
    return {each: found[key] for each, key in wanted.items() if key in found}


def _name_of(failure: Failure) -> tuple[object, ...]:
    details = failure.details
    return message_id_of(failure), details.queue, details.message_type, failure.body_hash


_OPEN = (FailedMessageStatus.UNRESOLVED, FailedMessageStatus.RETRY_ISSUED)


def find_bodies(tx: Transaction, attempt_ids: Sequence[int]) -> dict[int, StoredBody]:
    """Return the stored bodies of these attempts, by attempt; deleted attempts are left out."""
    if not attempt_ids:
        return {}
    holders = processing_attempts.alias("holders")
    same = holders.c.attempt_id == func.coalesce(attempts.same_body_as, attempts.attempt_id)
    query = (
        select(attempts.attempt_id, attempts.body_hash, holders.c.attempt_id)
        .outerjoin_from(processing_attempts, holders, and_(same, holders.c.body.is_not(None)))
        .where(tx.sql.member(attempts.attempt_id, attempt_ids))
    )
    return {row[0]: StoredBody(row[1], row[2]) for row in tx.execute(query)}


def read_bodies(tx: Transaction, attempt_ids: Sequence[int]) -> dict[int, bytes]:
    """Return the bodies that these attempts hold, by attempt."""
    if not attempt_ids:
        return {}
    query = select(attempts.attempt_id, attempts.body).where(
        tx.sql.member(attempts.attempt_id, attempt_ids), attempts.body.is_not(None)
    )
    return {row[0]: bytes(row[1]) for row in tx.execute(query)}


@cache
def select_originals(sql: SqlDialect) -> Select[Any]:
    """Return the query of messages as they failed, by the parameter `attempts`: ids of attempts."""
    holder = processing_attempts.alias()
    equal = (
        select(holder.c.body).where(holder.c.attempt_id == attempts.same_body_as).scalar_subquery()
    )
    return (
        select(
            attempts.attempt_id,
            attempts.number,
            attempts.raw_properties,
            func.coalesce(attempts.body, equal).label("body"),
            attempts.dialect,
            attempts.error_queue,
        )
        .where(sql.listed(attempts.attempt_id, "attempts"))
        .execution_options(**{IN_BINARY: True})
    )


def find_originals(tx: Transaction, attempt_ids: Sequence[int]) -> Mapping[int, StoredOriginal]:
    """Return the messages of these attempts as they failed; without those whose body is deleted."""
    rows = tx.execute(select_originals(tx.sql), {"attempts": attempt_ids})
    return {
        row.attempt_id: StoredOriginal(
            row.raw_properties, row.body, row.dialect, row.error_queue, completed_steps=None
        )
        for row in rows
        if row.body is not None
    }


def find_stored(tx: Transaction, attempt_ids: Sequence[int]) -> dict[int, StoredAttempt]:
    """Return what these attempts say, to compare failures with; deleted ones are left out."""
    if not attempt_ids:
        return {}
    query = _stored().where(tx.sql.member(attempts.attempt_id, attempt_ids))
    return {row.attempt_id: _as_stored(row) for row in tx.execute(query)}


def find_first(tx: Transaction, numbers: Sequence[int]) -> dict[int, StoredAttempt]:
    """Return the first attempts of these messages, by the number of the message."""
    if not numbers:
        return {}
    others = processing_attempts.alias("others")
    first = (
        select(func.min(others.c.attempt_id))
        .where(tx.sql.member(others.c.number, numbers))
        .group_by(others.c.number)
    )
    query = _stored().where(attempts.attempt_id.in_(first))
    return {row.number: _as_stored(row) for row in tx.execute(query)}


def find_outcomes(
    tx: Transaction, retries: Mapping[int, Collection[str]]
) -> dict[int, dict[str, StoredAttempt]]:
    """Return, by message, the first failure that was stored under each of these retries."""
    found: dict[int, dict[str, StoredAttempt]] = {}
    query = (
        _stored()
        .where(tx.sql.member(attempts.number, sorted(retries)), attempts.retry_id.is_not(None))
        .order_by(attempts.attempt_id)
    )
    for row in tx.execute(query):
        if row.retry_id in retries[row.number]:
            found.setdefault(row.number, {}).setdefault(row.retry_id, _as_stored(row))
    return found


def _stored() -> Select[Any]:
    of_cause = (
        causes.c.queue,
        causes.c.destination,
        causes.c.endpoint,
        causes.c.message_type,
    )
    kept = (attempts.attempt_id, attempts.number, attempts.raw_properties, attempts.retry_id)
    return select(*kept, *of_cause).join_from(
        processing_attempts, causes, causes.c.cause_id == attempts.cause_id
    )


def _as_stored(row: StoredRow) -> StoredAttempt:
    return StoredAttempt(
        raw=bytes(row.raw_properties),
        queue=row.queue,
        destination=row.destination,
        endpoint=row.endpoint,
        message_type=row.message_type,
        retry_id=row.retry_id,
    )


def take_ids(tx: Transaction, count: int) -> Sequence[int]:
    """Take `count` new attempt ids, ascending."""
    return tx.sql.take_numbers(tx.conn, NumberSource.ATTEMPT, count) if count else []


def add(
    tx: Transaction,
    new: Sequence[NewAttempt],
    numbers: Mapping[str, int],
    cause_ids: Mapping[str, int],
    holders: BodyHolders,
) -> None:
    """Add attempts; their messages must have rows already.

    `numbers` are those of the messages by unique id, `cause_ids` those of the causes by
    fingerprint. A body that `holders` has for the same message is not stored again.
    """
    if new:
        rows = list(_rows(new, numbers, cause_ids, holders))
        tx.sql.add_rows(tx.conn, processing_attempts, rows)


def delete_of(tx: Transaction, numbers: Sequence[int]) -> None:
    """Delete all attempts of these messages: no body is left that another attempt refers to."""
    tx.execute(delete(processing_attempts).where(tx.sql.member(attempts.number, numbers)))


def _rows(
    new: Sequence[NewAttempt],
    numbers: Mapping[str, int],
    cause_ids: Mapping[str, int],
    holders: BodyHolders,
) -> Iterator[dict[str, object]]:
    keeps_texts = any(each.attempt.failure.keeps_texts for each in new)
    for attempt_id, attempt, judgement, columns in new:
        failure = attempt.failure
        number = numbers[attempt.unique_message_id]
        held_by = holders.setdefault((number, failure.body_hash), attempt_id)
        yield {
            "attempt_id": attempt_id,
            "number": number,
            "cause_id": cause_ids[failure.cause.fingerprint],
            "received_at": failure.received_at,
            "fingerprint": failure.fingerprint,
            "body_hash": failure.body_hash,
            "redelivered": failure.redelivered,
            "dialect": failure.dialect,
            "error_queue": failure.error_queue,
            "time_of_failure": failure.details.time_of_failure,
            "retry_id": identifier(failure.retry_id),
            **(_own_columns(judgement, columns) if judgement.stands else columns),
            **(_texts(failure) if keeps_texts else {}),
            "completed_steps": long(failure.details.completed_steps),
            "same_body_as": None if held_by == attempt_id else held_by,
            "raw_properties": failure.raw,
            "body": failure.body if held_by == attempt_id else None,
        }


def _own_columns(judgement: Judgement, columns: Columns) -> Columns:
    """Return the columns of a failure that was not judged, because what was decided before stays.

    Without a decision: a simulation that judged it anew would find a difference where there is none.
    """
    why = judgement.decision.why or "what was decided before stays"
    own: Columns = {
        **_UNDECIDED,
        "reason": short(judgement.failure_reason),
        "disposition_reason": short(f"not judged: {why}"),
        "failure_count": None,
    }
    return {name: own[name] for name in columns}


def _texts(failure: Failure) -> Columns:
    """Return the texts that only the body has; where the properties have them, they are shown."""
    details = failure.details
    return {
        "exception_message": long(details.exception_message) if failure.keeps_texts else None,
        "stack_trace": long(details.stack_trace) if failure.keeps_texts else None,
    }


def find_steps(tx: Transaction, numbers: Sequence[int]) -> Mapping[int, str | None]:
    """Return the completed steps of these messages by number; none for one that named no steps.

    Only attempts that name some are in the index: without any, this reads nothing.
    """
    rows = tx.execute(_named(tx.sql), {"numbers": list(numbers)})
    return {
        number: unite(row.steps for row in said)
        for number, said in groupby(rows, attrgetter("number"))
    }


NAMED_BY_ANY = (
    select(attempts.number)
    .where(attempts.completed_steps.is_not(None))
    .order_by(attempts.number)
    .limit(1)
    .scalar_subquery()
    .is_not(None)
)
"""Whether any attempt names steps: the first entry of an index that has only such attempts.

Not EXISTS: without statistics the planner expects the first row of the table to name some, and
reads all of them one after the other.
"""


@cache
def _named(sql: SqlDialect) -> Select[Any]:
    return (
        select(attempts.number, func.substr(attempts.completed_steps, 1, LOOKED_AT).label("steps"))
        .where(sql.listed(attempts.number, "numbers"), attempts.completed_steps.is_not(None))
        .order_by(attempts.number, attempts.attempt_id)
    )


SHOWN_ATTEMPTS = 50
"""Attempts that are shown with their message, the newest; `attempts` of the message counts all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAttempt:
    """One failure of a message. `is_current`: the message shows details and headers of this one."""

    attempt_id: int
    retry_id: str | None
    time_of_failure: datetime | None
    received_at: datetime
    redelivered: bool
    error_queue: str
    dialect: str
    queue: str
    endpoint: str | None
    message_type: str | None
    exception_type: str | None
    exception_message: str | None
    stack_trace: str | None
    failure_reason: str | None
    disposition: Disposition | None
    disposition_reason: str | None
    policy: str | None
    reason: str | None
    failure_count: int | None
    retry_at: datetime | None
    host: str | None
    host_id: str | None
    process: str | None
    node: str | None
    source: str | None
    is_current: bool


_PLAIN = (
    attempts.attempt_id,
    attempts.retry_id,
    attempts.time_of_failure,
    attempts.received_at,
    attempts.redelivered,
    attempts.error_queue,
    attempts.dialect,
    attempts.disposition_reason,
    attempts.policy,
    attempts.reason,
    attempts.failure_count,
    attempts.retry_at,
    causes.c.endpoint,
    causes.c.message_type,
    causes.c.exception_type,
    causes.c.failure_reason,
)
"""Columns that are shown as they are."""


@reading
def list_attempts(
    tx: Transaction,
    unique_message_id: str,
    page: PageRequest,
    codec: PropertyCodec,
    *,
    descending: bool = False,
) -> Page[ShownAttempt] | None:
    """Return one page of all failures of a message, the oldest first; None if there is no such.

    Raises DatabaseUnavailable.
    """
    message = find_row(tx, unique_message_id)
    if message is None:
        return None
    of_message = attempts.number == message["number"]
    count = select(func.count()).select_from(processing_attempts).where(of_message)
    key = attempts.attempt_id.desc() if descending else attempts.attempt_id
    query = _shown().where(of_message).order_by(key).limit(page.size).offset(page.offset)
    total = tx.execute(count).scalar_one()
    rows = tx.execute(query).mappings()
    return Page(items=tuple(_from_row(dict(row), message, codec) for row in rows), total=total)


def find_row(tx: Transaction, unique_message_id: str) -> Mapping[str, Any] | None:
    """Return the row of a message, and the queue of its cause; None if there is no such."""
    if not is_guid(unique_message_id):
        return None
    messages = failed_messages.c
    query = (
        select(failed_messages, causes.c.queue)
        .join(causes, causes.c.cause_id == messages.cause_id)
        .where(messages.unique_message_id == canonical(unique_message_id))
    )
    row = tx.execute(query).mappings().one_or_none()
    return None if row is None else dict(row)


def newest_attempts(
    tx: Transaction, message: Mapping[str, Any], codec: PropertyCodec
) -> tuple[ShownAttempt, ...]:
    """Return the newest attempts of a message (`number`, `attempt_id`, `queue`), oldest first."""
    of_message = _shown().where(attempts.number == message["number"])
    query = of_message.order_by(attempts.attempt_id.desc()).limit(SHOWN_ATTEMPTS)
    rows = tx.execute(query).mappings().all()
    return tuple(_from_row(dict(row), message, codec) for row in reversed(rows))


def attempts_named(
    tx: Transaction, message: Mapping[str, Any], ids: Iterable[int], codec: PropertyCodec
) -> Mapping[int, ShownAttempt]:
    """Return the attempts of a message with these ids."""
    rows = tx.execute(_shown().where(tx.sql.member(attempts.attempt_id, sorted(ids)))).mappings()
    return {row["attempt_id"]: _from_row(dict(row), message, codec) for row in rows}


def _shown() -> Select[Any]:
    return select(*_PLAIN, attempts.disposition, *SOURCES).outerjoin_from(
        processing_attempts, causes, causes.c.cause_id == attempts.cause_id
    )


def _from_row(
    row: Mapping[str, Any], message: Mapping[str, Any], codec: PropertyCodec
) -> ShownAttempt:
    texts = texts_of(row, codec)
    return ShownAttempt(
        **{column.name: row[column.name] for column in _PLAIN},
        # An old attempt's cause may be deleted: it has no foreign key.
        queue=row["queue"] or message["queue"],
        disposition=Disposition(row["disposition"]) if row["disposition"] else None,
        exception_message=texts.exception_message,
        stack_trace=texts.stack_trace,
        host=texts.host,
        host_id=texts.host_id,
        process=texts.process,
        node=texts.node,
        source=read_facts(texts.headers).source,
        is_current=row["attempt_id"] == message["attempt_id"],
    )

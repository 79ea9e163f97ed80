"""Processing attempts (`processing_attempts`): every failure of a message, never changed later."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple, assert_never

from sqlalchemy import and_, delete, func, select

from retrier.domain.decision import Dead, Decision, Manual, RetryAt
from retrier.domain.failed_message import Disposition
from retrier.domain.receipt import Attempt, MessageChange
from retrier.store.engine.sql_dialect import Counter
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import failed_messages, processing_attempts
from retrier.store.tables.event_log import identifier, long, short


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """What a message shows from now on: its change, its newest attempt, and their ids."""

    change: MessageChange
    attempt: Attempt
    attempt_id: int
    cause_id: int


def decided_columns(decision: Decision) -> dict[str, object]:
    """Return the parameters for the decision on an unresolved message."""
    undecided: dict[str, object] = {"why": short(decision.why), "due": None, "by": None}
    match decision:
        case Manual():
            return {**undecided, "decided": Disposition.MANUAL}
        case RetryAt(at=at, policy=policy):
            return {**undecided, "decided": Disposition.SCHEDULED, "due": at, "by": policy}
        case Dead(policy=policy):
            return {**undecided, "decided": Disposition.DEAD, "by": policy}
        case _ as never:
            assert_never(never)


def shown_columns(newest: Newest) -> dict[str, object]:
    """Return the columns of a message that come from its newest failure."""
    failure = newest.attempt.failure
    details = failure.details
    return {
        "attempt_id": newest.attempt_id,
        "cause_id": newest.cause_id,
        "message_id": short(failure.message_id),
        "time_sent": details.time_sent,
        # A missing time is filled in for display only; last_failure_known is false then.
        "last_failure": newest.attempt.shown_time,
        "last_failure_known": details.time_of_failure is not None,
        "last_modified": failure.received_at,
        "body_size": len(failure.body),
        "properties_size": len(failure.raw),
        "stream_id": short(details.stream_id),
        "maybe_copy_of": newest.attempt.maybe_copy_of,
    }


attempts = processing_attempts.c


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


def take_ids(tx: Transaction, count: int) -> Sequence[int]:
    """Take `count` new attempt ids, ascending."""
    return tx.sql.take_numbers(tx.conn, Counter.ATTEMPT, count) if count else []


def add(
    tx: Transaction,
    ids: Sequence[int],
    new: Sequence[Attempt],
    numbers: Mapping[str, int],
    cause_ids: Mapping[str, int],
    holders: BodyHolders,
) -> None:
    """Add attempts under these ids; their messages must have rows already.

    `numbers` are those of the messages by unique id, `cause_ids` those of the causes by
    fingerprint. A body that `holders` has for the same message is not stored again.
    """
    if new:
        rows = list(_rows(ids, new, numbers, cause_ids, holders))
        tx.sql.add_rows(tx.conn, processing_attempts, rows)


def delete_of(tx: Transaction, numbers: Sequence[int]) -> None:
    """Delete all attempts of these messages: no body is left that another attempt refers to."""
    tx.execute(delete(processing_attempts).where(tx.sql.member(attempts.number, numbers)))


def _rows(
    ids: Sequence[int],
    new: Sequence[Attempt],
    numbers: Mapping[str, int],
    cause_ids: Mapping[str, int],
    holders: BodyHolders,
) -> Iterator[dict[str, object]]:
    for attempt_id, attempt in zip(ids, new, strict=True):
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
            "completed_steps": long(failure.details.completed_steps),
            "same_body_as": None if held_by == attempt_id else held_by,
            "raw_properties": failure.raw,
            "body": failure.body if held_by == attempt_id else None,
        }

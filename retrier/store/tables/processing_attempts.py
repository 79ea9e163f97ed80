"""Processing attempts and bodies: every failure ever seen of a message, never overwritten."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from sqlalchemy import Connection, select

from retrier.domain.receipt import Attempt
from retrier.store.columns import identifier, long, short
from retrier.store.database import Database
from retrier.store.new_rows import add_new
from retrier.store.schema import message_bodies, processing_attempts


def seen(
    db: Database, conn: Connection, fingerprints: Sequence[str]
) -> dict[str, AbstractSet[str]]:
    """Return, for each fingerprint that has attempts, the messages they belong to."""
    found: dict[str, set[str]] = {}
    if fingerprints:
        attempts = processing_attempts.c
        query = select(attempts.fingerprint, attempts.unique_message_id).where(
            db.sql.member(attempts.fingerprint, fingerprints)
        )
        for fingerprint, unique_id in conn.execute(query):
            found.setdefault(fingerprint, set()).add(unique_id)
    return dict(found)


def insert_bodies(db: Database, conn: Connection, attempts: Iterable[Attempt]) -> None:
    """Store each body once under its hash; one that is there already stays."""
    bodies = {attempt.failure.body_hash: attempt.failure.body for attempt in attempts}
    known = _known_bodies(db, conn, list(bodies))
    rows = [
        {"body_hash": key, "body": bodies[key], "size": len(bodies[key])}
        for key in sorted(bodies.keys() - known)
    ]
    add_new(db, conn, message_bodies, rows)


def insert(db: Database, conn: Connection, attempts: Sequence[Attempt]) -> None:
    """Add the attempts; the messages must have rows already."""
    if attempts:
        db.sql.add_rows(conn, processing_attempts, [_row(attempt) for attempt in attempts])


def _known_bodies(db: Database, conn: Connection, hashes: Sequence[str]) -> frozenset[str]:
    if not hashes:
        return frozenset()
    column = message_bodies.c.body_hash
    return frozenset(conn.execute(select(column).where(db.sql.member(column, hashes))).scalars())


def _row(attempt: Attempt) -> dict[str, object]:
    failure = attempt.failure
    details = failure.details
    return {
        "unique_message_id": attempt.unique_message_id,
        "fingerprint": failure.fingerprint,
        "retry_id": identifier(failure.retry_id),
        "time_of_failure": details.time_of_failure,
        "received_at": failure.received_at,
        "queue": short(details.queue),
        "endpoint": short(details.endpoint),
        "exception_type": short(details.exception_type),
        "exception_message": long(details.exception_message),
        "stack_trace": long(details.stack_trace),
        "raw_properties": failure.raw,
        "body_hash": failure.body_hash,
        "redelivered": failure.redelivered,
    }

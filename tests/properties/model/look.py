"""What the database says of every message, in one cheap read."""

from dataclasses import dataclass

from sqlalchemy import Connection

from retrier.store.engine.database import Database

QUERY = """
SELECT m.unique_message_id, m.status, m.disposition_reason, c.retry_id, c.batch_id,
       c.operation_id, c.sending_since, c.forwarded_at
FROM failed_messages m
LEFT JOIN failed_message_retries c ON c.unique_message_id = m.unique_message_id
"""
COMPLETED = "SELECT operation_id FROM retry_operations WHERE state = 'completed'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The claim of a message."""

    retry_id: str
    batch_id: str
    operation_id: str
    stamped: bool
    recorded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One message as it stands in the database."""

    status: str
    claim: Claim | None
    reason: str | None


def look(db: Database) -> dict[str, Seen]:
    """Return every message; a look from outside, which no fault can meet."""
    return Database.read(db, _look)


def completed(db: Database) -> set[str]:
    """Return the operations that are completed."""
    return Database.read(db, lambda conn: set(conn.exec_driver_sql(COMPLETED).scalars()))


def _look(conn: Connection) -> dict[str, Seen]:
    found = {}
    for key, status, reason, retry, batch, operation, since, at in conn.exec_driver_sql(QUERY):
        claim = retry and Claim(
            retry_id=retry,
            batch_id=batch,
            operation_id=operation,
            stamped=since is not None,
            recorded=at is not None,
        )
        found[key] = Seen(status=status, claim=claim or None, reason=reason)
    return found

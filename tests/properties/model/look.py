"""What the database says of every message, in one cheap read."""

from dataclasses import dataclass

from sqlalchemy import select

from retrier.domain.failed_message import Disposition
from retrier.domain.retry_operation import RetryOperationState
from retrier.store.engine.database import Database
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import failed_message_retries, failed_messages, retry_operations

messages = failed_messages.c
claims = failed_message_retries.c

QUERY = select(
    messages.unique_message_id,
    messages.status,
    messages.disposition,
    messages.disposition_reason,
    messages.failure_count,
    messages.stream_queue,
    messages.stream_id,
    messages.stream_rule,
    messages.released,
    claims.retry_id,
    claims.batch_id,
    claims.operation_id,
    claims.sending_since,
    claims.forwarded_at,
).outerjoin_from(failed_messages, failed_message_retries, claims.number == messages.number)
COMPLETED = select(retry_operations.c.operation_id).where(
    retry_operations.c.state == RetryOperationState.COMPLETED
)


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
    scheduled: bool
    dead: bool
    failures: int
    stream: tuple[str, str] | None
    rule: str | None
    released: bool


def look(db: Database) -> dict[str, Seen]:
    """Return every message; a look from outside, which no fault can meet."""
    return Database.read(db, _look)


def completed(db: Database) -> set[str]:
    """Return the operations that are completed."""
    return Database.read(db, lambda tx: set(tx.execute(COMPLETED).scalars()))


def _look(tx: Transaction) -> dict[str, Seen]:
    found = {}
    for key, status, *decided, retry, batch, operation, since, at in tx.execute(QUERY):
        claim = retry and Claim(
            retry_id=retry,
            batch_id=batch,
            operation_id=operation,
            stamped=since is not None,
            recorded=at is not None,
        )
        disposition, reason, failures, queue, stream_id, rule, released = decided
        found[key] = Seen(
            status=status,
            claim=claim or None,
            reason=reason,
            scheduled=disposition == Disposition.SCHEDULED,
            dead=disposition == Disposition.DEAD,
            failures=failures,
            stream=None if stream_id is None else (queue, stream_id),
            rule=rule,
            released=released,
        )
    return found

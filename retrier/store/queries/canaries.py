"""What came back of the first messages of an operation, which were sent alone."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select

from retrier.domain.failed_message import RetryEnd
from retrier.domain.retry_operation import CanaryState, RetryOperation
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.error_queue_reads import find_why_unread
from retrier.store.schema import ended_retries, processing_attempts, retry_operation_canaries

canaries = retry_operation_canaries.c
ended = ended_retries.c
attempts = processing_attempts.c


def count_back(tx: Transaction, operation: RetryOperation) -> int | None:
    """Count the messages of an operation's canary that came back; None if it has no canary.

    Those that failed again, and those that could not be sent: returned, refused or ejected. Once it
    is judged, those that were counted then.
    """
    canary = operation.canary
    if canary is None:
        return None
    query = select(canaries.retries, canaries.came_back)
    row = tx.execute(query.where(canaries.operation_id == operation.operation_id)).one()
    if canary.state in (CanaryState.PASSED, CanaryState.FAILED):
        return int(row.came_back)
    return operation.failed + _count_failed_again(tx, row.retries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of a canary when it is judged. `unread` says why something may be missing."""

    came_back: int
    unread: str | None
    waited_until: datetime


def find_evidence(tx: Transaction, operation: RetryOperation) -> Evidence:
    """Return what is known of the canary of an operation, which waits for its verdict.

    Confirmations of all that did not come back are enough; else the error queues must have been
    read past the end of the wait: what is not read yet is no success.
    """
    query = select(canaries.retries, canaries.waited_until)
    row = tx.execute(query.where(canaries.operation_id == operation.operation_id)).one()
    back, until = operation.failed + _count_failed_again(tx, row.retries), row.waited_until
    missing = operation.sent - back - _count_confirmed(tx, row.retries)
    unread = find_why_unread(tx, until) if missing > 0 else None
    return Evidence(came_back=back, unread=unread, waited_until=until)


def _count_confirmed(tx: Transaction, retries: list[tuple[int, str]]) -> int:
    sent = {(int(number), str(retry_id)) for number, retry_id in retries}
    query = select(ended.number, ended.retry_id).where(
        tx.sql.member(ended.number, sorted({number for number, _ in sent})),
        ended.outcome == RetryEnd.CONFIRMED,
    )
    return len(sent & {(row.number, row.retry_id) for row in tx.execute(query)})


def _count_failed_again(tx: Transaction, retries: list[tuple[int, str]]) -> int:
    """Count by retry id: another retry of such a message may have failed, and is not meant.

    A retry failed if its claim ended so, or if a failure names it: a person may have resolved the
    message, or retried it again, before it came back.
    """
    sent = {(int(number), str(retry_id)) for number, retry_id in retries}
    numbers = sorted({number for number, _ in sent})
    ended_so = select(ended.number, ended.retry_id).where(
        tx.sql.member(ended.number, numbers), ended.outcome == RetryEnd.FAILED
    )
    named = select(attempts.number, attempts.retry_id).where(
        tx.sql.member(attempts.number, numbers), attempts.retry_id.is_not(None)
    )
    failed = {
        (row.number, row.retry_id) for query in (ended_so, named) for row in tx.execute(query)
    }
    return len(sent & failed)

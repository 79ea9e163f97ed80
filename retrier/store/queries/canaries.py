"""What came back of the first messages of an operation, which were sent alone."""

from sqlalchemy import select

from retrier.domain.failed_message import RetryEnd
from retrier.domain.retry_operation import CanaryState, RetryOperation
from retrier.store.engine.transaction import Transaction
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

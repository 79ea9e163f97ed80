"""Examples that the model found once, kept as plain tests."""

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.retry_operation import RetryRequest, RetryType
from retrier.domain.selection import Selection
from retrier.gateway import Gateway
from retrier.store.engine.database import Database
from tests.support.bench import QUEUE, Bench
from tests.support.imports import make_imports


def test_pending_retries_of_a_queue_asked_for_again_under_one_key_give_one_answer(
    database: Database,
) -> None:
    # Given a pending retry, asked for again by its queue; nobody heard the answer
    bench = Bench(database)
    bench.fail()
    bench.ask_all()
    bench.work()
    gateway = Gateway(database, lambda: None, imports=make_imports(database))
    request = RetryRequest(
        retry_type=RetryType.MULTIPLE_MESSAGES,
        selection=Selection(ids=()),
        originator="a test",
        requested_by="ada",
        idempotency_key="the same",
    )
    selection = Selection(
        queue=QUEUE,
        statuses=frozenset({FailedMessageStatus.RETRY_ISSUED}),
        pending=True,
    )
    first = gateway.retry_again(request, selection)

    # When it is asked for once more under the same key
    second = gateway.retry_again(request, selection)

    # Then the answer is the operation that was made, though nothing is pending any more
    assert first.total == 1
    assert second == first

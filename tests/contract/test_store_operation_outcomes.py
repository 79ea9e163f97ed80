"""What became of an operation's retries, counted as it arrives."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from sqlalchemy import delete, select, update

from retrier.domain.failed_message import Failure
from retrier.domain.outcomes import OutcomeCounts, RetryOutcome
from retrier.domain.retry_operation import RetryOperation
from retrier.domain.selection import Selection
from retrier.store.engine.database import Database
from retrier.store.message_lists import Order, PageRequest, list_messages
from retrier.store.operation_lists import find_operation
from retrier.store.pending import presume
from retrier.store.recording import record_received
from retrier.store.schema import ended_retries, retry_operation_outcomes, retry_operations
from retrier.store.verification import verify_store
from tests.contract.store_retries import BEING_SENT, CLAIMED, SENT, STAGED, Retry, bring_to
from tests.contract.store_rows import again
from tests.contract.test_store_ended_retries import ENDS, UNSENT
from tests.support.bench import QUEUE, Bench
from tests.support.databases import open_database
from tests.support.factories import FAILED_AT, failure
from tests.support.understood import CODEC

DEADLINE = 30.0
NOTHING = OutcomeCounts()
OF_END = {
    "failed": OutcomeCounts(came_back=1),
    "confirmed": OutcomeCounts(confirmed=1),
    "resolved": OutcomeCounts(resolved=1),
    "released": OutcomeCounts(released=1),
    "presumed": OutcomeCounts(presumed=1),
}


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def operation_of(retry: Retry) -> RetryOperation:
    found = find_operation(retry.bench.db, retry.operation["operation_id"])
    assert found is not None
    return found.operation


def broken_rules(bench: Bench) -> list[str]:
    return [rule.rule for rule in verify_store(bench.db).rules if rule.broken]


@pytest.mark.parametrize("end", ENDS)
def test_a_retry_that_was_sent_counts_under_its_outcome(bench: Bench, end: str) -> None:
    retry = bring_to(bench, SENT)
    assert operation_of(retry).waiting == 1

    ENDS[end](retry)

    assert operation_of(retry).outcomes == OF_END[end]
    assert operation_of(retry).waiting == 0
    assert broken_rules(bench) == []


@pytest.mark.parametrize("end", ["failed", "confirmed"])
def test_one_whose_outcome_comes_before_it_is_recorded_counts_as_sent(
    bench: Bench, end: str
) -> None:
    retry = bring_to(bench, BEING_SENT)

    ENDS[end](retry)

    assert operation_of(retry).forwarded == 1
    assert operation_of(retry).outcomes == OF_END[end]
    assert operation_of(retry).waiting == 0


@pytest.mark.parametrize("stage", [CLAIMED, STAGED])
@pytest.mark.parametrize("end", UNSENT)
def test_what_was_never_sent_has_no_outcome(bench: Bench, stage: str, end: str) -> None:
    retry = bring_to(bench, stage)

    UNSENT[end](retry)

    assert operation_of(retry).outcomes == NOTHING
    assert operation_of(retry).waiting == 0


@pytest.mark.parametrize("end", ["presumed", "resolved", "released"])
def test_one_that_comes_back_after_it_was_given_up_came_back(bench: Bench, end: str) -> None:
    retry = bring_to(bench, SENT)
    ENDS[end](retry)

    retry.fail(retry_id=retry.retry_id, time_of_failure=FAILED_AT + timedelta(hours=1))

    assert operation_of(retry).outcomes == OutcomeCounts(came_back=1)
    assert broken_rules(bench) == []


def test_a_second_copy_that_comes_back_as_well_counts_once(bench: Bench) -> None:
    retry = bring_to(bench, SENT)
    ENDS["presumed"](retry)

    for hours in (1, 2):
        late = FAILED_AT + timedelta(hours=hours)
        retry.fail(retry_id=retry.retry_id, time_of_failure=late)

    assert operation_of(retry).outcomes == OutcomeCounts(came_back=1)


@pytest.mark.parametrize("end", ["waited for", "presumed"])
@pytest.mark.parametrize("minutes", [(5, 5), (5, 6)], ids=["one failure", "two copies that failed"])
def test_what_two_ingesting_processes_store_at_once_came_back_once(
    bench: Bench, minutes: tuple[int, int], end: str
) -> None:
    retry = bring_to(bench, SENT)
    if end == "presumed":
        ENDS["presumed"](retry)
    late = [
        again(
            retry.first,
            queue=QUEUE,
            stamped_id=retry.key,
            retry_id=retry.retry_id,
            time_of_failure=FAILED_AT + timedelta(minutes=each),
        )
        for each in minutes
    ]
    url = bench.db.engine.url.render_as_string(hide_password=False)
    ready = Barrier(len(late), timeout=DEADLINE)

    def ingest(name: str, failed: Failure) -> None:
        """Store it as another process does: with a database of its own."""
        db = open_database(url)
        ready.wait()
        record_received(db, [failed], instance=name)
        db.dispose()

    with ThreadPoolExecutor(len(late)) as pool:
        list(pool.map(ingest, ("one", "other"), late))

    assert operation_of(retry).outcomes == OutcomeCounts(came_back=1)
    assert operation_of(retry).waiting == 0
    assert broken_rules(bench) == []


def test_one_that_was_confirmed_stays_so_if_its_second_copy_fails(bench: Bench) -> None:
    retry = bring_to(bench, SENT)
    retry.confirm()

    retry.fail(retry_id=retry.retry_id, time_of_failure=FAILED_AT + timedelta(hours=1))

    assert operation_of(retry).outcomes == OutcomeCounts(confirmed=1)


def test_the_counts_outlive_the_messages(bench: Bench) -> None:
    retry = bring_to(bench, SENT)
    retry.confirm()

    with bench.db.engine.begin() as conn:
        conn.execute(delete(ended_retries))

    assert operation_of(retry).outcomes == OutcomeCounts(confirmed=1)


def test_an_outcome_of_an_operation_that_is_deleted_counts_nowhere(bench: Bench) -> None:
    retry = bring_to(bench, SENT)
    with bench.db.engine.begin() as conn:
        conn.execute(delete(retry_operations))

    retry.confirm()

    assert retry.message["status"] == "resolved"
    assert bench.rows(select(retry_operation_outcomes)) == []


@pytest.mark.parametrize("end", ["confirmed", "presumed"])
def test_an_operation_is_well_if_all_its_retries_have_an_outcome_and_none_came_back(
    bench: Bench, end: str
) -> None:
    retry = bring_to(bench, SENT)
    assert operation_of(retry).is_well is None

    ENDS[end](retry)

    assert operation_of(retry).is_well is True


def test_an_operation_is_not_well_as_soon_as_one_came_back(bench: Bench) -> None:
    retry = bring_to(bench, SENT)

    ENDS["failed"](retry)

    assert operation_of(retry).is_well is False


def test_verify_finds_counts_that_are_wrong(bench: Bench) -> None:
    retry = bring_to(bench, SENT)
    retry.confirm()
    assert broken_rules(bench) == []

    with bench.db.engine.begin() as conn:
        conn.execute(update(retry_operation_outcomes).values(confirmed=2))

    assert broken_rules(bench) == [
        "what was sent of an operation has an outcome, or a claim that waits for it"
    ]


def test_many_operations_are_counted_in_one_batch(bench: Bench) -> None:
    firsts = [failure(queue=QUEUE, message_id=f"m{n}") for n in range(3)]
    bench.receive(*firsts)
    retries = [bench.ask_all()]
    bench.work()

    found = find_operation(bench.db, bench.operation(retries[0])["operation_id"])

    assert found is not None
    assert found.operation.waiting == 3


def test_presumption_counts_those_of_each_operation(bench: Bench) -> None:
    retry = bring_to(bench, SENT)
    fence = bench.context.lease.fence

    assert presume(bench.db, fence, timedelta(0), [retry.message["number"]]) == 1

    assert operation_of(retry).outcomes == OutcomeCounts(presumed=1)


def outcomes_by_condition(retry: Retry) -> list[str]:
    """Return under which outcomes the message is found as one that the operation retried."""
    operation = retry.operation["operation_id"]
    found = {
        each: list_messages(
            retry.bench.db,
            Selection(operation=operation, outcome=each),
            Order(),
            PageRequest(),
            CODEC,
        )
        for each in RetryOutcome
    }
    return [each for each, page in found.items() if page.total]


@pytest.mark.parametrize("end", ENDS)
def test_the_message_is_found_by_operation_and_outcome_where_it_is_counted(
    bench: Bench, end: str
) -> None:
    retry = bring_to(bench, SENT)
    assert outcomes_by_condition(retry) == ["waiting"]

    ENDS[end](retry)

    counted = operation_of(retry).outcomes.by_outcome
    assert outcomes_by_condition(retry) == [each for each, count in counted.items() if count]


@pytest.mark.parametrize("end", ["presumed", "resolved", "released"])
def test_one_that_came_back_late_is_found_among_those_that_came_back(
    bench: Bench, end: str
) -> None:
    retry = bring_to(bench, SENT)
    ENDS[end](retry)

    retry.fail(retry_id=retry.retry_id, time_of_failure=FAILED_AT + timedelta(hours=1))

    assert outcomes_by_condition(retry) == ["came_back"]

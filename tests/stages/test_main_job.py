"""The processor's main job: failed messages go home, once, and their claims tell so."""

import pytest
from sqlalchemy import select

from retrier.domain import headers
from retrier.store.engine.database import Database
from retrier.store.schema import failed_message_retries
from tests.support.bench import QUEUE, STAGING, Bench
from tests.support.factories import FAILED_AT, failure


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def test_every_unresolved_message_reaches_its_queue_once(bench: Bench) -> None:
    ids = bench.fail(5)

    bench.ask_all()
    bench.work()

    assert bench.sent() == ids


def test_a_sent_message_is_retry_issued_with_its_claim_recorded(bench: Bench) -> None:
    (unique_id,) = bench.fail()

    bench.ask([unique_id])
    bench.work()

    claims = bench.rows(select(failed_message_retries))
    assert bench.statuses() == {unique_id: "retry_issued"}
    assert [bool(claim["forwarded_at"]) for claim in claims] == [True]


def test_no_batch_is_left_when_an_operation_is_complete(bench: Bench) -> None:
    bench.fail(3)

    operation = bench.ask_all()
    bench.work()

    assert bench.batches() == []
    assert bench.operation(operation)["state"] == "completed"


def test_more_than_a_batch_goes_in_several(database: Database) -> None:
    bench = Bench(database)
    ids = bench.fail(1001)

    operation = bench.ask_all()
    bench.work()

    assert bench.sent() == ids
    assert bench.operation(operation)["batches"] == 2


def test_the_forwarded_message_carries_no_stamp_of_staging(bench: Bench) -> None:
    bench.fail(1)

    bench.ask_all()
    bench.work()

    (sent,) = bench.transport.broker.holds(QUEUE)
    carried = set(bench.transport.codec.read(sent.raw).headers)
    assert not carried & headers.STAGING_ONLY


def test_the_body_goes_home_as_it_came(bench: Bench) -> None:
    bench.fail(1, body=b"\x00\xff not text")

    bench.ask_all()
    bench.work()

    (sent,) = bench.transport.broker.holds(QUEUE)
    assert sent.body == b"\x00\xff not text"


def test_a_second_retry_sends_nothing_and_says_why(bench: Bench) -> None:
    (unique_id,) = bench.fail()
    bench.ask([unique_id])
    bench.work()

    second = bench.ask([unique_id])
    bench.work()

    assert bench.sent() == [unique_id]
    assert bench.operation(second)["skipped"] == 1


def test_an_operation_that_matches_nothing_completes_and_says_so(bench: Bench) -> None:
    operation = bench.ask_all()
    bench.work()

    row = bench.operation(operation)
    assert row["state"] == "completed"
    assert "nothing to retry" in row["reason"]


def test_an_unknown_id_is_skipped_with_that_reason(bench: Bench) -> None:
    operation = bench.ask(["no such id"])
    bench.work()

    row = bench.operation(operation)
    assert (row["state"], row["skipped"]) == ("completed", 1)


def test_a_confirmation_resolves_and_ends_the_claim(bench: Bench) -> None:
    (unique_id,) = bench.fail()
    bench.ask([unique_id])
    bench.work()

    bench.confirm(unique_id)

    assert bench.statuses() == {unique_id: "resolved"}
    assert bench.rows(select(failed_message_retries)) == []


def test_a_message_that_fails_again_can_be_retried_again(bench: Bench) -> None:
    (unique_id,) = bench.fail(message_id="7")
    bench.ask([unique_id])
    bench.work()
    body = bench.transport.broker.holds(QUEUE)[0].body

    bench.receive(
        failure(
            message_id="7",
            body=body,
            queue=QUEUE,
            stamped_id=unique_id,
            retry_id=bench.retry_id(unique_id),
            time_of_failure=FAILED_AT,
        )
    )
    assert bench.message(unique_id)["attempts"] == 2
    bench.ask([unique_id])
    bench.work()

    assert bench.sent() == [unique_id, unique_id]


def test_a_message_that_fails_after_the_click_is_not_swept_in(bench: Bench) -> None:
    before = bench.fail(2)
    bench.ask_all()
    bench.fail(2)

    bench.work()

    assert bench.sent() == before


def test_a_missing_destination_reverts_only_its_message(bench: Bench) -> None:
    (lost,) = bench.fail(queue="gone")
    (kept,) = bench.fail()

    operation = bench.ask_all()
    bench.work()

    assert bench.statuses() == {lost: "unresolved", kept: "retry_issued"}
    assert "NO_ROUTE" in bench.message(lost)["disposition_reason"]
    row = bench.operation(operation)
    assert (row["state"], row["forwarded"], row["failed"]) == ("completed", 1, 1)


def test_a_single_retry_overtakes_a_bulk_after_one_batch(database: Database) -> None:
    bench = Bench(database)
    bulk = bench.fail(1500)
    bench.ask_all()
    (single,) = bench.fail()
    for _ in range(3):
        bench.turn()

    bench.ask([single])
    bench.work()

    assert bench.sent().index(single) == 1000
    assert len(bench.sent()) == len(bulk) + 1


def test_the_staging_queue_is_empty_afterwards(bench: Bench) -> None:
    bench.fail(3)

    bench.ask_all()
    bench.work()

    assert bench.transport.broker.holds(STAGING) == []


def test_an_empty_body_is_retried_like_any_other(bench: Bench) -> None:
    ids = bench.fail(1, body=b"")

    bench.ask_all()
    bench.work()

    assert bench.sent() == ids
    assert [each.body for each in bench.transport.broker.holds(QUEUE)] == [b""]


@pytest.mark.parametrize("message_id", ["a/b c", "100%2F", "../?#", "\u00e9\U0001f600", "x" * 300])
def test_a_message_keeps_its_body_whatever_its_id(bench: Bench, message_id: str) -> None:
    bench.fail(1, message_id=message_id, body=b"the body of " + message_id.encode())

    bench.ask_all()
    bench.work()

    (sent,) = bench.transport.broker.holds(QUEUE)
    assert sent.body == b"the body of " + message_id.encode()

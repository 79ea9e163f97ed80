"""The completed steps of all attempts of a message are united, and every retry carries them."""

from datetime import timedelta

import pytest

from retrier.domain.headers import COMPLETED_STEPS
from retrier.store.engine.database import Database
from retrier.store.message_details import find_message
from retrier.store.schema import processing_attempts
from retrier.transport.rabbitmq.properties.codec import AmqpPropertyCodec
from tests.contract.store_rows import again, rows
from tests.support.bench import QUEUE, Bench, Killed
from tests.support.factories import FAILED_AT, failure, unique_id

CODEC = AmqpPropertyCodec()


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def carried(bench: Bench) -> list[object]:
    """Return the completed steps that each message in the queue carries, in order."""
    lying = bench.transport.broker.holds(QUEUE)
    return [CODEC.read(each.raw).headers.get(COMPLETED_STEPS) for each in lying]


def fail_and_retry(bench: Bench, *said: str | None) -> str:
    """Let a message fail with these steps, each time after a retry; retry it at the end."""
    first = failure(queue=QUEUE, completed_steps=said[0])
    bench.receive(first)
    bench.ask_all()
    bench.work()
    for place, steps in enumerate(said[1:], start=1):
        at = FAILED_AT + timedelta(minutes=place)
        bench.receive(again(first, queue=QUEUE, completed_steps=steps, time_of_failure=at))
        bench.ask_all()
        bench.work()
    return unique_id(first)


def test_steps_1_then_2_then_32769_make_a_retry_carry_3(bench: Bench) -> None:
    fail_and_retry(bench, "1", "2", "32769")

    assert carried(bench) == ["1", "3", "3"]


def test_names_are_united_in_order(bench: Bench) -> None:
    fail_and_retry(bench, "reserve", "pay,reserve", "send")

    assert carried(bench) == ["reserve", "reserve,pay", "reserve,pay,send"]


def test_a_failure_that_names_no_steps_takes_none_away(bench: Bench) -> None:
    fail_and_retry(bench, "1", None)

    assert carried(bench) == ["1", "1"]


def test_a_message_that_never_named_any_carries_none(bench: Bench) -> None:
    fail_and_retry(bench, None, None)

    assert carried(bench) == [None, None]


def test_an_attempt_that_only_counts_adds_its_steps_too(bench: Bench) -> None:
    # Given a message, and an older failure of it that comes late and changes nothing else
    first = failure(queue=QUEUE, completed_steps="1")
    bench.receive(first)
    earlier = FAILED_AT - timedelta(hours=1)
    bench.receive(again(first, queue=QUEUE, completed_steps="4", time_of_failure=earlier))

    bench.ask_all()
    bench.work()

    assert carried(bench) == ["5"]


def test_each_attempt_keeps_what_it_said(bench: Bench) -> None:
    fail_and_retry(bench, "1", "32769")

    said = [row["completed_steps"] for row in rows(bench.db, processing_attempts)]
    assert said == ["1", "32769"]


def test_the_message_shows_what_its_next_retry_will_carry(bench: Bench) -> None:
    key = fail_and_retry(bench, "1", "2")

    found = find_message(bench.db, key, CODEC)

    assert found is not None
    assert found.completed_steps == "3"


def test_a_retry_that_is_sent_again_after_a_crash_carries_them_again(bench: Bench) -> None:
    first = failure(queue=QUEUE, completed_steps="1")
    later = FAILED_AT + timedelta(minutes=1)
    bench.receive(first, again(first, queue=QUEUE, completed_steps="2", time_of_failure=later))
    bench.ask_all()
    bench.kill_at("forwarding.published")
    with pytest.raises(Killed):
        bench.work()

    bench.restart()
    bench.work()

    assert carried(bench) == ["3", "3"]

"""What the dialect of Dramatiq reads of a body, whatever that is."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from retrier.domain.dialects import recognise
from retrier.domain.dialects.dialect import LARGEST_BODY, Unintelligible
from retrier.domain.dialects.dramatiq import DramatiqDialect
from retrier.domain.failed_message import Failure, FailureDetails
from retrier.ingestion.parsing import QueueMapping
from tests.support.dialect_headers import OURS, death, properties
from tests.support.raw_messages import delivery, rabbitmq_headers
from tests.support.understood import failure

DRAMATIQ = DramatiqDialect()
TRACE = 'Traceback (most recent call last):\n  File "a.py", line 1\nshop.Unpaid: order 7\n'
OPTIONS: dict[str, object] = {"retries": 2, "traceback": TRACE}
MESSAGE: dict[str, object] = {
    "queue_name": "orders",
    "actor_name": "pack",
    "args": [7],
    "kwargs": {},
    "options": OPTIONS,
    "message_id": "d4e5",
    "message_timestamp": 1714564800123,
}


def read(body: bytes, **changes: object) -> FailureDetails:
    details = DRAMATIQ.read(properties(death(**changes)), body=body)
    assert isinstance(details, FailureDetails)
    return details


def told(**changes: object) -> FailureDetails:
    return read(json.dumps(MESSAGE | changes).encode())


def with_options(**changes: object) -> FailureDetails:
    return told(options=OPTIONS | changes)


def test_everything_in_the_body_is_read():
    details = told()

    assert details == FailureDetails(
        queue="orders",
        destination="orders",
        message_type="pack",
        exception_type="Unpaid",
        exception_message="order 7",
        stack_trace=TRACE,
        failure_reason="rejected",
        time_sent=datetime(2024, 5, 1, 12, 0, 0, 123000, tzinfo=UTC),
        attempts_reported=3,
        id_in_body="d4e5",
    )


def test_a_message_that_died_on_its_delay_queue_goes_to_the_queue_of_its_actor():
    assert read(b"{}", queue="orders.DQ").destination == "orders"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no json",
        b"\xff\xfe\x00",
        b"null",
        b"[1]",
        b'"text"',
        b"12",
        b'{"actor_name": ',
        b"[" * 500_000,
        b'{"a":' * 200_000,
        b"9" * 10_000,
        b'{"options": ' + b"9" * 10_000 + b"}",
        json.dumps(MESSAGE).encode("utf-16")[1:],
        json.dumps(MESSAGE | {"args": ["x" * LARGEST_BODY]}).encode(),
    ],
    ids=lambda body: repr(body[:12]),
)
def test_of_a_body_that_is_no_message_only_the_death_is_told(body):
    assert read(body) == FailureDetails(
        queue="orders",
        destination="orders",
        exception_message="rejected by a consumer on orders, 3 times",
        failure_reason="rejected",
        attempts_reported=3,
    )


def test_a_body_of_the_largest_size_is_read():
    message = json.dumps(MESSAGE | {"kwargs": {"x": ""}}).encode()
    filled = message.replace(b'"x": ""', b'"x": "' + b"y" * (LARGEST_BODY - len(message)) + b'"')

    assert len(filled) == LARGEST_BODY
    assert read(filled).message_type == "pack"


WRONG: list[Any] = [None, 5, 1.5, True, "", [], {}, ["x"], {"a": {"b": "c"}}]


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
@pytest.mark.parametrize(
    ("name", "field"), [("actor_name", "message_type"), ("message_id", "id_in_body")]
)
def test_a_text_of_another_type_is_not_there(wrong, name, field):
    assert getattr(told(**{name: wrong}), field) is None


@pytest.mark.parametrize("wrong", [*WRONG, "x"], ids=repr)
def test_options_of_another_type_are_none(wrong):
    assert told(options=wrong).stack_trace is None


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_a_traceback_of_another_type_is_none(wrong):
    assert with_options(traceback=wrong).exception_type is None


@pytest.mark.parametrize("wrong", [None, -1, 1.5, True, "x", [], 2**40], ids=repr)
def test_a_count_of_retries_that_is_none_leaves_that_of_the_broker(wrong):
    assert with_options(retries=wrong).attempts_reported == 3


@pytest.mark.parametrize("wrong", [None, -1, 1.5, True, "x", [], 10**30], ids=repr)
def test_a_time_that_is_none_is_not_there(wrong):
    assert told(message_timestamp=wrong).time_sent is None


@pytest.mark.parametrize(
    ("trace", "kind"),
    [("ValueError", "ValueError"), (":", None), ("\n\n", None), ("a.b.C: d: e", "C")],
)
def test_the_last_line_of_a_traceback_names_the_exception(trace, kind):
    assert with_options(traceback=trace).exception_type == kind


def test_it_is_tried_for_queues_of_dead_messages_only():
    assert recognise(properties(death()), queue="orders.XQ") is not recognise(
        properties(death()), queue="orders.dead"
    )


def test_a_failure_that_a_consumer_tells_is_in_the_dialect_of_the_consumer():
    dialect = recognise(properties(death() | OURS), queue="orders.XQ")

    assert dialect is not None
    assert dialect.name == "retrier"


def test_a_death_without_a_queue_is_not_understood():
    assert isinstance(DRAMATIQ.read(properties({"x-death": []}), body=b"{}"), Unintelligible)


def arrived(body: bytes) -> Failure:
    mapping = QueueMapping(queue="error", dialect="dramatiq")
    return failure(delivery(rabbitmq_headers(), body=body), mapping)


def test_the_id_in_the_body_identifies_the_message():
    first, second = arrived(json.dumps(MESSAGE).encode()), arrived(json.dumps(MESSAGE).encode())

    assert first.message_id == "d4e5"
    assert first.computed_id == second.computed_id is not None


def test_hostile_text_is_made_fit_for_a_database():
    body = json.dumps(MESSAGE | {"actor_name": "a\0\ud800" + "b" * 5000}).encode()

    kind = arrived(body).details.message_type

    assert kind is not None
    assert "\0" not in kind
    assert len(kind.encode()) <= 1024

"""Which dialect reads a message, and what all of them share."""

import pytest

from retrier.domain.dialects import DIALECTS, by_name, recognise, strips, written_by_consumer
from retrier.domain.dialects.dialect import count
from tests.support.dialect_headers import NSB, OURS, death, properties


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        (NSB, "nservicebus"),
        (OURS, "retrier"),
        (death(), "rabbitmq"),
        (NSB | OURS | death(), "nservicebus"),
        (OURS | death(), "retrier"),
    ],
    ids=["FailedQ", "FailedQueue", "x-death", "all three", "retrier before rabbitmq"],
)
def test_the_first_dialect_that_knows_the_headers_reads_them(headers, name):
    dialect = recognise(properties(headers))

    assert dialect is not None
    assert dialect.name == name


@pytest.mark.parametrize("more", [{}, {"task": "t", "id": "1"}, {"laravel": "1"}], ids=str)
def test_an_attribute_of_a_sender_on_sqs_is_no_death_of_rabbitmq(more):
    headers = {"SQS.ApproximateReceiveCount": "4", "x-death": "once", **more}

    assert recognise(properties(headers), queue="orders-dead") is by_name("sqs")


def test_a_message_without_failure_headers_is_in_no_dialect():
    assert recognise(properties({"Shop.Tenant": "north"})) is None


def test_header_names_are_case_sensitive():
    assert recognise(properties({"nservicebus.failedq": "sales"})) is None


def test_the_operator_can_name_the_dialect():
    assert recognise(properties(NSB), forced="rabbitmq") is by_name("rabbitmq")


def test_a_dialect_nobody_knows_is_none():
    assert recognise(properties(NSB), forced="esperanto") is None


@pytest.mark.parametrize(
    ("headers", "expected"), [(NSB, True), (OURS, True), (death(), False), ({}, False)]
)
def test_the_broker_is_no_consumer(headers, expected):
    assert written_by_consumer(properties(headers)) is expected


def test_names_are_unique():
    assert len({dialect.name for dialect in DIALECTS}) == len(DIALECTS)


@pytest.mark.parametrize("dialect", ["nservicebus", "retrier", "rabbitmq", "esperanto"])
@pytest.mark.parametrize(
    "header",
    [
        "x-delivery-count",
        "x-acquired-count",
        "x-death",
        "x-first-death-queue",
        "x-first-death-reason",
        "x-first-death-exchange",
        "x-last-death-queue",
        "x-last-death-reason",
        "x-last-death-exchange",
        "x-caf-worker-retry",
        "x-caf-worker-rejected",
        "x-caf-worker-timeouts",
        "x-caf-worker-not-before",
    ],
)
def test_what_broker_and_workers_wrote_is_stripped_in_every_dialect(dialect, header):
    assert strips(dialect, header)


def test_a_dialect_nobody_knows_strips_what_the_known_ones_do():
    assert strips("esperanto", "NServiceBus.FailedQ")
    assert not strips("esperanto", "Shop.Tenant")


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3),
        ("3", 3),
        (0, 0),
        (2**31 - 1, 2**31 - 1),
        (2**31, None),
        ("9" * 5000, None),
        (-1, None),
        (True, None),
        (1.5, None),
        ("three", None),
        ("\u0663", None),
        ("", None),
        (None, None),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_count_is_a_number_a_column_can_hold(value, number):
    assert count(value) == number

"""What a message that says it confirms a retry turns out to be."""

from datetime import UTC, datetime
from typing import Any

import pytest

from retrier.domain.failed_imports import IDLE, UNKNOWN_MESSAGE
from retrier.domain.failed_message import Confirmation, FailedImport, Failure
from retrier.domain.headers import RETRY_SUCCESSFUL, UNIQUE_MESSAGE_ID
from retrier.domain.wire import Delivery
from retrier.ingestion.parsing import QueueMapping
from tests.support.raw_messages import (
    RECEIVED_AT,
    delivery,
    nservicebus_headers,
    rabbitmq_headers,
    retrier_headers,
)
from tests.support.understood import GUID, failed_import, failure, parsed

CONFIRMING = {RETRY_SUCCESSFUL: "2024-05-01 11:59:00:000000 Z", UNIQUE_MESSAGE_ID: GUID}


def confirmation(arrived: Delivery) -> Confirmation:
    found = parsed(arrived)
    assert isinstance(found, Confirmation), found
    return found


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2024-05-01 11:59:00:000000 Z", datetime(2024, 5, 1, 11, 59, tzinfo=UTC)),
        ("2024-05-01T11:59:00Z", datetime(2024, 5, 1, 11, 59, tzinfo=UTC)),
        ("some time ago", None),
        ("", None),
        ("2024-05-09T11:59:00Z", None),
    ],
    ids=["NServiceBus", "ISO", "unreadable", "empty", "a week ahead"],
)
def test_the_time_of_success_is_read(text, time):
    found = confirmation(delivery(CONFIRMING | {RETRY_SUCCESSFUL: text}, body=b""))

    assert (found.unique_message_id, found.succeeded_at) == (GUID, time)
    assert found.received_at == RECEIVED_AT


def test_ids_are_compared_in_lower_case():
    found = confirmation(delivery(CONFIRMING | {UNIQUE_MESSAGE_ID: GUID.upper()}))

    assert found.unique_message_id == GUID


@pytest.mark.parametrize("unique_id", ["", "order-7", "x" * 2000])
def test_a_confirmation_of_no_message_is_a_failed_import(unique_id):
    found = failed_import(delivery(CONFIRMING | {UNIQUE_MESSAGE_ID: unique_id}))

    assert found.reason == f"it confirms a retry, but {UNIQUE_MESSAGE_ID} is no unique id"


@pytest.mark.parametrize(
    "headers", [nservicebus_headers(), retrier_headers()], ids=["nservicebus", "retrier"]
)
def test_a_failure_with_a_copied_confirmation_is_a_failure(headers):
    failure(delivery(headers | CONFIRMING, message_id="9"))


def test_a_confirmation_that_the_broker_dead_lettered_is_one():
    confirmation(delivery(CONFIRMING | rabbitmq_headers()))


@pytest.mark.parametrize("body", [b"", b"{}", b"an order"])
def test_with_an_id_that_is_not_known_it_is_a_failed_import(body):
    found = confirmation(delivery(CONFIRMING, body=body)).if_unknown

    assert (found.reason, found.body) == (UNKNOWN_MESSAGE, body)


@pytest.mark.parametrize("body", [b"", b"{}"])
def test_one_without_content_may_change_nothing(body):
    assert confirmation(delivery(CONFIRMING, body=body)).if_idle is None


def test_one_with_content_that_changes_nothing_is_a_failed_import():
    found: Any = confirmation(delivery(CONFIRMING, body=b"an order")).if_idle

    assert isinstance(found, FailedImport)
    assert (found.reason, found.body) == (IDLE, b"an order")


def test_one_with_content_that_the_broker_dead_lettered_is_a_failure_if_it_changes_nothing():
    arrived = delivery(CONFIRMING | rabbitmq_headers(), body=b"an order")

    found: Any = confirmation(arrived).if_idle

    assert isinstance(found, Failure)
    assert (found.body, found.details.queue) == (b"an order", "orders")


@pytest.mark.parametrize(
    ("moved", "kind"), [(True, Failure), (False, FailedImport)], ids=["moved by SQS", "sent here"]
)
def test_on_sqs_one_with_content_is_a_failure_only_if_its_consumer_had_it(*, moved, kind):
    # SQS takes no empty body, and may deliver a confirmation twice: it must not become work.
    where = "SQS.DeadLetterQueueSourceArn"
    facts = {"SQS.ApproximateReceiveCount": "4", "SQS.OnlySource": "orders"}
    source = {where: "arn:aws:sqs:eu-west-1:123456789012:orders"} if moved else {}

    found: Any = confirmation(delivery(CONFIRMING | facts | source, body=b"ok")).if_idle

    assert isinstance(found, kind)


def test_the_destination_of_an_error_queue_makes_no_failure_of_a_confirmation():
    arrived = delivery(CONFIRMING, body=b"ok")
    found: Any = parsed(arrived, QueueMapping(queue="error", destination="orders"))

    assert isinstance(found.if_idle, FailedImport)


@pytest.mark.parametrize("redelivered", [True, False])
def test_it_tells_whether_it_came_again(*, redelivered):
    found = confirmation(delivery(CONFIRMING, redelivered=redelivered))

    assert (found.redelivered, found.if_unknown.redelivered) == (redelivered, redelivered)

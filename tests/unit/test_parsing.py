"""What a delivery from an error queue turns out to be."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from retrier.domain.amqp_properties import AmqpPropertyCodec
from retrier.domain.failed_message import (
    Confirmation,
    FailedImport,
    Failure,
    OwnCopy,
    Received,
)
from retrier.domain.headers import STAGING_ID, UNIQUE_MESSAGE_ID
from retrier.domain.identity import body_hash, computed_id
from retrier.domain.wire import Delivery, Edit, Properties
from retrier.ingestion.parsing import UNFORESEEN, parse, refused_import
from retrier.ingestion.queue_mapping import QueueMapping
from tests.support.raw_messages import (
    RECEIVED_AT,
    delivery,
    nservicebus_headers,
    rabbitmq_headers,
    retrier_headers,
)

CODEC = AmqpPropertyCodec()
PLAIN = QueueMapping(queue="error")
GUID = "d98c1dd4-008f-04b2-e980-0998ecf8427e"
CONFIRMING = {
    "ServiceControl.Retry.Successful": "2024-05-01 11:59:00:000000 Z",
    UNIQUE_MESSAGE_ID: GUID,
}


def parsed(arrived: Delivery, mapping: QueueMapping = PLAIN) -> Received:
    return parse(arrived, CODEC, mapping, RECEIVED_AT)


def failure(arrived: Delivery, mapping: QueueMapping = PLAIN) -> Failure:
    found = parsed(arrived, mapping)
    assert isinstance(found, Failure), found
    return found


def failed_import(arrived: Delivery, mapping: QueueMapping = PLAIN) -> FailedImport:
    found = parsed(arrived, mapping)
    assert isinstance(found, FailedImport), found
    assert UNFORESEEN not in found.reason
    return found


class TestOwnCopies:
    def test_a_message_with_a_staging_id_is_our_own_copy(self):
        arrived = delivery(
            nservicebus_headers() | {STAGING_ID: "s1", UNIQUE_MESSAGE_ID: GUID}, body=b""
        )

        assert parsed(arrived) == OwnCopy(
            staging_id="s1", unique_message_id=GUID, error_queue="error"
        )

    @pytest.mark.parametrize("others", [CONFIRMING, rabbitmq_headers(), {}])
    def test_a_staging_id_decides_before_everything_else(self, others):
        assert isinstance(parsed(delivery({STAGING_ID: "s1"} | others)), OwnCopy)

    def test_an_end_marker_belongs_to_no_message(self):
        found = parsed(delivery({STAGING_ID: ""}))

        assert found == OwnCopy(staging_id="", unique_message_id=None, error_queue="error")


class TestConfirmations:
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
    def test_the_time_of_success_is_read(self, text, time):
        headers = CONFIRMING | {"ServiceControl.Retry.Successful": text}

        assert parsed(delivery(headers, body=b"")) == Confirmation(
            unique_message_id=GUID, succeeded_at=time, received_at=RECEIVED_AT
        )

    def test_ids_are_compared_in_lower_case(self):
        found = parsed(delivery(CONFIRMING | {UNIQUE_MESSAGE_ID: GUID.upper()}))

        assert isinstance(found, Confirmation)
        assert found.unique_message_id == GUID

    @pytest.mark.parametrize("unique_id", ["", "order-7", "x" * 2000])
    def test_a_confirmation_of_no_message_is_a_failed_import(self, unique_id):
        found = failed_import(delivery(CONFIRMING | {UNIQUE_MESSAGE_ID: unique_id}))

        assert found.reason == f"it confirms a retry, but {UNIQUE_MESSAGE_ID} is no unique id"

    @pytest.mark.parametrize(
        "headers", [nservicebus_headers(), retrier_headers()], ids=["nservicebus", "retrier"]
    )
    def test_a_failure_with_a_copied_confirmation_is_a_failure(self, headers):
        failure(delivery(headers | CONFIRMING, message_id="9"))

    def test_a_confirmation_that_the_broker_dead_lettered_is_one(self):
        assert isinstance(parsed(delivery(CONFIRMING | rabbitmq_headers())), Confirmation)


class TestFailures:
    def test_a_failure_keeps_every_byte_and_says_what_it_is(self):
        arrived = delivery(
            {"Retrier.FailedQueue": "orders", "Retrier.RetryId": "r7", UNIQUE_MESSAGE_ID: GUID},
            body=b"\xff\0",
            message_id="9",
            content_type="application/json",
            redelivered=True,
        )

        found = failure(arrived)

        assert replace(found, groups=(), fingerprint="") == Failure(
            stamped_id=GUID,
            computed_id=computed_id("9", "orders", "retrier"),
            message_id="9",
            retry_id="r7",
            dialect="retrier",
            details=found.details,
            groups=(),
            raw=arrived.raw,
            body=b"\xff\0",
            body_hash=body_hash(b"\xff\0"),
            fingerprint="",
            headers={
                "Retrier.FailedQueue": "orders",
                "Retrier.RetryId": "r7",
                UNIQUE_MESSAGE_ID: GUID,
            },
            content_type="application/json",
            error_queue="error",
            redelivered=True,
            received_at=RECEIVED_AT,
        )

    @pytest.mark.parametrize(
        ("headers", "name"),
        [
            (nservicebus_headers(), "nservicebus"),
            (retrier_headers(), "retrier"),
            (rabbitmq_headers(), "rabbitmq"),
        ],
        ids=["nservicebus", "retrier", "rabbitmq"],
    )
    def test_each_dialect_is_recognised_on_the_wire(self, headers, name):
        assert failure(delivery(headers, message_id="9")).dialect == name

    def test_failures_are_classified(self):
        titles = {
            group.classifier: group.title for group in failure(delivery(retrier_headers())).groups
        }

        assert titles == {
            "Exception Type and Stack Trace": "ValueError: orders.py in load",
            "Message Type": "PlaceOrder",
            "Endpoint Address": "orders",
            "Endpoint Name": "shop",
        }

    def test_the_computed_id_of_nservicebus_is_servicecontrols(self):
        found = failure(delivery(nservicebus_headers()))

        assert found.computed_id == computed_id("5f2a", "Sales", "nservicebus")

    def test_without_an_endpoint_the_queue_tells_messages_apart(self):
        found = failure(delivery(rabbitmq_headers(), message_id="9"))

        assert found.computed_id == computed_id("9", "orders", "rabbitmq")

    def test_without_a_message_id_there_is_nothing_to_compute(self):
        found = failure(delivery(rabbitmq_headers()))

        assert (found.message_id, found.computed_id) == (None, None)

    @pytest.mark.parametrize(
        ("text", "stamped"),
        [
            (GUID, GUID),
            (GUID.upper(), GUID),
            ("order-7", None),
            ("x" * 1_000_000, None),
            ("", None),
        ],
        ids=["a GUID", "in upper case", "no GUID", "a megabyte", "empty"],
    )
    def test_a_stamped_id_counts_only_if_it_is_a_guid(self, text, stamped):
        assert (
            failure(delivery(retrier_headers() | {UNIQUE_MESSAGE_ID: text})).stamped_id == stamped
        )

    def test_a_missing_time_of_failure_stays_missing(self):
        headers = retrier_headers() | {"Retrier.TimeOfFailure": ""}

        assert failure(delivery(headers)).details.time_of_failure is None

    def test_a_clock_a_little_ahead_is_believed(self):
        ahead = RECEIVED_AT + timedelta(minutes=5)
        headers = retrier_headers() | {"Retrier.TimeOfFailure": ahead.isoformat()}

        assert failure(delivery(headers)).details.time_of_failure == ahead

    def test_a_time_that_would_outrank_every_later_failure_is_dropped(self):
        headers = retrier_headers() | {"Retrier.TimeOfFailure": "9999-12-31T23:59:59Z"}

        assert failure(delivery(headers)).details.time_of_failure is None

    @pytest.mark.parametrize(
        ("header", "column", "limit"),
        [
            ("Retrier.Exception.Type", "exception_type", 1024),
            ("Retrier.Exception.Message", "exception_message", 64 * 1024),
            ("Retrier.Exception.StackTrace", "stack_trace", 64 * 1024),
            ("Retrier.MessageType", "message_type", 1024),
            ("Retrier.FailedQueue", "queue", 1024),
            ("Retrier.FailedQueue", "destination", 1024),
            ("Retrier.Stream", "stream_id", 1024),
            ("Retrier.CompletedSteps", "completed_steps", 64 * 1024),
        ],
    )
    def test_text_is_made_fit_for_its_column(self, header, column, limit):
        found = failure(delivery(retrier_headers() | {header: "\0" + "x" * 100_000}))

        assert getattr(found.details, column) == "x" * limit

    def test_headers_are_shown_as_json(self):
        shown = failure(delivery(rabbitmq_headers() | {"text": "a\0b"})).headers

        assert shown["text"] == "ab"
        assert shown["x-death"] == [
            {
                "queue": "orders",
                "reason": "rejected",
                "time": "2024-05-01T11:58:03+00:00",
                "count": 3,
                "exchange": "",
                "routing-keys": ["orders"],
            }
        ]


class TestMappedQueues:
    MAPPED = QueueMapping(queue="error", destination="orders.v2")

    def test_a_configured_destination_is_where_the_retry_goes(self):
        details = failure(delivery(retrier_headers()), self.MAPPED).details

        assert (details.queue, details.destination) == ("orders", "orders.v2")

    def test_with_a_destination_no_failure_header_is_needed(self):
        found = failure(delivery({"Shop.Tenant": "north"}, message_id="9"), self.MAPPED)

        assert (found.details.queue, found.details.destination) == ("orders.v2", "orders.v2")
        assert (found.dialect, found.message_id) == ("retrier", "9")

    def test_with_a_destination_not_even_properties_are_needed(self):
        assert failure(delivery(), self.MAPPED).details.destination == "orders.v2"

    def test_with_a_destination_and_a_dialect_what_that_dialect_knows_is_read(self):
        mapping = QueueMapping(queue="error", dialect="nservicebus", destination="orders.v2")

        found = failure(delivery({"NServiceBus.MessageId": "5f2a"}), mapping)

        assert (found.dialect, found.message_id) == ("nservicebus", "5f2a")

    def test_a_configured_dialect_is_read_instead_of_the_recognised(self):
        mapping = QueueMapping(queue="error", dialect="rabbitmq")

        found = failure(delivery(retrier_headers() | rabbitmq_headers()), mapping)

        assert found.dialect == "rabbitmq"

    def test_a_dialect_nobody_knows_is_told(self):
        mapping = QueueMapping(queue="error", dialect="esperanto")

        assert failed_import(delivery(), mapping).reason == "no dialect is called 'esperanto'"


class TestFailedImports:
    @pytest.mark.parametrize(
        ("arrived", "reason"),
        [
            (
                delivery({"Shop.Tenant": "north"}),
                "none of the headers that say where it failed is there: "
                "NServiceBus.FailedQ, Retrier.FailedQueue, x-death",
            ),
            (
                delivery(retrier_headers() | {"Retrier.FailedQueue": ""}),
                "the header Retrier.FailedQueue is missing or empty",
            ),
            (
                delivery({"x-death": "tampered with"}),
                "the first entry of the header x-death names no queue",
            ),
        ],
        ids=["no headers", "empty queue", "no table"],
    )
    def test_what_cannot_be_understood_says_why(self, arrived, reason):
        assert failed_import(arrived).reason == reason

    def test_unreadable_properties_are_kept_as_they_came(self):
        arrived = Delivery(tag=1, queue="error", raw=b"\xff", body=b"b", redelivered=False)

        found = failed_import(arrived)

        assert (found.raw, found.body, found.error_queue) == (b"\xff", b"b", "error")
        assert found.received_at == RECEIVED_AT
        assert found.reason.startswith("its properties cannot be read: ")

    def test_not_even_a_fault_of_our_own_blocks_the_others(self):
        class FaultyCodec(AmqpPropertyCodec):
            def read(self, raw: bytes) -> Properties:
                raise ZeroDivisionError("a fault")

        found = parse(delivery(), FaultyCodec(), PLAIN, RECEIVED_AT)

        assert isinstance(found, FailedImport)
        assert found.reason == f"{UNFORESEEN}: ZeroDivisionError: a fault"

    def test_a_refused_failure_keeps_its_fingerprint(self):
        arrived = delivery(retrier_headers())

        refused = refused_import(arrived, failure(arrived), "bad\0 data", RECEIVED_AT)

        assert isinstance(refused, FailedImport)
        assert refused.reason == "the database refuses it: bad data"
        assert refused.fingerprint == failure(arrived).fingerprint

    def test_a_refused_confirmation_gets_a_fingerprint(self):
        arrived = delivery(CONFIRMING)

        refused = refused_import(arrived, parsed(arrived), "no", RECEIVED_AT)

        assert isinstance(refused, FailedImport)
        assert len(refused.fingerprint) == 64


class TestFingerprints:
    @pytest.mark.parametrize(
        "headers",
        [retrier_headers(), {"Shop.Tenant": "north"}, {}, None],
        ids=["a failure", "a failed import", "an empty table", "no headers at all"],
    )
    @pytest.mark.parametrize("counter", ["x-delivery-count", "x-acquired-count"])
    def test_a_redelivery_has_the_fingerprint_of_the_first_delivery(self, headers, counter):
        first = delivery(headers, message_id="9")
        again = delivery((headers or {}) | {counter: 1}, message_id="9", redelivered=True)

        assert fingerprint_of(again) == fingerprint_of(first)

    @pytest.mark.parametrize(
        "other",
        [
            delivery(retrier_headers() | {"Shop.Tenant": "north"}),
            delivery(retrier_headers(), body=b"other"),
            delivery(retrier_headers(), message_id="9"),
        ],
        ids=["header", "body", "property"],
    )
    def test_every_other_difference_makes_another_fingerprint(self, other):
        assert fingerprint_of(other) != fingerprint_of(delivery(retrier_headers()))


def fingerprint_of(arrived: Delivery) -> str:
    found: Any = parsed(arrived)
    return found.fingerprint


def test_a_table_emptied_by_an_edit_is_no_table():
    counted = delivery({"x-delivery-count": 2})
    emptied = replace(counted, raw=CODEC.edit(counted.raw, Edit(drop_headers=lambda _name: True)))

    assert fingerprint_of(emptied) == fingerprint_of(counted)

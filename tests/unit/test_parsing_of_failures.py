"""What is read from a failed message, and what the operator's mapping changes."""

from dataclasses import replace
from datetime import timedelta

import pytest

from retrier.app.parts import make_mapping
from retrier.domain.classifiers import cause_of
from retrier.domain.dialects import RABBITMQ, RETRIER
from retrier.domain.dialects.dialect import NOT_KNOWN
from retrier.domain.dialects.nservicebus import NServiceBusDialect
from retrier.domain.failed_message import Failure
from retrier.domain.headers import UNIQUE_MESSAGE_ID
from retrier.domain.identity import body_hash
from retrier.domain.streams import show_position
from retrier.ingestion.parsing import NO_HEADERS, QueueMapping
from retrier.settings import load_settings
from tests.support.library_samples import SAMPLES, easynetq
from tests.support.raw_messages import (
    RECEIVED_AT,
    delivery,
    nservicebus_headers,
    rabbitmq_headers,
    retrier_headers,
)
from tests.support.understood import GUID, failed_import, failure


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

        assert replace(found, fingerprint="") == Failure(
            stamped_id=GUID,
            computed_id=RETRIER.computed_id("9", "orders"),
            message_id="9",
            retry_id="r7",
            dialect="retrier",
            details=found.details,
            cause=cause_of(found.details),
            raw=arrived.raw,
            body=b"\xff\0",
            body_hash=body_hash(b"\xff\0"),
            fingerprint="",
            error_queue="error",
            redelivered=True,
            received_at=RECEIVED_AT,
            sender=found.sender,
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
            group.classifier: group.title
            for group in failure(delivery(retrier_headers())).cause.groups
        }

        assert titles == {
            "Exception Type and Stack Trace": "ValueError: orders.py in load",
            "Message Type": "PlaceOrder",
            "Endpoint Address": "orders",
            "Endpoint Name": "shop",
        }

    def test_the_computed_id_of_nservicebus_is_servicecontrols(self):
        found = failure(delivery(nservicebus_headers()))

        assert found.computed_id == NServiceBusDialect().computed_id("5f2a", "Sales")

    def test_without_an_endpoint_the_queue_tells_messages_apart(self):
        found = failure(delivery(rabbitmq_headers(), message_id="9"))

        assert found.computed_id == RABBITMQ.computed_id("9", "orders")

    @pytest.mark.parametrize("waits", [[], [{"queue": "orders.wait", "reason": "expired"}]])
    def test_a_message_has_the_same_id_whether_or_not_it_waited_before_it_was_parked(self, waits):
        headers = rabbitmq_headers()
        headers["x-death"] = [*waits, *headers["x-death"]]

        found = failure(delivery(headers, message_id="9"))

        assert found.computed_id == RABBITMQ.computed_id("9", "orders")

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
            ("Retrier.Stream", "stream_id", 1024),
            ("Retrier.CompletedSteps", "completed_steps", 64 * 1024),
        ],
    )
    def test_text_is_made_fit_for_its_column(self, header, column, limit):
        found = failure(delivery(retrier_headers() | {header: "\0" + "x" * 100_000}))

        assert getattr(found.details, column) == "x" * limit

    def test_a_queue_that_no_queue_can_be_called_is_not_the_one_without_these_characters(self):
        found = failure(delivery(retrier_headers() | {"Retrier.FailedQueue": "ord\0ers"}))

        assert (found.details.queue, found.details.destination) == ("orders", NOT_KNOWN)

    def test_a_queue_with_a_name_that_is_too_long_is_cut(self):
        found = failure(delivery(retrier_headers() | {"Retrier.FailedQueue": "x" * 9000}))

        assert found.details.destination == "x" * 1024


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

    @pytest.mark.parametrize("dialect", [None, "nservicebus", "retrier", "rabbitmq"])
    @pytest.mark.parametrize(
        "arrived",
        [delivery(), delivery({}), delivery({"Shop.Tenant": "north"}, message_id="9")],
        ids=["no properties", "an empty header table", "other headers"],
    )
    def test_with_a_destination_a_message_without_failure_headers_says_so(self, dialect, arrived):
        mapping = QueueMapping(queue="error", dialect=dialect, destination="orders.v2")

        found = failure(arrived, mapping)

        assert found.details.failure_reason == NO_HEADERS
        assert found.cause.failure_reason == NO_HEADERS
        assert (found.cause.groups[0].title, found.cause.queue) == (
            "no failure headers: orders.v2",
            "orders.v2",
        )

    def test_what_a_message_does_say_is_its_reason_all_the_same(self):
        arrived = delivery({"Retrier.Reason": "too old"})

        assert failure(arrived, self.MAPPED).details.failure_reason == "too old"

    def test_a_message_with_failure_headers_gets_no_other_reason(self):
        headers = retrier_headers() | {"Retrier.Reason": ""}

        assert failure(delivery(headers), self.MAPPED).details.failure_reason is None

    def test_without_a_destination_nobody_can_say_where_it_failed(self):
        mapping = QueueMapping(queue="error", dialect="rabbitmq")

        assert "x-death" in failed_import(delivery(), mapping).reason

    def test_a_configured_dialect_is_read_instead_of_the_recognised(self):
        mapping = QueueMapping(queue="error", dialect="rabbitmq")

        found = failure(delivery(retrier_headers() | rabbitmq_headers()), mapping)

        assert found.dialect == "rabbitmq"

    def test_a_dialect_nobody_knows_is_told(self):
        mapping = QueueMapping(queue="error", dialect="esperanto")

        assert failed_import(delivery(), mapping).reason == "no dialect is called 'esperanto'"


class TestTheStream:
    def test_is_that_of_our_header(self):
        arrived = delivery(retrier_headers() | {"Retrier.Stream": "7"})

        assert failure(arrived).details.stream_id == "7"

    @pytest.mark.parametrize(
        "headers", [nservicebus_headers(), retrier_headers(), rabbitmq_headers()]
    )
    def test_is_that_of_the_header_that_the_settings_name(self, headers):
        arrived = delivery(headers | {"Shop.OrderId": 42, "Retrier.Stream": "7"})

        found = failure(arrived, QueueMapping(queue="error", stream_header="Shop.OrderId"))

        assert found.details.stream_id == "42"

    def test_is_none_without_that_header(self):
        arrived = delivery(retrier_headers() | {"Retrier.Stream": "7"})

        found = failure(arrived, QueueMapping(queue="error", stream_header="Shop.OrderId"))

        assert found.details.stream_id is None


class TestThePlaceInAStream:
    OF_A_STREAM = retrier_headers() | {"Retrier.Stream": "7"}

    @pytest.mark.parametrize("stated", ["12", 12], ids=repr)
    def test_is_what_our_header_states(self, stated):
        found = failure(delivery(self.OF_A_STREAM | {"Retrier.StreamPosition": stated}))

        assert show_position(found.details.stream_position) == "12"
        assert found.details.stream_position_unread is None

    @pytest.mark.parametrize(
        "headers", [nservicebus_headers(), retrier_headers(), rabbitmq_headers()]
    )
    def test_is_what_the_header_states_that_the_settings_name(self, headers):
        stated = {"Shop.OrderId": 42, "Shop.Sequence": 3, "Retrier.StreamPosition": "9"}
        mapping = QueueMapping(
            queue="error", stream_header="Shop.OrderId", stream_order_header="Shop.Sequence"
        )

        found = failure(delivery(headers | stated), mapping)

        assert show_position(found.details.stream_position) == "3"

    @pytest.mark.parametrize("stated", ["the third", "9" * 30, [3], True])
    def test_that_is_neither_number_nor_time_is_kept_to_be_shown(self, stated):
        found = failure(delivery(self.OF_A_STREAM | {"Retrier.StreamPosition": stated}))

        assert found.details.stream_position is None
        assert found.details.stream_position_unread == str(stated)

    def test_that_is_empty_is_said_to_be(self):
        found = failure(delivery(self.OF_A_STREAM | {"Retrier.StreamPosition": ""}))

        assert found.details.stream_position_unread == "(an empty text)"

    def test_that_cannot_be_read_is_made_fit_for_its_column(self):
        stated = "\0" + "x" * 100_000

        found = failure(delivery(self.OF_A_STREAM | {"Retrier.StreamPosition": stated}))

        assert found.details.stream_position_unread == "x" * 200

    def test_is_nothing_without_a_stream(self):
        found = failure(delivery(nservicebus_headers() | {"Retrier.StreamPosition": "12"}))

        assert found.details.stream_position is None
        assert found.details.stream_position_unread is None

    def test_is_nothing_without_the_header(self):
        details = failure(delivery(self.OF_A_STREAM)).details

        assert (details.stream_position, details.stream_position_unread) == (None, None)


@pytest.mark.parametrize("headers", [{}, {"Retrier.FailedQueue": "orders"}], ids=str)
def test_a_death_on_another_error_queue_is_not_where_it_failed(headers):
    deaths = [{"queue": name, "reason": "rejected", "count": 1} for name in ("dead", "orders")]
    mapping = QueueMapping(queue="error", own_queues=frozenset({"error", "dead"}))

    found = failure(delivery({**headers, "x-death": deaths}), mapping)

    assert found.details.destination == "orders"


def test_the_queues_that_retrier_empties_are_known_to_each_of_them():
    settings = load_settings(None, {"RETRIER_INGESTION__ERROR_QUEUES": "error,dead"})

    found = make_mapping(settings, settings.ingestion.error_queues[0])

    assert found.own_queues == {"error", "dead"}


def test_headers_that_retries_go_without_say_nothing_about_which_message_it_is():
    settings = load_settings(None, {})
    queue = settings.ingestion.error_queues[0].model_copy(update={"drop_headers": ("X-Count-*",)})
    mapping = make_mapping(settings, queue)
    first, later = (
        failure(delivery({"Retrier.FailedQueue": "orders", **more}), mapping)
        for more in ({"x-count-1": "3", "tenant": "a"}, {"tenant": "a"})
    )

    assert first.sender.facts(first.raw) == later.sender.facts(later.raw) == {"tenant": "a"}


AT_EU = {"NServiceBus.FailedQ": "billing@eu", "NServiceBus.MessageId": "1"}


def has(*queues):
    return QueueMapping(queue="error", exists=lambda name: name in queues)


@pytest.mark.parametrize(
    ("queues", "found"),
    [
        (("billing@eu", "billing"), "billing@eu"),
        (("billing@eu",), "billing@eu"),
        (("billing",), "billing"),
        ((), "billing"),
    ],
    ids=str,
)
def test_an_at_sign_is_part_of_a_name_if_there_is_such_a_queue(queues, found):
    details = failure(delivery(AT_EU), has(*queues)).details

    assert (details.queue, details.destination) == (found, found)


def test_the_id_of_servicecontrol_is_computed_without_a_machine_whatever_queues_there_are():
    ids = {failure(delivery(AT_EU), has(*queues)).computed_id for queues in ((), ("billing@eu",))}

    assert len(ids) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"NServiceBus.FailedQ": "billing", "NServiceBus.MessageId": "1"},
        {"Retrier.FailedQueue": "billing@eu"},
        {"x-death": [{"queue": "billing@eu", "reason": "rejected", "count": 1}]},
    ],
    ids=str,
)
def test_nobody_is_asked_where_no_name_is_in_doubt(headers):
    asked = []
    mapping = QueueMapping(queue="error", exists=lambda name: bool(asked.append(name)))

    failure(delivery(headers), mapping)

    assert asked == []


def test_a_later_rejection_counts_before_the_whole_name():
    deaths = [{"queue": "mail", "reason": "rejected", "count": 1}]

    found = failure(delivery({**AT_EU, "x-death": deaths}), has("billing@eu"))

    assert found.details.destination == "mail"


class TestADestinationThatIsNotKnown:
    @pytest.mark.parametrize("sample", SAMPLES, ids=lambda each: each.name)
    def test_no_message_of_a_library_is_a_failed_import(self, sample):
        arrived = delivery(sample.headers, queue=sample.found_on, body=sample.body, **sample.fields)

        found = failure(arrived, QueueMapping(queue=sample.found_on))

        assert found.details.destination == sample.details.destination
        assert found.details.queue == (sample.details.queue or sample.found_on)

    def test_it_is_grouped_by_its_cause(self):
        symfony = next(each for each in SAMPLES if each.name == "symfony json")
        arrived = delivery(symfony.headers, queue="failed")

        cause = failure(arrived, QueueMapping(queue="failed")).cause

        assert (cause.queue, cause.destination, cause.exception_type) == (
            "failed",
            "",
            "RuntimeException",
        )

    def test_the_settings_can_name_it_by_what_the_library_names(self):
        symfony = next(each for each in SAMPLES if each.name == "symfony json")
        mapping = QueueMapping(queue="failed", destinations={"async": "orders"})

        details = failure(delivery(symfony.headers, queue="failed"), mapping).details

        assert (details.queue, details.destination) == ("orders", "orders")

    def test_a_wait_queue_is_none(self):
        waited = rabbitmq_headers(queue="orders.delay.5000", reason="expired")

        assert failure(delivery(waited)).details.destination == ""


class TestAnEnvelope:
    ENVELOPE_TYPE = "EasyNetQ.SystemMessages.Error, EasyNetQ"

    def test_stamps_are_those_of_the_message_inside(self):
        inner = {"Headers": {"Retrier.RetryId": "r-1", "Retrier.Stream": "s-7"}, "MessageId": "m-7"}
        body = easynetq(BasicProperties=inner)

        found = failure(delivery(body=body, type=self.ENVELOPE_TYPE))

        assert (found.retry_id, found.message_id) == ("r-1", "m-7")
        assert found.details.stream_id == "s-7"

    def test_it_asks_for_the_same_when_it_fails_again(self):
        again = easynetq(DateTime="2026-05-04T13:00:00Z", Exception="Other: x")
        first, second = (
            failure(delivery(body=each, type=self.ENVELOPE_TYPE)) for each in (easynetq(), again)
        )

        def asked(found):
            return found.sender.task(found.raw, found.body)

        assert asked(first) == asked(second) is not None

    def test_another_message_inside_asks_for_something_else(self):
        first, second = (
            failure(delivery(body=each, type=self.ENVELOPE_TYPE))
            for each in (easynetq(), easynetq(message="other"))
        )

        assert first.sender.task(first.raw, first.body) != second.sender.task(
            second.raw, second.body
        )


def test_what_is_generated_in_names_is_folded_as_the_settings_say():
    settings = load_settings(None, {"RETRIER_INGESTION__GENERATED_NAMES": '["`[0-9]+"]'})
    mapping = make_mapping(settings, settings.ingestion.error_queues[0])
    headers = {**retrier_headers(), "Retrier.Exception.Type": "Gen.Exception`7"}

    found = failure(delivery(headers), mapping)

    assert found.cause.exception_type == "Gen.Exception*"
    assert found.details.exception_type == "Gen.Exception`7"

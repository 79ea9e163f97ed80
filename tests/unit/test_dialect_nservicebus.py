"""What the NServiceBus dialect reads, requires and strips."""

from datetime import UTC, datetime

import pytest

from retrier.domain.dialects import strips
from retrier.domain.dialects.dialect import Unintelligible
from retrier.domain.dialects.nservicebus import NServiceBusDialect
from retrier.domain.failed_message import FailureDetails
from tests.support.dialect_headers import NSB, properties, read

FAILED_AT = datetime(2024, 5, 1, 11, 58, 3, 123456, tzinfo=UTC)

NSERVICEBUS = NServiceBusDialect()


def test_everything_the_endpoint_wrote_is_read():
    assert read(
        NSERVICEBUS,
        {
            "NServiceBus.MessageId": "5f2a",
            "NServiceBus.FailedQ": "sales@HOST7",
            "NServiceBus.ProcessingEndpoint": "Sales",
            "NServiceBus.EnclosedMessageTypes": "Shop.PlaceOrder, Shop, Version=1.0;Shop.IEvent",
            "$.diagnostics.hostdisplayname": "box-7",
            "$.diagnostics.hostid": "0d6e3b7c5a1f4e2f9b6c7d8e9f0a1b2c",
            "NServiceBus.Metric.InstanceId": "sales-2",
            "NServiceBus.OriginatingMachine": "web-1",
            "NServiceBus.TimeOfFailure": "2024-05-01 11:58:03:123456 Z",
            "NServiceBus.TimeSent": "2024-05-01 11:57:00:000000 Z",
            "NServiceBus.ExceptionInfo.ExceptionType": "System.TimeoutException",
            "NServiceBus.ExceptionInfo.Message": "no answer",
            "NServiceBus.ExceptionInfo.StackTrace": "   at Shop.Db.Open()",
            "Retrier.Stream": "order-7",
            "Retrier.CompletedSteps": "reserve",
        },
    ) == FailureDetails(
        queue="sales",
        destination="sales",
        endpoint="Sales",
        message_type="Shop.PlaceOrder",
        exception_type="System.TimeoutException",
        exception_message="no answer",
        stack_trace="   at Shop.Db.Open()",
        time_of_failure=FAILED_AT,
        time_sent=datetime(2024, 5, 1, 11, 57, tzinfo=UTC),
        stream_id="order-7",
        completed_steps="reserve",
        host="box-7",
        host_id="0d6e3b7c-5a1f-4e2f-9b6c-7d8e9f0a1b2c",
        node="sales-2",
    )


@pytest.mark.parametrize(
    ("headers", "host"),
    [
        ({"NServiceBus.ProcessingMachine": "BOX-7"}, "BOX-7"),
        ({"NServiceBus.FailedQ": "sales@HOST7"}, "HOST7"),
        ({"NServiceBus.OriginatingMachine": "web-1"}, None),
        ({"$.diagnostics.originating.hostid": "0d6e3b7c5a1f4e2f9b6c7d8e9f0a1b2c"}, None),
        ({"$.diagnostics.hostid": "box-7"}, None),
    ],
    ids=str,
)
def test_the_host_is_that_of_the_failure_and_never_of_the_sender(headers, host):
    found = read(NSERVICEBUS, NSB | headers)

    assert (found.host, found.host_id) == (host, None)


def test_message_id_and_failed_queue_suffice():
    assert read(NSERVICEBUS, NSB) == FailureDetails(
        queue="sales", destination="sales", endpoint="sales"
    )


@pytest.mark.parametrize("address", ["", "@HOST7"])
def test_without_a_failed_queue_it_says_so(address):
    found = NSERVICEBUS.read(properties(NSB, {"NServiceBus.FailedQ": address}))

    assert found == Unintelligible("the header NServiceBus.FailedQ is missing or empty")


def test_without_any_message_id_it_says_so():
    found = NSERVICEBUS.read(properties({"NServiceBus.FailedQ": "sales"}))

    assert isinstance(found, Unintelligible)
    assert "NServiceBus.MessageId" in found.reason


def test_the_message_id_of_amqp_will_do():
    only_queue = properties({"NServiceBus.FailedQ": "sales"}, message_id="9")

    assert NSERVICEBUS.message_id(only_queue) == "9"
    assert isinstance(NSERVICEBUS.read(only_queue), FailureDetails)


def test_its_own_message_id_comes_first():
    assert NSERVICEBUS.message_id(properties(NSB, message_id="9")) == "5f2a"


def test_where_the_operator_says_where_it_failed_nothing_is_required():
    found = NSERVICEBUS.read(properties(), otherwise="sales")

    assert found == FailureDetails(queue="sales", destination="sales")


@pytest.mark.parametrize(
    ("headers", "endpoint"),
    [
        ({"NServiceBus.ProcessingEndpoint": "Sales"}, "Sales"),
        ({"NServiceBus.FailedQ": "sales@HOST7"}, "sales"),
        ({"NServiceBus.FailedQ": "", "NServiceBus.ReplyToAddress": "web@HOST1"}, "web"),
        ({"NServiceBus.FailedQ": ""}, None),
    ],
    ids=["processing endpoint", "failed queue", "reply-to address", "nobody"],
)
def test_the_endpoint_is_found_as_servicecontrol_does(headers, endpoint):
    found = NSERVICEBUS.read(properties(NSB, headers), otherwise="anywhere")

    assert isinstance(found, FailureDetails)
    assert found.endpoint == endpoint


@pytest.mark.parametrize(
    ("types", "first"),
    [
        ("Shop.PlaceOrder", "Shop.PlaceOrder"),
        ("Shop.PlaceOrder, Shop, Version=1.0.0.0, Culture=neutral", "Shop.PlaceOrder"),
        ("Shop.A, Shop;Shop.B, Shop", "Shop.A"),
        ("Shop.Box`1[[Shop.A, Shop]], Shop", "Shop.Box`1[[Shop.A, Shop]]"),
        ("Shop.Box`1[[Shop.A, Shop", "Shop.Box`1[[Shop.A, Shop"),
        ("]], Shop", "]]"),
        (" , Shop", None),
        (";", None),
        ("", None),
    ],
)
def test_the_message_type_is_the_first_without_its_assembly(types, first):
    details = read(NSERVICEBUS, NSB, {"NServiceBus.EnclosedMessageTypes": types})

    assert details.message_type == first


def test_a_time_in_another_format_is_no_time():
    details = read(NSERVICEBUS, NSB, {"NServiceBus.TimeOfFailure": "yesterday"})

    assert details.time_of_failure is None


@pytest.mark.parametrize(
    "header",
    [
        "NServiceBus.Retries",
        "NServiceBus.Retries.Timestamp",
        "NServiceBus.FailedQ",
        "NServiceBus.TimeOfFailure",
        "NServiceBus.ExceptionInfo.ExceptionType",
        "NServiceBus.ExceptionInfo.Data.Key",
        "ServiceControl.EditOf",
    ],
)
def test_what_the_failure_wrote_is_stripped(header):
    assert strips("nservicebus", header)


@pytest.mark.parametrize(
    "header",
    [
        "nservicebus.failedq",
        "NServiceBus.FLRetries",
        "NServiceBus.MessageId",
        "NServiceBus.ProcessingEndpoint",
        "NServiceBus.ExceptionInfo",
        "ServiceControl.Retry.UniqueMessageId",
        "Shop.Tenant",
    ],
)
def test_everything_else_stays(header):
    assert not strips("nservicebus", header)

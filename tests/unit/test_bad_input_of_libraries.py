"""What libraries' messages may hold that nobody meant: what is known is used, nothing is lost."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from retrier.domain.failed_imports import UNFORESEEN
from retrier.domain.failed_message import FailedImport, Failure
from retrier.ingestion.parsing import QueueMapping, parse
from retrier.settings.dialects import DialectSection
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.support.library_samples import SAMPLES, Sample, easynetq
from tests.support.raw_messages import RECEIVED_AT, delivery

CODEC = AmqpPropertyCodec()
MOMENT = datetime(2026, 5, 4, tzinfo=UTC)
WRONG: list[Any] = [
    b"\xff\x00",
    b"",
    5,
    -1,
    2**62,
    1.5,
    True,
    None,
    MOMENT,
    "",
    "\x00",
    [],
    {},
    ["x", None, 5],
    {"a": {"b": ["c"]}},
    [{"queue": 5, "reason": None}, 7],
]
each_sample = pytest.mark.parametrize("sample", SAMPLES, ids=lambda each: each.name)


def taken(
    sample: Sample, headers: dict[str, object] | None = None, body: bytes | None = None
) -> Failure | FailedImport:
    """Return what ingestion makes of a sample, with its bytes as they came."""
    arrived = delivery(
        sample.headers if headers is None else headers,
        body=sample.body if body is None else body,
        queue=sample.found_on,
        **sample.fields,
    )
    found = parse(arrived, CODEC, QueueMapping(queue=sample.found_on), RECEIVED_AT)
    assert isinstance(found, Failure | FailedImport), found
    assert (found.raw, found.body) == (arrived.raw, arrived.body)
    return found


def of(name: str) -> Sample:
    return next(each for each in SAMPLES if each.name == name)


@each_sample
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_a_header_of_the_wrong_type_stops_nothing_and_names_no_queue(
    sample: Sample, wrong: Any
) -> None:
    for name in sample.headers:
        found = taken(sample, {**sample.headers, name: wrong})

        if isinstance(found, FailedImport):
            assert not found.reason.startswith(UNFORESEEN)
        else:
            assert "{" not in found.details.destination
            assert "[" not in found.details.destination


@each_sample
def test_of_wrong_headers_the_others_are_read(sample: Sample) -> None:
    told = sample.details.exception_message
    others = {name: value for name, value in sample.headers.items() if "Host" in name}

    found = taken(sample, {**sample.headers, **{key: ["x"] for key in others}})

    assert isinstance(found, Failure)
    assert found.details.exception_message == told


@pytest.mark.parametrize("name", [each.name for each in SAMPLES if each.details.stack_trace])
def test_a_trace_may_be_cut_anywhere(name: str) -> None:
    sample = of(name)
    whole = sample.details.stack_trace or ""
    for end in range(len(whole)):
        headers = {
            key: value[:end] if value == whole else value for key, value in sample.headers.items()
        }

        found = taken(sample, headers)

        assert isinstance(found, Failure)
        assert found.details.destination == sample.details.destination


@pytest.mark.parametrize("cut", range(0, 400, 7))
@pytest.mark.parametrize("name", ["symfony json", "easynetq", "symfony php", "laravel"])
def test_what_is_written_as_json_or_by_php_may_be_cut_anywhere(name: str, cut: int) -> None:
    sample = of(name)
    headers = {
        key: value[:cut] if isinstance(value, str) else value
        for key, value in sample.headers.items()
    }

    taken(sample, headers, sample.body[:cut])


class TestAddresses:
    def told(self, address: object) -> Failure:
        sample = of("masstransit fault")
        found = taken(sample, {**sample.headers, "MT-Fault-InputAddress": address})
        assert isinstance(found, Failure)
        return found

    @pytest.mark.parametrize("address", ["not a uri", "rabbitmq://", "://orders", "rabbitmq://[x"])
    def test_one_that_is_none_is_no_queue_and_is_told(self, address: str) -> None:
        details = self.told(address).details

        assert (details.queue, details.destination) == ("packing_error", "")
        assert details.exception_message == (
            f"no stock left; MT-Fault-InputAddress names no queue: {address}"
        )

    @pytest.mark.parametrize("address", ["", None, [], {}])
    def test_one_that_is_not_there_leaves_the_name_of_the_error_queue(
        self, address: object
    ) -> None:
        assert self.told(address).details.destination == "packing"

    @pytest.mark.parametrize(
        ("address", "queue"),
        [
            ("rabbitmq://host/%2F/orders", "orders"),
            ("rabbitmq://host/a%2Fb", "a/b"),
            ("rabbitmq://host/a%252Fb", "a%2Fb"),
            ("rabbitmq://host/gr%C3%B6%C3%9Fe", "größe"),
            ("rabbitmq://host/%FF", "\ufffd"),
            ("rabbitmq://host/shop/a%20b?durable=true#x", "a b"),
        ],
    )
    def test_one_is_decoded_once(self, address: str, queue: str) -> None:
        assert self.told(address).details.destination == queue

    def test_the_settings_name_a_queue_where_it_does_not(self) -> None:
        sample = of("masstransit fault")
        arrived = delivery({**sample.headers, "MT-Fault-InputAddress": "x"}, queue="packing_error")
        mapping = QueueMapping(queue="packing_error", destination="packing")

        found = parse(arrived, CODEC, mapping, RECEIVED_AT)

        assert isinstance(found, Failure)
        assert found.details.destination == "packing"


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("rebus aggregate", "rbs2-source-queue"),
        ("watermill", "topic_poisoned"),
        ("spring cloud stream", "x-original-routingKey"),
    ],
)
@pytest.mark.parametrize("empty", ["", None, " "])
def test_an_empty_queue_is_none(name: str, header: str, empty: object) -> None:
    sample = of(name)

    found = taken(sample, {**sample.headers, header: empty})

    assert isinstance(found, Failure)
    assert found.details.destination.strip() in {"", "orders.packing"}


class TestEnvelopes:
    FIELDS = of("easynetq").fields

    def taken(self, body: bytes) -> Failure | FailedImport:
        return taken(of("easynetq"), {}, body)

    @pytest.mark.parametrize(
        "body", [b"", b"no json", b"\xff", b"{}", b"[]", b"null", easynetq()[:-3], b"[" * 90_000]
    )
    def test_one_that_is_no_json_is_kept_as_it_came(self, body: bytes) -> None:
        found = self.taken(body)

        assert isinstance(found, FailedImport)
        assert "none of the headers" in found.reason

    def test_one_that_is_no_json_goes_back_as_it_came_where_the_settings_name_a_queue(self) -> None:
        arrived = delivery(body=b"no json", queue="error", type="EasyNetQ.SystemMessages.Error")

        found = parse(
            arrived, CODEC, QueueMapping(queue="error", destination="orders"), RECEIVED_AT
        )

        assert isinstance(found, Failure)
        assert (found.dialect, found.body) == ("retrier", b"no json")

    def test_one_inside_another_is_opened_once(self) -> None:
        inner = easynetq(Queue="inner")

        found = self.taken(easynetq(inner.decode(), Queue="outer"))

        assert isinstance(found, Failure)
        assert found.details.destination == "outer"

    @pytest.mark.parametrize("wrong", [5, [], {}, True, None, ""])
    @pytest.mark.parametrize("key", ["Queue", "Exception", "DateTime", "BasicProperties"])
    def test_a_part_of_the_wrong_type_leaves_the_rest(self, key: str, wrong: object) -> None:
        found = self.taken(easynetq(**{key: wrong}))

        if isinstance(found, Failure):
            assert "{" not in found.details.destination
        else:
            assert key == "BasicProperties"


@pytest.mark.parametrize("pointer", ["/id", "/a/b/c", "/0", "/", "/~1", "/a~0b"])
@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b"5", b"no json", json.dumps({"a": [1]}).encode()]
)
def test_a_pointer_that_meets_nothing_leaves_what_is_known(pointer: str, body: bytes) -> None:
    own = DialectSection.model_validate(
        {"name": "ours", "when": {"header": "X"}, "message": "header:X"}
        | dict.fromkeys(("queue", "message_id", "message_type", "stack"), f"body:{pointer}")
        | dict.fromkeys(("time", "attempts"), f"body:{pointer}")
    ).dialect
    arrived = delivery({"X": "boom"}, body=body, queue="dead")

    found = parse(arrived, CODEC, QueueMapping(queue="dead", own=(own,)), RECEIVED_AT)

    assert isinstance(found, Failure)
    assert (found.dialect, found.details.exception_message) == ("ours", "boom")
    assert (found.details.queue, found.details.destination) == ("dead", "")
    assert found.body == body


class TestSpringsDestination:
    def told(self, **changes: object) -> str:
        sample = of("spring cloud stream")
        found_on = str(changes.pop("found_on", "parked"))
        destination = changes.pop("destination", None)
        key = str(changes.pop("key", ""))
        arrived = replace(delivery({**sample.headers, **changes}, queue=found_on), routing_key=key)
        mapping = QueueMapping(
            queue=found_on,
            destination=None if destination is None else str(destination),
            own_queues=frozenset({"parked", "other.parked"}),
            exists={"orders.packing", "parked", "other.parked"}.__contains__,
        )
        found = parse(arrived, CODEC, mapping, RECEIVED_AT)
        assert isinstance(found, Failure)
        return found.details.destination

    def test_it_is_first_that_of_the_settings(self) -> None:
        assert self.told(**{"x-original-exchange": ""}, destination="named") == "named"

    @pytest.mark.parametrize("empty", ["", None])
    def test_then_the_key_of_the_default_exchange(self, empty: object) -> None:
        rejected = [{"queue": "other", "reason": "rejected", "count": 1}]

        assert self.told(**{"x-original-exchange": empty, "x-death": rejected}) == "orders.placed"

    @pytest.mark.parametrize("reason", ["rejected", "delivery_limit"])
    def test_then_where_a_consumer_rejected_it(self, reason: str) -> None:
        death = [{"queue": "orders.packing", "reason": reason, "count": 1}]

        assert self.told(**{"x-death": death}, found_on="a.dlq") == "orders.packing"

    @pytest.mark.parametrize("reason", ["expired", "maxlen"])
    def test_never_where_it_only_lay(self, reason: str) -> None:
        death = [{"queue": "orders.wait", "reason": reason, "count": 1}]

        assert self.told(**{"x-death": death}, found_on="a.dlq") == "a"
        assert self.told(**{"x-death": death}) == ""

    def test_then_the_queue_of_which_the_key_is_the_name(self) -> None:
        # Spring Cloud Stream publishes to its dead-letter exchange with the work queue's name.
        assert self.told(found_on="all.dlq", key="orders.packing") == "orders.packing"

    def test_never_a_key_of_which_there_is_no_queue(self) -> None:
        assert self.told(found_on="all.dlq", key="error.orders") == "all"

    @pytest.mark.parametrize("key", ["parked", "other.parked"])
    def test_never_a_key_that_names_an_error_queue(self, key: str) -> None:
        assert self.told(found_on="parked", key=key) == ""

    def test_then_the_error_queue_without_its_ending(self) -> None:
        assert self.told(found_on="orders.packing.dlq") == "orders.packing"

    def test_never_the_exchange_nor_the_key_of_another_exchange(self) -> None:
        assert self.told() == ""

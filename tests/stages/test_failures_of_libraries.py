"""Failures as libraries leave them, sent back by a person: what goes, and what comes back."""

import json
from typing import ClassVar

import pytest

from retrier.domain.failed_message import Failure
from retrier.domain.retry_operation import RetryTerms
from retrier.domain.wire import Delivery
from retrier.ingestion.parsing import QueueMapping, parse
from retrier.store.engine.database import Database
from retrier.store.redirects import create_redirect
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.support.bench import QUEUE, Bench
from tests.support.library_samples import (
    ORDER,
    PHP_FAILED,
    PHP_SENT,
    SAMPLES,
    Sample,
    easynetq,
    rejected,
)
from tests.support.php_bodies import BUS, each, envelope, failed_with, private
from tests.support.php_bodies import sent as sent_by_messenger
from tests.support.policies import SomePolicies, bring_due
from tests.support.raw_messages import RECEIVED_AT, delivery, raw_properties

CODEC = AmqpPropertyCodec()
TO_QUEUE = RetryTerms(destination=QUEUE)
OWN = {"tenant": "north"}
ENVELOPE = "EasyNetQ.SystemMessages.Error, EasyNetQ"
ONE_OF_EACH = list({each.dialect: each for each in reversed(SAMPLES)}.values())
by_name = pytest.mark.parametrize("sample", ONE_OF_EACH, ids=lambda each: each.name)


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def fails(
    sample: Sample, headers: dict[str, object], fields: dict[str, object], body: bytes
) -> Failure:
    """Return what ingestion makes of a message after the library of a sample gave it up."""
    if sample.dialect == "easynetq":
        inner = {"Headers": headers, "DeliveryMode": 2} | (
            {"MessageId": fields["message_id"]} if "message_id" in fields else {}
        )
        body = easynetq(body.decode(), BasicProperties=inner)
        arrived = delivery(body=body, queue=sample.found_on, type=ENVELOPE)
    else:
        arrived = delivery(
            headers | sample.headers,
            body=body,
            queue=sample.found_on,
            **{**fields, **sample.fields},
        )
    found = parse(arrived, CODEC, QueueMapping(queue=sample.found_on), RECEIVED_AT)
    assert isinstance(found, Failure), found
    return found


def first(sample: Sample) -> Failure:
    """Return its first failure."""
    body = b'{"order":7}' if sample.dialect == "easynetq" else sample.body
    return fails(sample, dict(OWN), {}, body)


def sent(bench: Bench) -> Delivery:
    """Return what was sent back."""
    (lying,) = bench.transport.broker.holds(QUEUE)
    return lying


@by_name
class TestEachLibrary:
    def test_what_goes_back_has_what_the_sender_wrote_and_no_word_of_the_failure(
        self, bench: Bench, sample: Sample
    ) -> None:
        failure = first(sample)
        bench.receive(failure)

        bench.ask_all(TO_QUEUE)
        bench.work()

        back = CODEC.read(sent(bench).raw)
        marks = {
            "MT-Reason",
            "x-original-exchange",
            "rbs2-source-queue",
            "topic_poisoned",
            "laravel",
        }
        assert back.headers["tenant"] == "north"
        assert not marks & back.headers.keys()
        assert not any("SentToFailure" in name or "x-death" in name for name in back.headers)

    def test_what_fails_again_is_the_outcome_of_its_retry(
        self, bench: Bench, sample: Sample
    ) -> None:
        bench.receive(first(sample))
        bench.ask_all(TO_QUEUE)
        bench.work()
        lying = sent(bench)
        back = CODEC.read(lying.raw)

        fields = {name: back.fields[name] for name in ("message_id",) if name in back.fields}
        bench.receive(fails(sample, dict(back.headers), fields, lying.body))

        assert list(bench.statuses().values()) == ["unresolved"]


SYMFONY = next(each for each in SAMPLES if each.name == "symfony json")


def test_without_a_destination_it_waits_for_a_person_and_says_why(bench: Bench) -> None:
    bench.receive(first(SYMFONY))

    bench.ask_all()
    bench.work()

    (key,) = bench.statuses()
    assert bench.statuses() == {key: "unresolved"}
    assert bench.message(key)["disposition"] == "manual"
    assert "no destination is known" in bench.message(key)["disposition_reason"]
    assert bench.transport.broker.holds(QUEUE) == []


def test_a_policy_does_not_give_it_up(database: Database) -> None:
    bench = Bench(database, judge=SomePolicies().judging())
    bench.receive(first(SYMFONY))
    bring_due(bench)

    bench.work()

    (key,) = bench.statuses()
    assert bench.message(key)["disposition"] == "manual"


def test_a_redirect_from_its_error_queue_leads_it_on(bench: Bench) -> None:
    bench.receive(first(SYMFONY))
    own_queues = frozenset({SYMFONY.found_on})
    assert (
        create_redirect(bench.db, SYMFONY.found_on, QUEUE, own_queues=own_queues, who="a") is None
    )

    bench.ask_all()
    bench.work()

    assert sent(bench).body == SYMFONY.body


def test_of_an_envelope_the_message_inside_goes_back_with_its_properties(bench: Bench) -> None:
    inner = {
        "Headers": {"tenant": "north", "number": 3, "urgent": True, "tags": ["a"]},
        "Type": "Shop.OrderPlaced, Shop",
        "MessageId": "m-7",
        "CorrelationId": "c-7",
        "ReplyTo": "answers",
        "Timestamp": 1777896000,
        "Priority": 5,
    }
    body = easynetq('{"order":7}', BasicProperties=inner, Queue=QUEUE)
    found = parse(
        delivery(body=body, type=ENVELOPE), CODEC, QueueMapping(queue="error"), RECEIVED_AT
    )
    bench.receive(found)

    bench.ask_all()
    bench.work()

    back = CODEC.read(sent(bench).raw)
    assert sent(bench).body == b'{"order":7}'
    assert back.fields == {
        "type": "Shop.OrderPlaced, Shop",
        "message_id": "m-7",
        "correlation_id": "c-7",
        "reply_to": "answers",
        "timestamp": 1777896000,
        "priority": 5,
        "delivery_mode": 2,
    }
    said = {name: back.headers[name] for name in ("tenant", "number", "urgent", "tags")}
    assert said == {"tenant": "north", "number": 3, "urgent": True, "tags": '["a"]'}


def test_the_envelope_stays_stored() -> None:
    body = easynetq()
    found = parse(
        delivery(body=body, type=ENVELOPE), CODEC, QueueMapping(queue="error"), RECEIVED_AT
    )

    assert isinstance(found, Failure)
    assert json.loads(found.body)["Exception"]
    assert raw_properties(type=ENVELOPE) == found.raw


class TestBodyOfPhp:
    HEADERS: ClassVar[dict[str, object]] = {"tenant": "north", "tags": ["a", 1], "at": {"x": True}}

    def fails(self, headers: dict[str, object], body: bytes) -> Failure:
        arrived = delivery(headers, body=body, queue="failed", content_type="text/plain")
        found = parse(arrived, CODEC, QueueMapping(queue="failed"), RECEIVED_AT)
        assert isinstance(found, Failure), found
        return found

    def goes_back(self, bench: Bench) -> Delivery:
        bench.receive(self.fails(self.HEADERS, PHP_FAILED))
        bench.ask_all(TO_QUEUE)
        bench.work()
        return sent(bench)

    def test_what_the_sender_sent_goes_back(self, bench: Bench) -> None:
        lying = self.goes_back(bench)

        back = CODEC.read(lying.raw)
        assert lying.body == PHP_SENT
        assert {name: back.headers[name] for name in self.HEADERS} == self.HEADERS
        assert back.fields["content_type"] == "text/plain"

    def test_what_came_stays_stored(self) -> None:
        assert self.fails({}, PHP_FAILED).body == PHP_FAILED

    def test_what_fails_again_with_another_cause_is_the_outcome_of_its_retry(
        self, bench: Bench
    ) -> None:
        back = CODEC.read(self.goes_back(bench).raw)
        bus = (BUS, each(private(BUS, busName="default")))
        again = sent_by_messenger(
            envelope(ORDER, bus, *failed_with("another", "LogicException", 1))
        )

        bench.receive(self.fails(dict(back.headers), again))

        assert list(bench.statuses().values()) == ["unresolved"]

    def test_what_a_consumer_rejects_without_a_stamp_is_the_outcome_as_well(
        self, bench: Bench
    ) -> None:
        lying = self.goes_back(bench)
        headers = {**CODEC.read(lying.raw).headers, "x-death": rejected(QUEUE)}

        bench.receive(self.fails(headers, lying.body))

        assert list(bench.statuses().values()) == ["unresolved"]

    def test_another_order_is_another_message(self, bench: Bench) -> None:
        back = CODEC.read(self.goes_back(bench).raw)
        other = sent_by_messenger(envelope(private("App\\OrderPlaced", id=8), *failed_with()))

        bench.receive(self.fails(dict(back.headers), other))

        assert sorted(bench.statuses().values()) == ["retry_issued", "unresolved"]

"""Workers against their suite, on every kind of queue."""

import json
import socket
from contextlib import closing
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from retrier.transport.embedded.properties import DEEPEST
from retrier.worker import Failed, Message, Transient
from tests.contract.worker_fixtures import EmbeddedWorkers, RabbitMQWorkers, RedisWorkers, Start
from tests.contract.worker_suite import WorkerSuite
from tests.support.waiting import wait_until
from tests.support.worker_outside import DEADLINE, Outside, take_within


@pytest.mark.rabbitmq
class TestOnClassicQueues(RabbitMQWorkers, WorkerSuite):
    kind = "classic"


@pytest.mark.rabbitmq
class TestOnQuorumQueues(RabbitMQWorkers, WorkerSuite):
    kind = "quorum"


@pytest.mark.kills
class TestOnRedis(RedisWorkers, WorkerSuite):
    """On the lists of a server. In the plain run `test_workers_with_kombu` has a part of it."""

    # There a queue is made by using it.
    test_without_one_of_its_queues_it_waits_and_says_so_once = None

    def test_its_queues_exist_as_soon_as_it_begins(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        for queue in (orders, f"{orders}.results"):
            outside.delete(queue)
        outside.put(orders, b"{}", {}, message_id="m-1")

        start()

        take_within(outside, f"{orders}.results")


class TestOnTheEmbeddedBroker(EmbeddedWorkers, WorkerSuite):
    """On queues in a file; and what has nothing to do with the broker."""

    def test_the_health_check_listens_where_it_is_told(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            port = free.getsockname()[1]
        outside.delete(f"{orders}.error")
        running = start(health_port=port)
        running.wait_until_it_waits("there is no queue")
        with pytest.raises(HTTPError, match="503"):
            urlopen(f"http://127.0.0.1:{port}/", timeout=5)

        outside.declare(f"{orders}.error")

        wait_until(lambda: running.worker.healthy, DEADLINE)
        with urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
            assert answer.status == 200

    def test_the_metrics_are_served_where_it_is_told(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            port = free.getsockname()[1]
        outside.put(orders, b"{}", {}, message_id="m-1")

        start(metrics_port=port)

        take_within(outside, f"{orders}.results")
        counted = f'retrier_worker_messages_total{{outcome="success",queue="{orders}"}} 1.0'

        def is_counted() -> bool:
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                return counted in answer.read().decode()

        wait_until(is_counted, DEADLINE)

    def test_a_message_that_cannot_be_read_is_invalid_and_its_body_is_kept(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        # More levels than the codec of envelopes reads.
        deep: list[Any] = []
        for _ in range(DEEPEST):
            deep = [deep]
        outside.put(orders, b"what it was", {"deep": deep}, message_id="m-1")

        running = start()

        told = take_within(outside, f"{orders}.results")
        assert json.loads(told.body)["taskStatus"] == "INVALID_TASK"
        kept = take_within(outside, f"{orders}.error")
        assert kept.body == b"what it was"
        assert "64" in kept.headers["Retrier.Exception.Message"]
        assert running.handled.ids == []

    def test_work_whose_result_cannot_be_told_is_done_once_and_said(
        self, outside: Outside, orders: str, start: Start, caplog: pytest.LogCaptureFixture
    ) -> None:
        outside.put(orders, b"{}", {}, message_id="m-1")

        running = start(lambda *_: {"row": object()}, immediate_retries=3)

        told = json.loads(take_within(outside, f"{orders}.results").body)
        why = "the result cannot be told: its field row is a object, which is no JSON"
        assert (told["taskStatus"], told["result"]) == ("RESULT_SUCCESS", None)
        assert told["error"] == {"type": "ResultNotTold", "message": why, "stackTrace": ""}
        running.end()
        assert running.handled.ids == ["m-1"]
        assert outside.count(f"{orders}.error") == 0
        errors = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
        assert errors == [f"the result of the message m-1 {why.removeprefix('the result ')}"]

    def test_metrics_are_told_the_outcome_of_each_message(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        def handle(_content: object, message: Message, time: int) -> object:
            match message.id:
                case "bad":
                    raise KeyError
                case "late" if time == 1:
                    raise Transient
                case "failed":
                    return Failed()
            return None

        told: list[tuple[str, str]] = []

        def note(queue: str, outcome: str, seconds: float) -> None:
            assert 0 <= seconds < DEADLINE
            told.append((queue, outcome))
            raise ValueError("a metrics function must not break the worker")

        for name in ("good", "bad", "late", "failed"):
            outside.put(orders, b"{}", {}, message_id=name)

        start(handle, metrics=note, transient_delay=0.05)

        wait_until(lambda: len(told) == 5, DEADLINE)
        outcomes = ["failure", "handler_exception", "success", "success", "transient"]
        assert sorted(told) == [(orders, outcome) for outcome in outcomes]

"""Dramatiq with our middleware, seen from outside: what is sent to the error queue, and when."""

import base64
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pika
import pytest
from dramatiq import Actor, MessageProxy, Worker, group
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import GroupCallbacks, Retries
from dramatiq.rate_limits.backends import StubBackend

from retrier.errors import ConfigurationError
from retrier.integrations.dramatiq import RetrierMiddleware
from retrier.integrations.dramatiq.letters import Delivered
from retrier.integrations.steps import noting_steps
from tests.support.dramatiq_site import DramatiqSite
from tests.support.waiting import wait_until
from tests.support.worker_outside import DEADLINE, RabbitMQOutside, take_within

pytestmark = pytest.mark.rabbitmq

RETRY_ID = "Retrier.RetryId"
UNIQUE_ID = "ServiceControl.Retry.UniqueMessageId"
SUCCESSFUL = "ServiceControl.Retry.Successful"
ACKS = "ServiceControl.Retry.AcknowledgementQueue"


@pytest.fixture
def site(amqp_url: str, queue_name: Callable[..., str]) -> Iterator[DramatiqSite]:
    outside = RabbitMQOutside(amqp_url, "classic")
    site = DramatiqSite(amqp_url, queue_name("tasks"), outside)
    yield site
    site.close()
    outside.close()


def send_back(site: DramatiqSite, body: bytes, **more: str) -> None:
    """Put a message on its queue as Retrier does."""
    headers = {RETRY_ID: "r-1", UNIQUE_ID: "u-1", ACKS: site.acks, **more}
    site.outside.put(site.queue, body, headers, delivery_mode=2)


def test_what_a_task_had_done_is_said_with_its_failure(site: DramatiqSite) -> None:
    # Given the retry of a task that has done two steps, and does a third before it fails
    def pack(_number: int) -> None:
        with noting_steps() as done:
            done("pay")
            raise ValueError("no such order")

    sent = site.actor(pack, "pack", max_retries=1).message(7)
    site.start()

    # When it fails for good
    send_back(site, sent.encode(), **{"Retrier.CompletedSteps": "order,reserve"})

    # Then the failure says all three
    failed = take_within(site.outside, site.error)
    assert failed.headers["Retrier.CompletedSteps"] == "order,reserve,pay"


class Runs:
    """A task that fails so many times, and then succeeds."""

    def __init__(self, failures: int = 10**6) -> None:
        self.arguments: list[Any] = []
        self._failures = failures

    def __call__(self, number: int) -> None:
        self.arguments.append(number)
        if len(self.arguments) <= self._failures:
            raise ValueError("no such order")


def test_a_task_is_sent_to_the_error_queue_when_its_own_retries_are_exhausted(
    site: DramatiqSite,
) -> None:
    # Given a task that Dramatiq tries again twice
    runs = Runs()
    pack = site.actor(runs, "pack", max_retries=2)

    # When it fails each time
    sent = pack.send(7)
    site.start()
    failed = take_within(site.outside, site.error)

    # Then the message is on the error queue as it was sent, with what went wrong
    assert runs.arguments == [7, 7, 7]
    assert failed.body == sent.encode()
    assert failed.properties["message_id"] == sent.message_id
    assert failed.properties["delivery_mode"] == 2
    assert failed.headers["Retrier.FailedQueue"] == site.queue
    assert failed.headers["Retrier.MessageType"] == "pack"
    assert failed.headers["Retrier.Endpoint"] == "dramatiq"
    assert failed.headers["Retrier.Host"] == socket.gethostname()
    assert failed.headers["Retrier.Process"].isdecimal()
    assert failed.headers["Retrier.Attempts"] == "3"
    assert "Retrier.Reason" not in failed.headers
    assert failed.headers["Retrier.Exception.Type"] == "ValueError"
    assert failed.headers["Retrier.Exception.Message"] == "no such order"
    assert "raise ValueError" in failed.headers["Retrier.Exception.StackTrace"]
    assert "process_message" not in failed.headers["Retrier.Exception.StackTrace"]


def test_dramatiq_itself_does_with_the_message_what_it_always_does(site: DramatiqSite) -> None:
    sent = site.actor(Runs(), "pack").send(7)
    site.start()

    dead = take_within(site.outside, f"{site.queue}.XQ")

    assert json.loads(dead.body)["message_id"] == sent.message_id


def test_a_task_that_succeeds_after_a_failure_is_not_told(site: DramatiqSite) -> None:
    runs = Runs(failures=1)
    site.actor(runs, "pack", max_retries=1).send(7)
    site.start()

    wait_until(lambda: len(runs.arguments) == 2, DEADLINE)
    site.close_worker()

    assert site.told == []


def test_a_retry_that_succeeds_is_confirmed(site: DramatiqSite) -> None:
    runs = Runs(failures=0)
    body = site.actor(runs, "pack").message(7).encode()
    site.start()

    send_back(site, body)
    confirmed = take_within(site.outside, site.acks)

    assert runs.arguments == [7]
    assert set(confirmed.headers) == {SUCCESSFUL, UNIQUE_ID}
    assert confirmed.headers[UNIQUE_ID] == "u-1"


def test_a_retry_that_succeeds_only_by_dramatiqs_own_retries_is_confirmed(
    site: DramatiqSite,
) -> None:
    runs = Runs(failures=2)
    body = site.actor(runs, "pack", max_retries=2).message(7).encode()
    site.start()

    send_back(site, body)
    confirmed = take_within(site.outside, site.acks)

    assert runs.arguments == [7, 7, 7]
    assert confirmed.headers[UNIQUE_ID] == "u-1"
    assert site.outside.count(site.acks) == 0


def test_a_retry_that_fails_again_says_of_which_message(site: DramatiqSite) -> None:
    runs = Runs()
    sent = site.actor(runs, "pack", max_retries=1).message(7)
    site.start()

    send_back(site, sent.encode(), **{"Retrier.Stream": "s-1"})
    failed = take_within(site.outside, site.error)

    assert failed.body == sent.encode()
    assert failed.headers[UNIQUE_ID] == "u-1"
    assert failed.headers[RETRY_ID] == "r-1"
    assert failed.headers["Retrier.Stream"] == "s-1"
    assert failed.headers["Retrier.Attempts"] == "2"


def test_dramatiqs_own_retries_begin_anew_with_each_retry(site: DramatiqSite) -> None:
    # Given a message that failed before anybody had our middleware
    runs = Runs(failures=1)
    sent = site.actor(runs, "pack", max_retries=1).message(7)
    dead = sent.copy(options={"retries": 2, "traceback": "...", "requeue_timestamp": 1})
    site.start()

    send_back(site, dead.encode())

    take_within(site.outside, site.acks)
    assert runs.arguments == [7, 7]


def test_a_retry_is_not_skipped_for_its_age(site: DramatiqSite) -> None:
    runs = Runs(failures=0)
    sent = site.actor(runs, "pack", max_age=60_000).message(7)
    site.start()

    send_back(site, sent.__class__(**{**sent.asdict(), "message_timestamp": 1}).encode())

    take_within(site.outside, site.acks)
    assert runs.arguments == [7]


def test_a_message_that_is_too_old_is_a_failure(site: DramatiqSite) -> None:
    runs = Runs(failures=0)
    sent = site.actor(runs, "pack", max_age=60_000).message(7)
    site.start()

    site.outside.put(
        site.queue, sent.__class__(**{**sent.asdict(), "message_timestamp": 1}).encode(), {}
    )

    failed = take_within(site.outside, site.error)
    assert failed.headers["Retrier.Exception.Type"] == "SkipMessage"


def test_a_message_for_an_actor_that_nobody_has_is_a_failure(site: DramatiqSite) -> None:
    sent = site.actor(Runs(), "pack").message(7)
    site.start()

    body = sent.__class__(**{**sent.asdict(), "actor_name": "unpack"}).encode()
    site.outside.put(site.queue, body, {})

    failed = take_within(site.outside, site.error)
    assert failed.headers["Retrier.MessageType"] == "unpack"
    assert failed.headers["Retrier.Exception.Type"] == "ActorNotFound"


def test_what_dramatiq_cannot_read_is_a_failure(site: DramatiqSite) -> None:
    site.actor(Runs(), "pack")
    site.start()

    site.outside.put(site.queue, b"nonsense", {"a": "b"}, message_id="m-1")

    failed = take_within(site.outside, site.error)
    assert failed.body == b"nonsense"
    assert failed.headers["Retrier.Reason"] == "invalid_message"
    assert failed.headers["a"] == "b"


def test_the_next_task_of_a_pipeline_follows_a_retry(site: DramatiqSite) -> None:
    # Given the first message of a pipeline
    runs, ships = Runs(failures=0), Runs(failures=0)
    pack = site.actor(lambda number: runs(number) or 8, "pack")
    ship = site.actor(ships, "ship")
    first = (pack.message(7) | ship.message()).messages[0]
    site.start()

    # When it is sent back, and succeeds
    send_back(site, first.encode())

    # Then the second one is handled with its result
    wait_until(lambda: ships.arguments == [8], DEADLINE)


def test_a_group_starts_its_callback_when_the_retry_of_its_last_task_succeeds(
    site: DramatiqSite,
) -> None:
    # Given a group of two tasks, of which one has failed
    site.broker.add_middleware(GroupCallbacks(StubBackend()))
    runs, ships = Runs(failures=1), Runs(failures=0)
    pack = site.actor(runs, "pack")
    members = group([pack.message(7), pack.message(8)], broker=site.broker)
    members.add_completion_callback(site.actor(ships, "ship").message(9))
    members.run()
    site.start()
    failed = take_within(site.outside, site.error)
    wait_until(lambda: runs.arguments == [7, 8], DEADLINE)

    # When that one is sent back, and succeeds
    send_back(site, failed.body)

    # Then the callback is called
    wait_until(lambda: ships.arguments == [9], DEADLINE)


def test_without_an_error_queue_a_failure_waits_for_it_and_its_task_is_not_settled(
    site: DramatiqSite, caplog: pytest.LogCaptureFixture
) -> None:
    # Given no error queue
    site.outside.delete(site.error)
    sent = site.actor(Runs(), "pack").send(7)
    site.start()

    # When a task fails, it is said that it is held back
    wait_until(lambda: site.told == [("failure_held_back", "pack")], DEADLINE)
    assert f"there is no queue {site.error}" in caplog.text
    assert site.outside.count(f"{site.queue}.XQ") == 0

    # Then it is published when there is a queue, and Dramatiq ends as ever
    site.outside.declare(site.error)
    failed = take_within(site.outside, site.error)
    dead = take_within(site.outside, f"{site.queue}.XQ")
    assert {json.loads(each.body)["message_id"] for each in (failed, dead)} == {sent.message_id}
    assert site.middleware.counts == {"failure_held_back": 1, "failure_published": 1}


def test_what_is_held_back_comes_again_after_a_stop(site: DramatiqSite) -> None:
    site.outside.delete(site.error)
    site.actor(Runs(), "pack").send(7)
    site.start()
    wait_until(lambda: site.told == [("failure_held_back", "pack")], DEADLINE)

    site.close_worker()

    wait_until(lambda: site.outside.count(site.queue) == 1, DEADLINE)


def test_a_message_that_is_none_is_described_where_there_is_no_error_queue(
    site: DramatiqSite, caplog: pytest.LogCaptureFixture
) -> None:
    site.outside.delete(site.error)
    site.actor(Runs(), "pack")
    site.start()

    site.outside.put(site.queue, b"no message", {})

    wait_until(lambda: site.told, DEADLINE)
    assert site.told[0][0] == "failure_not_published"
    assert base64.b64encode(b"no message").decode() in caplog.text


def test_a_confirmation_that_cannot_be_sent_does_no_harm(
    site: DramatiqSite, caplog: pytest.LogCaptureFixture
) -> None:
    site.outside.delete(site.acks)
    runs = Runs(failures=0)
    body = site.actor(runs, "pack").message(7).encode()
    site.start()

    send_back(site, body)

    wait_until(lambda: site.told, DEADLINE)
    assert site.told == [("retry_not_confirmed", "pack")]
    assert f"there is no queue {site.acks}" in caplog.text
    site.close_worker()
    assert site.outside.count(site.queue) == 0


@pytest.mark.parametrize("settle", ["ack", "nack"])
def test_an_end_from_before_a_lost_connection_settles_nothing_that_came_after_it(
    site: DramatiqSite, settle: str
) -> None:
    """Delivery tags begin anew with each connection, and Dramatiq settles by the newest consumer."""
    # Given the first message of a connection that is lost, and another one in its place
    pack = site.actor(Runs(), "pack")
    pack.send(7)
    site.middleware.before_worker_boot(site.broker, Worker(site.broker))
    consume = partial(site.broker.consume, site.queue, 1, 20)
    with closing(consume()) as lost:
        message = next(filter(None, lost))
    take_within(site.outside, site.queue)
    pack.send(8)

    # When the first one ends late
    with closing(consume()) as consumer:
        assert next(filter(None, consumer)).args == (8,)
        getattr(consumer, settle)(message)

    # Then the other one is still the broker's
    wait_until(lambda: site.outside.count(site.queue) == 1, DEADLINE)
    assert site.outside.count(f"{site.queue}.XQ") == 0


def test_an_end_that_dramatiq_tells_repeatedly_is_one_failure(site: DramatiqSite) -> None:
    # Given a message that Dramatiq gives up
    sent = site.actor(Runs(), "pack").message(7)
    site.start()
    message: Any = MessageProxy(sent)
    message.arrival = Delivered(
        queue=site.queue, properties=pika.BasicProperties(), body=sent.encode()
    )
    message.fail()

    # When it cannot reject it, and tries again
    site.middleware.before_nack(site.broker, message)
    site.middleware.before_nack(site.broker, message)

    assert site.told == [("failure_published", "pack")]


def test_a_retry_is_no_failure_if_the_run_before_cannot_be_acknowledged_at_once(
    site: DramatiqSite,
) -> None:
    # Given a message that failed, and that Dramatiq has published again
    sent = site.actor(Runs(), "pack").message(7)
    site.start()
    message: Any = MessageProxy(sent)
    message.stuff_exception(ValueError())
    site.middleware.before_process_message(site.broker, message)
    site.middleware.after_enqueue(site.broker, sent, 1)

    # When it cannot acknowledge the run, and tries again
    site.middleware.before_ack(site.broker, message)
    site.middleware.before_ack(site.broker, message)

    assert site.told == []


def test_a_task_that_another_one_sends_is_confirmed_when_its_retry_succeeds(
    site: DramatiqSite,
) -> None:
    # Given a task that has sent another one, in the same thread
    site.start()
    runs = Runs(failures=1)
    ship = site.actor(runs, "ship")
    site.actor(lambda number: ship.send(number) and None, "pack").send(7)
    failed = take_within(site.outside, site.error)

    # When that one failed, and its retry succeeds
    send_back(site, failed.body)

    take_within(site.outside, site.acks)


def test_without_dramatiqs_retries_a_task_that_fails_is_a_failure(site: DramatiqSite) -> None:
    site.broker.middleware = [each for each in site.broker.middleware if type(each) is not Retries]
    site.actor(Runs(), "pack").send(7)
    site.start()

    failed = take_within(site.outside, site.error)

    assert failed.headers["Retrier.Exception.Type"] == "ValueError"


def test_a_second_middleware_says_so_and_does_no_harm(
    site: DramatiqSite, caplog: pytest.LogCaptureFixture
) -> None:
    site.broker.add_middleware(RetrierMiddleware(site.error))
    site.actor(Runs(), "pack").send(7)
    site.start()

    take_within(site.outside, f"{site.queue}.XQ")

    assert site.outside.count(site.error) == 1
    assert "the middleware is there already" in caplog.text


def test_on_another_broker_it_says_so_and_does_nothing(caplog: pytest.LogCaptureFixture) -> None:
    # Given the broker for tests, as a user's own tests have it
    broker = StubBroker(middleware=[RetrierMiddleware()])
    runs = Runs()
    pack = Actor(runs, broker=broker, actor_name="pack", queue_name="tasks", priority=0, options={})
    worker = Worker(broker, worker_timeout=20, worker_threads=1)
    worker.start()

    # When a task fails
    pack.send(7)
    wait_until(lambda: runs.arguments == [7], DEADLINE)
    worker.stop()
    broker.close()

    assert "from RabbitMQ only" in caplog.text


def test_an_error_queue_has_a_name() -> None:
    with pytest.raises(ConfigurationError, match="error_queue must name a queue"):
        RetrierMiddleware("")

"""Threads of the transport of SQS: what they do when a window is given up, or what nobody foresaw comes."""

from threading import Event
from threading import enumerate as running
from types import SimpleNamespace
from typing import Any

import pytest

from retrier.domain.wire import Outgoing
from retrier.errors import BrokerUnavailable, LeaseLost
from retrier.transport.sqs.consumer import SqsConsumer
from retrier.transport.sqs.publisher import AT_ONCE, SqsPublisher
from tests.contract.sqs_fixtures import raw

DEADLINE = 20.0


class Line:
    """A line to a server that answers each send when it may, and each question with nonsense."""

    place = "somewhere"
    address = SimpleNamespace(visibility=30, wait=0)

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.may_answer = Event()

    def call_once(self, _action: str, _queue: str, **parameters: Any) -> Any:
        self.sent.append(len(parameters["Entries"]))
        assert self.may_answer.wait(DEADLINE)
        return {}

    def call(self, action: str, _queue: str, **_: Any) -> Any:
        arn = {"Attributes": {"QueueArn": "arn:aws:sqs:eu-west-1:1:orders"}}
        return arn if action == "GetQueueAttributes" else {"Messages": [{}]}

    def close(self) -> None:
        self.may_answer.set()


def test_no_more_of_a_window_goes_out_once_it_is_given_up() -> None:
    line: Any = Line()
    publisher = SqsPublisher(lambda: line, lambda least, _most: least)
    window = [Outgoing(queue="orders.fifo", raw=raw(), body=b"x") for _ in range(3 * AT_ONCE)]

    def lose_the_lease() -> None:
        raise LeaseLost("another is the processor")

    with pytest.raises(LeaseLost):
        publisher.publish(window, lose_the_lease)
    line.may_answer.set()
    publisher.close()

    for each in running():
        if each.name.startswith("sqs publisher"):
            each.join(DEADLINE)
    assert line.sent == [AT_ONCE]


def test_what_nobody_foresaw_is_told_to_who_receives() -> None:
    line: Any = Line()
    consumer = SqsConsumer(line, "orders", 10)

    with pytest.raises(BrokerUnavailable, match="KeyError"):
        consumer.receive(1, DEADLINE)

"""What else brings messages from one queue to another: a script, a raw loop, two raw passes.

Each returns the seconds it took, without connecting.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from time import perf_counter

import amqp

from tests.benchmarks.messages import Message, make_messages
from tests.benchmarks.raw_line import RawLine, Taken, connect
from tests.benchmarks.stamps import splice, unsplice

BATCH = 1000
PREFETCH = 100


def move_one_by_one(url: str, source: str, target: str, count: int) -> float:
    """Move messages as a plain script does: take one, publish it, wait for its confirm, ack it."""
    connection = connect(url, confirm_publish=True)
    channel = connection.channel()
    channel.auto_decode = False
    inbox: deque[amqp.Message] = deque()
    begin = perf_counter()
    channel.basic_qos(0, PREFETCH, False)  # noqa: FBT003 - py-amqp's signature
    channel.basic_consume(source, callback=inbox.append)
    for _ in range(count):
        while not inbox:
            connection.drain_events()
        taken = inbox.popleft()
        copy = amqp.Message(taken.body, **taken.properties)
        channel.basic_publish(copy, exchange="", routing_key=target)
        channel.basic_ack(taken.delivery_tag)
    seconds = perf_counter() - begin
    connection.close()  # not `collect`: that may take the last acks with it
    return seconds


def move_pipelined(url: str, source: str, target: str, count: int, window: int) -> float:
    """Move all messages as raw bytes with `window` of them unconfirmed at most."""
    line = RawLine(url)
    line.confirm()
    begin = perf_counter()
    line.consume(source, 2 * window)
    while line.ack_confirmed(window // 4) < count:
        while line.inbox and len(line.pending) < window:
            taken = line.inbox.popleft()
            line.publish(target, taken.raw, taken.body, taken.tag)
        line.read()
    seconds = perf_counter() - begin
    line.close()
    return seconds


@dataclass(slots=True)
class TwoPasses:
    """Seconds spent on the way into the staging queue, and on the way out of it."""

    staging: float = 0
    forwarding: float = 0


def move_in_two_passes(
    url: str, staging: str, target: str, count: int, size: int, window: int
) -> TwoPasses:
    """Do what a retry does, without a database: copies without body in, raw messages out.

    Batch after batch; bodies wait in memory. Making up the messages is not counted.
    """
    spent = TwoPasses()
    made = make_messages(None, count, size)
    publisher, consumer = RawLine(url), RawLine(url)
    publisher.confirm()
    consumer.consume(staging, 2 * window)
    while batch := list(islice(made, BATCH)):
        begin = perf_counter()
        _stage(publisher, staging, batch, window)
        staged = perf_counter()
        _forward(consumer, publisher, target, batch, window)
        spent.staging += staged - begin
        spent.forwarding += perf_counter() - staged
    publisher.close()
    consumer.close()
    return spent


def _stage(line: RawLine, staging: str, batch: Sequence[Message], window: int) -> None:
    for message in batch:
        line.settle(window - 1)
        line.publish(staging, splice(message.raw), b"")
    line.settle()


def _forward(
    consumer: RawLine, publisher: RawLine, target: str, batch: Sequence[Message], window: int
) -> None:
    left = iter(batch)
    sent = 0
    while sent < len(batch):
        while not consumer.inbox:
            consumer.read()
        publisher.settle(window - 1)
        copy: Taken = consumer.inbox.popleft()
        publisher.publish(target, unsplice(copy.raw), next(left).body)
        sent += 1
        if sent % window == 0 or sent == len(batch):
            publisher.settle()
            consumer.ack(copy.tag)

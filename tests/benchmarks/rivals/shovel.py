"""RabbitMQ's own way to move messages, inside the broker."""

import json
from threading import Thread
from time import perf_counter
from uuid import uuid4

from tests.benchmarks.queues import Queues
from tests.support.private_servers import PrivateRabbitMQ
from tests.support.waiting import wait_until

DEADLINE = 900.0


def shovel(node: PrivateRabbitMQ, queues: Queues, source: str, target: str, count: int) -> float:
    """Let the broker move messages, confirmed each; return messages per second.

    From the first seen at the target on: the tool that tells the broker takes seconds to start.
    """
    name = f"bench-{uuid4().hex[:8]}"
    value = {
        "src-protocol": "amqp091",
        "src-uri": "amqp://",
        "src-queue": source,
        "src-delete-after": "queue-length",
        "dest-protocol": "amqp091",
        "dest-uri": "amqp://",
        "dest-queue": target,
        "ack-mode": "on-confirm",
    }
    order = ("set_parameter", "shovel", name, json.dumps(value))
    # Not waited for: it may all be over before the tool has ended.
    teller = Thread(target=node.control, args=order)
    teller.start()
    wait_until(lambda: queues.depth(target) > 0, DEADLINE, "the shovel begins")
    begin, before = perf_counter(), queues.depth(target)
    wait_until(lambda: queues.depth(target) >= count, DEADLINE, "the shovel is done")
    seconds = perf_counter() - begin
    teller.join()
    return (count - before) / seconds

"""Takes an expected number of messages off a consumer, however few come at once."""

from retrier.domain.wire import Delivery
from retrier.transport.seam import Consumer
from tests.support.waiting import wait_until

DEADLINE = 10.0
SILENCE = 0.3
"""Seconds after which a queue that was to stay silent counts as silent."""


def receive(consumer: Consumer, count: int) -> list[Delivery]:
    """Receive exactly so many messages; fail when they do not come."""
    received: list[Delivery] = []

    def complete() -> bool:
        received.extend(consumer.receive(count - len(received), timeout=1.0))
        return len(received) == count

    wait_until(complete, DEADLINE, f"{count} messages")
    return received


def bodies(deliveries: list[Delivery]) -> list[bytes]:
    """Return the bodies, in the order of arrival."""
    return [delivery.body for delivery in deliveries]

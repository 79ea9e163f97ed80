"""Tries what retries need of the broker: rights by name, then a queue like the staging queue."""

from collections.abc import Callable
from time import monotonic
from uuid import uuid4

from retrier.domain.wire import Confirmed, Outcome, Outgoing, Returned
from retrier.errors import BrokerUnavailable
from retrier.transport.rabbitmq.connection import BrokerConnection
from retrier.transport.rabbitmq.consumer import RabbitMQConsumer
from retrier.transport.rabbitmq.publisher import RabbitMQPublisher
from retrier.transport.rabbitmq.queues import RabbitMQQueues
from retrier.transport.seam import QueueKind, Trial

Dial = Callable[[], BrokerConnection]

PROBE_TIMEOUT = 5.0
"""Seconds for the trial's message; an alarm of the broker would hold it up for ever."""
NO_PROPERTIES = bytes(2)
ACCESS_REFUSED = "ACCESS_REFUSED"


class TooSlow(Exception):
    """The broker takes the trial's message too slowly, or reports an alarm."""


def try_out(dial: Dial, kind: QueueKind, staging_queue: str) -> Trial:
    """Try the rights on the staging queue, and use a queue like it. Raises BrokerUnavailable.

    The rights are tried on the name itself, by what is refused for another reason if they are
    there: users may be limited to names. So the staging queue is neither made nor touched.
    """
    queues = RabbitMQQueues(dial, kind)
    try:
        found = [
            queues.why_not_declarable(staging_queue),
            queues.why_not_ingestible(staging_queue),
            _why_not_publishable(dial, f"{staging_queue}.none.{uuid4().hex}"),
        ]
        problems = tuple(each for each in found if each is not None)
        return Trial(problems=problems) if problems else _use(queues, dial, staging_queue)
    except TooSlow:
        what = "publishing: the broker is blocked by an alarm (memory or disk), or very slow"
        return Trial(untried=(what,))
    finally:
        queues.close()


def _why_not_publishable(dial: Dial, missing_queue: str) -> str | None:
    """Publish to a queue that does not exist: with the right to do so the message comes back."""
    connection = dial()
    outcome = _publish(connection, missing_queue)
    if isinstance(outcome, Returned | Confirmed):
        return None
    if ACCESS_REFUSED in outcome.reason:
        return (
            f"the user {connection.user} may not publish to the default exchange: "
            "grant it `write` on amq.default"
        )
    return f"a message could not be published: {outcome.reason}"


def _use(queues: RabbitMQQueues, dial: Dial, staging_queue: str) -> Trial:
    """Declare a queue like the staging queue, send a message through it, and delete it."""
    queue = f"{staging_queue.removesuffix('.staging')}.check.{uuid4().hex[:12]}"
    if queues.why_not_declarable(queue) or queues.why_not_ingestible(queue):
        return Trial(untried=(f"a queue like it: the rights do not hold for the name {queue}",))
    try:
        queues.declare_trial_queue(queue)
        outcome = _publish(dial(), queue)
        if not isinstance(outcome, Confirmed):
            return Trial(problems=(f"a queue like it takes no message: {outcome.reason}",))
        if not _is_handed_out(dial, queue):
            return Trial(problems=("a queue like it does not hand out what it has taken",))
    except BrokerUnavailable as error:
        return Trial(problems=(f"a queue like it cannot be used: {error}",))
    finally:
        queues.delete(queue)
    return Trial()


def _publish(connection: BrokerConnection, queue: str) -> Outcome:
    publisher = RabbitMQPublisher(lambda: connection, None)
    end = monotonic() + PROBE_TIMEOUT

    def wait() -> None:
        if monotonic() > end:
            raise TooSlow

    try:
        (outcome,) = publisher.publish([Outgoing(queue=queue, raw=NO_PROPERTIES, body=b"")], wait)
        return outcome
    finally:
        publisher.close()


def _is_handed_out(dial: Dial, queue: str) -> bool:
    consumer = RabbitMQConsumer(dial(), queue, 1)
    try:
        deliveries = consumer.receive(1, PROBE_TIMEOUT)
        consumer.ack(deliveries)
        return bool(deliveries)
    finally:
        consumer.close()

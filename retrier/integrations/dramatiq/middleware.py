"""What Dramatiq calls: after a task has failed for good, and after one has succeeded."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from threading import local
from typing import Any

from dramatiq import Broker, Message, MessageProxy, Middleware, Worker
from dramatiq.brokers.rabbitmq import RabbitmqBroker

from retrier.clock import Clock, SystemClock
from retrier.errors import ConfigurationError
from retrier.integrations.dramatiq.letters import (
    UNREADABLE,
    Delivered,
    KeepingConsumer,
    Letter,
    Letters,
)
from retrier.integrations.dramatiq.publisher import Publisher, describe
from retrier.integrations.handover import (
    Account,
    Deed,
    Handover,
    Handovers,
    Metrics,
    UnackedHold,
    describe_task,
    never,
)

LOG = logging.getLogger("retrier.integrations")

FINISH_WITHIN = 5.0
"""Seconds that the end of a worker waits for what it owes."""
_ENDED = "retrier_ended"
"""The attribute of a message that is settled."""


class RetrierMiddleware(Middleware):
    """Gives failed tasks to Retrier. It changes nothing of what Dramatiq does with them."""

    def __init__(
        self,
        error_queue: str = "error",
        *,
        name: str = "dramatiq",
        metrics: Metrics | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`name` is the worker's in the failures; keep it. Raises ConfigurationError.

        `metrics` is called with a deed and the name of an actor.
        """
        if not error_queue:
            raise ConfigurationError(["error_queue must name a queue"])
        self._letters = Letters(error_queue, name, clock or SystemClock())
        self._account = Account(metrics)
        self._handovers = Handovers(self._account)
        self._publisher: Publisher | None = None
        self._late_publisher: Publisher | None = None
        self._local = local()

    @property
    def counts(self) -> Mapping[str, int]:
        """How often each deed was done in this process."""
        return self._account.counts

    def before_worker_boot(self, broker: Broker, worker: Worker) -> None:
        """See to it that consumers keep what messages came with. Only RabbitMQ has headers."""
        del worker
        if not isinstance(broker, RabbitmqBroker):
            LOG.warning("failed tasks are given to Retrier from RabbitMQ only")
            return
        if "consume" in vars(broker):
            LOG.warning("the middleware is there already: failed tasks are given to Retrier once")
            return
        self._publisher = Publisher(broker.parameters)
        self._late_publisher = Publisher(broker.parameters)
        consume = broker.consume

        def watched(queue_name: str, *given: Any, **named: Any) -> KeepingConsumer:
            return KeepingConsumer(
                consume(queue_name, *given, **named), queue_name, self._fail_undecodable
            )

        broker.consume = watched  # type: ignore[method-assign]

    def before_process_message(self, broker: Broker, message: MessageProxy) -> None:
        """Note what this thread is at."""
        del broker
        self._local.current = message.message_id

    def after_enqueue(self, broker: Broker, message: Message[Any], delay: int | None) -> None:
        """Note if a message is published again: it is not done with.

        Of what an actor sends, only its own message counts. Who moves a delayed message to its
        queue is at none.
        """
        del broker, delay
        if getattr(self._local, "current", None) in (None, message.message_id):
            self._local.again = message.message_id

    def before_nack(self, broker: Broker, message: MessageProxy) -> None:
        """Send a message to the error queue that Dramatiq gives up."""
        del broker
        if self._is_first_end(message):
            self._fail(message)

    def before_ack(self, broker: Broker, message: MessageProxy) -> None:
        """Confirm a retry that is done; or see that the message failed, and nobody cared.

        That is so without Dramatiq's own Retries, or when they could not publish the message.
        """
        del broker
        is_again = getattr(self._local, "again", None) == message.message_id
        if not self._is_first_end(message) or is_again:
            return
        if message._exception is not None:  # noqa: SLF001 - Dramatiq tells it nowhere else
            self._fail(message)
        else:
            self._confirm(message)

    def _is_first_end(self, message: MessageProxy) -> bool:
        """Say whether this is news: with its connection lost, Dramatiq tells each end repeatedly."""
        self._local.current = self._local.again = None
        is_first = _ENDED not in vars(message)
        vars(message)[_ENDED] = True
        return is_first

    def after_worker_shutdown(self, broker: Broker, worker: Worker) -> None:
        """Try once more what is owed."""
        del broker, worker
        self._handovers.finish(FINISH_WITHIN)

    def _fail(self, message: MessageProxy) -> None:
        hold = vars(message)["retrier_hold"] = UnackedHold()
        consumer = vars(message).get("retrier_consumer")
        is_gone = never if consumer is None else consumer.is_gone
        make = partial(self._letters.make_failure, message)
        self._publish_failure(make, _about(message), message.arrival, hold=hold, is_void=is_gone)

    def _fail_undecodable(self, arrival: Delivered) -> None:
        make = partial(self._letters.make_undecodable, arrival)
        self._publish_failure(make, (UNREADABLE, ""), arrival)

    def _publish_failure(
        self,
        make: Callable[[], Letter],
        about: tuple[str, str],
        arrival: Delivered,
        **extra: Any,
    ) -> None:
        rebuild = partial(describe_task, *about, arrival.queue, arrival.headers, arrival.body)
        try:
            letter = make()
        except Exception as error:  # noqa: BLE001 - a message or an exception of the user's
            why = f"{describe(error)}. The task: {rebuild()}"
            self._account.note(Deed.UNPUBLISHED, *about, why)
            return
        self._hand_over(letter, about, Deed.PUBLISHED, Deed.UNPUBLISHED, rebuild=rebuild, **extra)

    def _confirm(self, message: MessageProxy) -> None:
        try:
            letter = self._letters.make_confirmation(message)
        except Exception as error:  # noqa: BLE001 - options of the user's
            self._account.note(Deed.UNCONFIRMED, *_about(message), describe(error))
            return
        if letter is not None:
            self._hand_over(letter, _about(message), Deed.CONFIRMED, Deed.UNCONFIRMED)

    def _hand_over(
        self, letter: Letter, about: tuple[str, str], done: Deed, left: Deed, **extra: Any
    ) -> None:
        """Publish, and count it; or owe it. Never raises: the task ends as it would without us."""
        if self._publisher is None or self._late_publisher is None:
            return
        task, task_id = about
        self._handovers.hand_over(
            Handover(
                task=task,
                task_id=task_id,
                queue=letter.queue,
                done=done,
                left=left,
                publish=partial(self._publisher.publish, letter),
                publish_late=partial(self._late_publisher.publish, letter),
                describe=describe,
                size=len(letter.body),
                **extra,
            )
        )


def _about(message: MessageProxy) -> tuple[str, str]:
    return message.actor_name, message.message_id

"""Looks at queues, declares the ones Retrier owns, and finds out how others were declared.

The broker reveals the arguments of a queue only when it refuses a declaration: it names the first
one that differs. So a question declares again and again, each time with one more known argument.
Each declaration has an argument that makes it invalid for a new queue: a queue that was deleted a
moment ago is not declared anew by a question (decision 0036).
"""

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

import amqp
from amqp.protocol import queue_declare_ok_t

from retrier.domain.text import count_messages, count_of
from retrier.domain.values import dataclass
from retrier.errors import QueueSilent, StagingQueueUnusable
from retrier.transport.rabbitmq.connection import (
    A_STREAM,
    PRECONDITION_FAILED,
    BrokerConnection,
    ChannelLost,
    ConnectionRefusal,
    QueueDifference,
    is_of_a_stream,
    is_of_access,
    name_missing_right,
    read_difference,
)
from retrier.transport.rabbitmq.library import ANSWER_TIMEOUT, DELETION_TIMEOUT
from retrier.transport.seam import USUAL_DELIVERY_LIMIT, DeliveryLimit, QueueKind, QueueLook

MOST_ARGUMENTS = 20
DELIVERY_LIMIT = "x-delivery-limit"
UNLIMITED = -1
DEAD_LETTER_EXCHANGE = "x-dead-letter-exchange"
NO_EXCHANGE = 0
"""No name of an exchange: a new queue is refused with it, and it differs from any that has one."""
MAX_PRIORITY = "x-max-priority"
NO_PRIORITIES = "none"
"""A new quorum queue is refused with it, and one that exists is not compared with it."""
NOT_QUORUM = frozenset({"x-queue-type", "durable", "auto_delete", "exclusive", MAX_PRIORITY})
"""If one of these differs from our declaration, the queue is not a quorum queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A declaration to try."""

    arguments: Mapping[str, Any]
    flags: Mapping[str, bool] = field(
        default_factory=lambda: {"durable": True, "auto_delete": False}
    )

    def but(self, found: QueueDifference) -> "Declaration | None":
        """Return it with what was found; None if that adds nothing."""
        if found.argument in self.flags and isinstance(found.value, bool):
            return replace(self, flags={**self.flags, found.argument: found.value})
        if found.value is None or found.argument in {"", "exclusive", *self.arguments}:
            return None
        return replace(self, arguments={**self.arguments, found.argument: found.value})


Try = Callable[[Declaration], QueueDifference | None]
"""Returns in what the queue differs from the declaration; None if in nothing."""


def has_dead_letter_exchange(declare: Try) -> bool | None:
    """Return whether the arguments of the queue name one; None if that is not revealed."""
    wanted: Declaration | None = Declaration(arguments={DEAD_LETTER_EXCHANGE: NO_EXCHANGE})
    for _ in range(MOST_ARGUMENTS):
        differs = declare(wanted) if wanted is not None else None
        if wanted is None or differs is None:
            return None
        if differs.argument == DEAD_LETTER_EXCHANGE:
            return differs.given
        wanted = wanted.but(differs)
    return None


def is_quorum(declare: Try) -> bool:
    """Return whether it is a quorum queue. Nothing is declared, even if the queue is missing."""
    wanted = Declaration(arguments={"x-queue-type": "quorum", MAX_PRIORITY: NO_PRIORITIES})
    differs = declare(wanted)
    return differs is None or differs.argument not in {"", *NOT_QUORUM}


def find_delivery_limit(declare: Try, *, usual: int | None) -> DeliveryLimit | None:
    """Return the limit after which a quorum queue drops what is redelivered; None if it has none.

    `usual` is the limit that the broker sets where there is no argument, if it sets one: there
    an argument of -1 means that there is none.
    """
    by_default = None if usual is None else DeliveryLimit(most=usual)
    wanted: Declaration | None = Declaration(
        arguments={"x-queue-type": "quorum", MAX_PRIORITY: NO_PRIORITIES}
    )
    for _ in range(MOST_ARGUMENTS):
        if wanted is None:
            break
        differs = declare(wanted)
        if differs is None:
            return by_default
        if differs.argument == DELIVERY_LIMIT:
            return _read_limit(differs, by_default)
        if differs.argument in {"", *NOT_QUORUM, *wanted.arguments}:
            return None
        wanted = wanted.but(differs)
    return by_default and DeliveryLimit(most=None)


def _read_limit(differs: QueueDifference, by_default: DeliveryLimit | None) -> DeliveryLimit | None:
    if by_default is not None and differs.value == UNLIMITED:
        return None
    return DeliveryLimit(most=differs.value if isinstance(differs.value, int) else None)


NOT_FOUND, LOCKED, NOT_IMPLEMENTED = 404, 405, 540
NO_DELIVERY_LIMIT = {DELIVERY_LIMIT: UNLIMITED}
"""Before 4.0 a limit of -1 drops a message at its first redelivery."""
DELIVERY_LIMIT_SINCE = (4, 0)
NO_PRIORITY = {"x-priority": "none"}
"""An argument for a consumer that every type of queue refuses; a stream's refusal names its type.
So nothing is delivered (or counted as delivered), and no queue is created (decision 0024)."""
ADVICE = "Empty and delete it, or give this instance another name."
OURS = MappingProxyType({"durable": True, "auto_delete": False})
TRIAL_EXPIRY = 60_000
"""Milliseconds after which a queue is gone that a killed `check` has left."""

Dial = Callable[[], BrokerConnection]
T = TypeVar("T")


class RabbitMQQueues:
    """Asks one question at a time; a connection that was idle too long or broke is replaced."""

    def __init__(self, dial: Dial, staging_queue_type: QueueKind) -> None:
        """Connect. Raises BrokerUnavailable."""
        self._dial = dial
        self._staging_queue_type = staging_queue_type
        self._connection = dial()

    def look(self, queue: str) -> QueueLook | None:
        """See the seam."""
        found = self._look(queue)
        if found is None:
            return None
        return QueueLook(ready=int(found.message_count), consumers=int(found.consumer_count))

    def depth(self, queue: str) -> int | None:
        """Return how many messages are ready, or None when there is no such queue."""
        found = self.look(queue)
        return None if found is None else found.ready

    def exists(self, queue: str) -> bool:
        """See the seam. A queue that is refused as locked is an exclusive one: it is there."""
        try:
            return self._look(queue) is not None
        except ChannelLost as refusal:
            if refusal.code == LOCKED:
                return True
            raise

    def declare_error_queue(self, queue: str) -> bool:
        """Declare it durable, without arguments, if it is missing; return whether it was missing.

        The virtual host gives its type. A program that declares its dead-letter queue, as nearly
        all do, without arguments, would be refused (406) with any that we set (decision 0083).
        """
        if self._look(queue) is not None:
            return False
        self._declare(queue, {})
        return True

    def declare_staging_queue(self, queue: str) -> None:
        """Make sure that it exists as ours. Raises StagingQueueUnusable. See the seam."""
        arguments = self._staging_arguments()
        try:
            self._declare(queue, arguments)
        except ChannelLost as refusal:
            if self._make_room(queue, refusal, arguments):
                self._declare(queue, arguments)

    def delivery_limit(self, queue: str) -> DeliveryLimit | None:
        """Return the limit of a quorum queue, by argument or by default. See the seam."""
        if self._look(queue) is None:
            return None
        usual = USUAL_DELIVERY_LIMIT if self._limits_unasked() else None
        return find_delivery_limit(self.trying(queue), usual=usual)

    def dead_letters(self, queue: str) -> bool | None:
        """See the seam. It needs the right to configure the queue."""
        return has_dead_letter_exchange(self.trying(queue))

    def why_not_ingestible(self, queue: str) -> str | None:
        """Return the reason for a stream, or that we may not read the queue. See the seam."""
        refusal = self._refuse_consumer(queue)
        if is_of_access(refusal):
            return name_missing_right(self._connection.user, "read", queue)
        return A_STREAM if is_of_a_stream(refusal) else None

    def why_not_declarable(self, queue: str) -> str | None:
        """See the seam. The declaration that is tried is valid for no queue (decision 0036)."""
        try:
            self._declare(queue, {DEAD_LETTER_EXCHANGE: NO_EXCHANGE})
        except ChannelLost as refusal:
            if is_of_access(refusal):
                return name_missing_right(self._connection.user, "configure", queue)
        return None

    def declare_trial_queue(self, queue: str) -> None:
        """Declare a queue like the staging queue, which deletes itself soon. See try_out."""
        self._declare(queue, {**self._staging_arguments(), "x-expires": TRIAL_EXPIRY})

    def find_risks(self) -> tuple[str, ...]:
        """Return nothing: what is durable and confirmed is kept."""
        return ()

    def purge(self, queue: str) -> int:
        """Drop every ready message; return how many."""
        return int(self._ask(queue, lambda channel: channel.queue_purge(queue)))

    def delete(self, queue: str) -> None:
        """Delete the queue with all it holds; a missing one is fine."""
        self._ask(queue, lambda channel: channel.queue_delete(queue), DELETION_TIMEOUT)

    def keep_alive(self) -> None:
        """See the seam."""
        self._connection.keep_up()

    def close(self) -> None:
        """Drop the connection; never hangs, never raises."""
        self._connection.close()

    def _look(self, queue: str) -> queue_declare_ok_t | None:
        try:
            return self._ask(queue, lambda channel: channel.queue_declare(queue, passive=True))
        except ChannelLost as refusal:
            if refusal.code == NOT_FOUND:
                return None
            raise

    def _declare(
        self, queue: str, arguments: Mapping[str, Any], flags: Mapping[str, bool] = OURS
    ) -> None:
        self._ask(
            queue,
            lambda channel: channel.queue_declare(queue, **flags, arguments=dict(arguments)),
        )

    def trying(self, queue: str) -> Try:
        """Return what tries a declaration of this queue."""
        return partial(self._declared_otherwise, queue)

    def _declared_otherwise(self, queue: str, wanted: Declaration) -> QueueDifference | None:
        try:
            self._declare(queue, wanted.arguments, wanted.flags)
        except ChannelLost as refusal:
            return read_difference(refusal.words)
        return None

    def _limits_unasked(self) -> bool:
        """Return whether a quorum queue has a delivery limit by default, as since 4.0."""
        return self._line().version >= DELIVERY_LIMIT_SINCE

    def _arguments(self, kind: QueueKind) -> dict[str, Any]:
        unlimited = kind == "quorum" and self._limits_unasked()
        return {"x-queue-type": kind, **(NO_DELIVERY_LIMIT if unlimited else {})}

    def _staging_arguments(self) -> dict[str, Any]:
        return {**self._arguments(self._staging_queue_type), "x-single-active-consumer": True}

    def _make_room(self, queue: str, refusal: ChannelLost, wanted: Mapping[str, Any]) -> bool:
        """Clear the queue away if allowed; a silent one is kept, as it may be somebody else's."""
        try:
            return self._clear_away(queue, refusal, wanted)
        except QueueSilent as silent:
            if self._is_of_an_older_broker(queue, wanted):
                raise
            raise StagingQueueUnusable(
                f"{silent}. It is not as we declare it. {ADVICE}"
            ) from silent

    def _clear_away(self, queue: str, refusal: ChannelLost, wanted: Mapping[str, Any]) -> bool:
        """Delete an empty queue that is in the way; False if the queue there can be used as ours.

        After an upgrade to 4.0, our queue has no limit of -1. An empty one is declared again. One
        in use is used as it is: copies that 20 redeliveries drop are staged again, and to stop
        would need a person after each upgrade (decision 0025).
        """
        if refusal.code == LOCKED:
            raise StagingQueueUnusable(f"{refusal.words}. {ADVICE}") from refusal
        if refusal.code != PRECONDITION_FAILED:
            raise refusal
        found = self._look(queue)
        if found is None:
            return True
        if found.message_count or found.consumer_count:
            if self._is_of_an_older_broker(queue, wanted):
                return False
            raise StagingQueueUnusable(
                f"the queue {queue!r} is not ours and in use: {count_messages(found.message_count)} "
                f"ready, {count_of(found.consumer_count, 'consumer')}. The broker said: {refusal.words}. {ADVICE}"
            ) from refusal
        if is_of_a_stream(self._refuse_consumer(queue)):
            # A stream reports 0 messages when it has some, and `if_empty` does not protect it.
            raise StagingQueueUnusable(
                f"the queue {queue!r} is a stream, which keeps what was taken. {ADVICE}"
            )
        self._delete_unused(queue)
        return True

    def _is_of_an_older_broker(self, queue: str, wanted: Mapping[str, Any]) -> bool:
        """Return whether it differs from our staging queue only by the delivery limit."""
        if DELIVERY_LIMIT not in wanted:
            return False
        unlimited = {name: value for name, value in wanted.items() if name != DELIVERY_LIMIT}
        return self._declared_otherwise(queue, Declaration(arguments=unlimited)) is None

    def _refuse_consumer(self, queue: str) -> ChannelLost | None:
        """Return how the broker refuses a consumer; None if it did not, which none known does."""
        try:
            self._ask(queue, lambda channel: channel.basic_consume(queue, arguments=NO_PRIORITY))
        except ChannelLost as refusal:
            return refusal
        self._connection.drop()  # what it handed out goes back, and nothing more comes
        return None

    def _delete_unused(self, queue: str) -> None:
        try:
            self._ask(
                queue, lambda channel: channel.queue_delete(queue, if_unused=True, if_empty=True)
            )
        except ConnectionRefusal as refusal:
            # Quorum queues cannot delete on a condition: the check just made has to suffice.
            if refusal.code != NOT_IMPLEMENTED:
                raise
            self.delete(queue)

    def _ask(
        self, queue: str, question: Callable[[amqp.Channel], T], timeout: float = ANSWER_TIMEOUT
    ) -> T:
        return self._line().ask(question, queue, timeout)

    def _line(self) -> BrokerConnection:
        if not self._connection.is_fit():
            self._connection.drop()
            self._connection = self._dial()
        return self._connection

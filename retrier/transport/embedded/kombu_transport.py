"""The embedded broker as a transport of Kombu, with its virtual channels."""

# ruff: noqa: FBT001, FBT002 - the signatures are Kombu's

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from queue import Empty
from time import monotonic
from typing import Any, TextIO

from amqp.exceptions import ConsumerCancelled, NotFound, PreconditionFailed
from amqp.protocol import queue_declare_ok_t
from kombu.exceptions import ChannelError
from kombu.log import get_logger
from kombu.transport import virtual
from kombu.utils.uuid import uuid

from retrier.errors import BrokerUnavailable
from retrier.transport.embedded import broker_file
from retrier.transport.embedded.broker_file import BUSY_TIMEOUT, HeldRow, HoldLost
from retrier.transport.embedded.queues_db import QueuesDb
from retrier.transport.embedded.transport import (
    LEASE,
    LONGEST_PAUSE,
    HolderRow,
    Idling,
    find_file,
    open_queues_db,
)

SINGLE_ACTIVE = "x-single-active-consumer"
NO_ROUTE = 312

UntypedQoS: Any = virtual.QoS
UntypedChannel: Any = virtual.Channel
logger = get_logger(__name__)


class QoS(UntypedQoS):  # type: ignore[misc]  # Kombu types half of itself
    """The messages that a channel was handed and has not settled."""

    def ack(self, delivery_tag: str) -> None:
        """Delete one message."""
        self.ack_all([delivery_tag])

    def ack_all(self, delivery_tags: Sequence[str]) -> None:
        """Delete messages, in one transaction."""
        self.channel.forget(delivery_tags)
        for tag in delivery_tags:
            super().ack(tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Delete one message, or put it back in its place."""
        settle = self.channel.give_back if requeue else self.channel.forget
        settle([delivery_tag])
        super().ack(delivery_tag)

    def up_to(self, delivery_tag: str) -> list[str]:
        """Return the tags of all unsettled messages up to this one, in delivery order."""
        self._flush()
        tags = list(self._delivered)
        return tags[: tags.index(delivery_tag) + 1] if delivery_tag in tags else [delivery_tag]

    def restore_unacked(self) -> list[object]:
        """Put everything back in its place."""
        self._flush()
        self.channel.give_back(list(self._delivered))
        self._delivered.clear()
        return []

    def restore_unacked_once(self, stderr: TextIO | None = None) -> None:
        """Put everything back when the channel closes; if that fails, the lease's end does it."""
        with suppress(BrokerUnavailable):
            super().restore_unacked_once(stderr)


class Channel(UntypedChannel):  # type: ignore[misc]  # Kombu types half of itself
    """A channel whose queues are rows.

    The default exchange routes to every queue of the file: publishing to a missing one raises
    NotFound and does not create it. Other exchanges and bindings are known only to the connection
    that declares them.
    """

    QoS = QoS

    def queue_declare(
        self,
        queue: str | None = None,
        passive: bool = False,
        arguments: Mapping[str, object] | None = None,
        **_options: object,
    ) -> queue_declare_ok_t:
        """Declare a queue, which is always durable; with `passive`, only check that it exists.

        Raises NotFound; PreconditionFailed if it exists with another SINGLE_ACTIVE argument.
        """
        name = queue or f"amq.gen-{uuid()}"
        if not passive:
            wanted = bool((arguments or {}).get(SINGLE_ACTIVE))
            if self._db.declare(name, single_active=wanted).single_active != wanted:
                raise PreconditionFailed(f"queue {name!r} exists with another {SINGLE_ACTIVE}")
        return queue_declare_ok_t(name, self._size(name), 0)

    def queue_delete(
        self,
        queue: str,
        if_unused: bool = False,  # noqa: ARG002 - consumers are not counted
        if_empty: bool = False,
        **_options: object,
    ) -> None:
        """Delete a queue with all it holds; a missing one is fine."""
        if if_empty and self._db.count_ready(queue):
            return
        for exchange, routing_key, arguments in list(self.state.queue_bindings(queue)):
            self.queue_unbind(queue, exchange, routing_key, arguments)
        self.state.queue_bindings_delete(queue)
        self._db.delete(queue)

    def basic_publish(
        self,
        message: broker_file.Payload,
        exchange: str,
        routing_key: str,
        mandatory: bool = False,
        **options: object,
    ) -> None:
        """Publish; the message is stored when this returns.

        Raises NotFound for a missing queue or exchange, ChannelError if the message is mandatory
        and no queue is bound.
        """
        if exchange and exchange not in self.state.exchanges:
            raise NotFound(f"no exchange {exchange!r} was declared on this connection")
        if exchange and mandatory and not self._lookup(exchange, routing_key):
            raise ChannelError(f"NO_ROUTE - {exchange!r}, {routing_key!r}", reply_code=NO_ROUTE)
        super().basic_publish(message, exchange, routing_key, **options)

    def create_publish_batch(self, max_size: int) -> broker_file.PublishBatch:
        """Return a batch whose messages are stored in one transaction (`Producer.batch`)."""
        return broker_file.PublishBatch(self, self._store, max_size)

    def basic_consume(
        self,
        queue: str,
        no_ack: bool,
        callback: Callable[[virtual.Message], object],
        consumer_tag: str,
        **options: object,
    ) -> None:
        """Consume a queue. Raises NotFound."""
        if self._db.look(queue) is None:
            raise self._not_found(queue)

        def take(message: virtual.Message) -> object:
            if no_ack:
                self.forget([message.delivery_tag])
            return callback(message)

        super().basic_consume(queue, no_ack, take, consumer_tag, **options)

    def basic_cancel(self, consumer_tag: str) -> None:
        """Stop consuming a queue; messages handed out stay with this channel until settled."""
        queue = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        if queue is not None:
            self.connection.step_down(queue)

    def basic_get(
        self,
        queue: str,
        no_ack: bool = False,
        **options: object,
    ) -> virtual.Message | None:
        """Take one message without waiting. Raises NotFound."""
        message: virtual.Message | None = super().basic_get(queue, no_ack, **options)
        if message is not None and no_ack:
            self.forget([message.delivery_tag])
        return message

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        """Acknowledge one message; with `multiple`, all handed out before it as well."""
        self.qos.ack_all(self.qos.up_to(delivery_tag) if multiple else [delivery_tag])

    def forget(self, delivery_tags: Sequence[str]) -> None:
        """Delete the messages that this connection still holds under these tags."""
        self._settle(self._db.forget, delivery_tags)

    def give_back(self, delivery_tags: Sequence[str]) -> None:
        """Put back the messages that this connection still holds under these tags."""
        self._settle(self._db.give_back, delivery_tags)

    @property
    def _db(self) -> QueuesDb:
        if self.connection is None:
            raise BrokerUnavailable("the channel to the embedded broker is closed")
        db: QueuesDb = self.connection.db
        return db

    def _settle(
        self, settle: Callable[[list[broker_file.Tag]], int], delivery_tags: Sequence[str]
    ) -> None:
        missing = len(delivery_tags) - settle([broker_file.parse_tag(tag) for tag in delivery_tags])
        if missing:
            # Harmless: the lease ran out or the queue was deleted; a new holder settles them.
            logger.warning("%s messages are not ours to settle any more", missing)

    def _get(self, queue: str, timeout: float | None = None) -> broker_file.Payload:  # noqa: ARG002 - Kombu's signature
        try:
            held = self.connection.take(queue)
        except broker_file.QueueGone as gone:
            raise NotFound(str(gone)) from gone
        if held is None:
            raise Empty
        return broker_file.put_together(held)

    def _get_and_deliver(
        self, queue: str, callback: Callable[[broker_file.Payload, str], object]
    ) -> None:
        try:
            payload = self._get(queue)
        except NotFound as gone:
            # As RabbitMQ reports it. Kombu counts it as a connection error, so programs reconnect.
            raise ConsumerCancelled(str(gone)) from gone
        callback(payload, queue)

    def _put(
        self,
        queue: str,
        message: broker_file.Payload,
        batch: broker_file.PublishBatch | None = None,
        **_options: object,
    ) -> None:
        parcel = broker_file.take_apart(queue, message)
        reason = broker_file.why_too_large(parcel.raw, parcel.body)
        if reason is not None:
            raise PreconditionFailed(reason)
        self._store([parcel]) if batch is None else batch.add(parcel)

    def _store(self, parcels: Sequence[broker_file.Parcel]) -> None:
        """Store all messages or none."""
        missing = self._db.put_all(parcels)
        if missing is not None:
            raise self._not_found(missing)

    def _size(self, queue: str) -> int:
        ready = self._db.count_ready(queue)
        if ready is None:
            raise self._not_found(queue)
        return ready

    def _purge(self, queue: str) -> int:
        purged = self._db.purge(queue)
        if purged is None:
            raise self._not_found(queue)
        return purged

    def _not_found(self, queue: str) -> NotFound:
        return NotFound(f"no queue {queue!r} in {self._db.place}")

    def _new_queue(self, queue: str, **_options: object) -> None:
        self._db.declare(queue, single_active=False)


Untyped: Any = virtual.Transport


class Transport(Untyped):  # type: ignore[misc]  # Kombu types half of itself
    """The transport of `kombu.Connection("embedded:///PATH")`.

    Transport options, all in seconds: `lease`, `patience` (the longest wait for other writers),
    `polling_interval` (the longest wait between two looks at an empty queue).
    """

    Channel = Channel
    polling_interval = LONGEST_PAUSE
    driver_type = "sql"
    driver_name = "sqlite3"
    connection_errors = (*virtual.Transport.connection_errors, BrokerUnavailable)
    recoverable_connection_errors = connection_errors
    recoverable_channel_errors = ()
    default_connection_params: dict[str, object] = {}  # noqa: RUF012 - Kombu only reads it
    implements = virtual.Transport.implements.extend(batch_publish=True)

    _db: QueuesDb | None = None
    _hold: HolderRow | None = None

    @property
    def db(self) -> QueuesDb:
        """The open file. Raises BrokerUnavailable."""
        if self._db is None:
            raise BrokerUnavailable("the connection to the embedded broker is closed")
        return self._db

    def establish_connection(self) -> "Transport":
        """Open or create the file. Raises ConfigurationError, BrokerUnavailable."""
        options = self.client.transport_options
        path = find_file(self.client.hostname, self.client.virtual_host)
        self._db = open_queues_db(path, options.get("patience", BUSY_TIMEOUT))
        super().establish_connection()
        return self

    def close_connection(self, connection: object) -> None:
        """Give back the messages its channels hold, and close the file."""
        with suppress(BrokerUnavailable):
            super().close_connection(connection)
        self._let_go()
        db, self._db = self._db, None
        if db is not None:
            db.close()

    def verify_connection(self, _connection: object) -> bool:
        """Say whether the file is open."""
        return self._db is not None

    def drain_events(self, _connection: object, timeout: float | None = None) -> None:
        """Deliver one message. Raises TimeoutError if none comes within `timeout` seconds."""
        deadline = None if timeout is None else monotonic() + timeout
        idling = Idling(self.polling_interval)
        while True:
            with suppress(Empty):
                self.cycle.get(self._deliver, timeout=timeout)
                return
            left = None if deadline is None else deadline - monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            idling.wait(left)

    def take(self, queue: str) -> HeldRow | None:
        """Take one message off a queue. Raises QueueGone, BrokerUnavailable.

        If the lease ran out (this process was frozen), the message is taken under a new one. The
        messages held under the old lease belong to other consumers then.
        """
        try:
            taken = self._ensure_hold().take(queue, 1)
        except HoldLost:
            self._let_go()
            taken = self._ensure_hold().take(queue, 1)
        return taken[0] if taken else None

    def step_down(self, queue: str) -> None:
        """Let another consumer be the active one of a queue. Raises BrokerUnavailable."""
        if self._hold is not None:
            self._hold.step_down(queue)

    def _ensure_hold(self) -> HolderRow:
        if self._hold is None:
            self._hold = HolderRow(self.db, self.client.transport_options.get("lease", LEASE))
        return self._hold

    def _let_go(self) -> None:
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.close()

"""RabbitMQ as a transport: classic and quorum queues, publisher confirms, returns."""

from random import Random, SystemRandom

from retrier.domain.wire import Outgoing, PropertyCodec
from retrier.transport.rabbitmq.address import parse_address
from retrier.transport.rabbitmq.connection import BrokerConnection
from retrier.transport.rabbitmq.consumer import RabbitMQConsumer
from retrier.transport.rabbitmq.nodes import Nodes
from retrier.transport.rabbitmq.properties.codec import AmqpPropertyCodec
from retrier.transport.rabbitmq.publisher import RabbitMQPublisher
from retrier.transport.rabbitmq.queues import RabbitMQQueues
from retrier.transport.seam import Capabilities, QueueKind
from retrier.transport.transports import TransportOptions


class RabbitMQTransport:
    """Makes publishers, consumers and queue lookers, each with a connection of its own.

    Connections are separate because the broker stops reading one that publishes while it is
    short of memory or disk: its acknowledgements would not be read either.
    """

    capabilities = Capabilities(
        ordered=True, confirms=True, returns=True, existence=True, single_consumer=True
    )
    codec: PropertyCodec = AmqpPropertyCodec()

    def __init__(
        self,
        *urls: str,
        staging_queue_type: QueueKind = "quorum",
        connection_name: str,
        heartbeat: float = 5,
        dice: Random | None = None,
    ) -> None:
        """Connect to nothing yet. `heartbeat` is in seconds. Raises ConfigurationError.

        Several URLs are nodes of one broker: they differ in host and port only. The `dice` choose
        where a connection begins to try them. The broker gives a consumer up after two to three
        heartbeats of silence.
        """
        addresses = [parse_address(url) for url in urls]
        self._nodes = Nodes(addresses, dice or SystemRandom())
        self._staging_queue_type: QueueKind = staging_queue_type
        self._connection_name = connection_name
        self._heartbeat = heartbeat
        self.user: str | None = addresses[0].user
        self.place = str(self._nodes)

    def publisher(self, probe: Outgoing | None = None) -> RabbitMQPublisher:
        """Connect a publisher. Raises BrokerUnavailable.

        The probe goes ahead of the first window of each connection, so that a wait for a
        blocked broker is one in which `waiting` is called.
        """
        return RabbitMQPublisher(lambda: self._dial("publisher"), probe)

    def consumer(self, queue: str, prefetch: int) -> RabbitMQConsumer:
        """Connect a consumer of an existing queue. Raises BrokerUnavailable."""
        return RabbitMQConsumer(self._dial(f"consumer of {queue}"), queue, prefetch)

    def queues(self) -> RabbitMQQueues:
        """Connect to look at queues. Raises BrokerUnavailable."""
        return RabbitMQQueues(lambda: self._dial("queues"), self._staging_queue_type)

    def _dial(self, role: str) -> BrokerConnection:
        return self._nodes.dial(f"{self._connection_name}: {role}", self._heartbeat)


def make_transport(options: TransportOptions) -> RabbitMQTransport:
    """Return the transport of these nodes. Raises ConfigurationError."""
    return RabbitMQTransport(
        *options.urls,
        staging_queue_type=options.staging_queue_type,
        connection_name=options.connection_name,
        dice=options.dice,
    )

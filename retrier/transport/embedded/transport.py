"""The embedded broker as a transport: one file, several processes, no server."""

from pathlib import Path

from retrier.domain.envelope_properties import EnvelopePropertyCodec
from retrier.domain.wire import Outgoing, PropertyCodec
from retrier.processes import describe_process
from retrier.transport.embedded.address import parse_address
from retrier.transport.embedded.broker_file import PATIENCE, BrokerFile
from retrier.transport.embedded.consumer import EmbeddedConsumer
from retrier.transport.embedded.hold import LEASE
from retrier.transport.embedded.publisher import EmbeddedPublisher
from retrier.transport.embedded.queues import EmbeddedQueues
from retrier.transport.embedded.queues_db import QueuesDb
from retrier.transport.embedded.schema import SCHEMA
from retrier.transport.seam import Capabilities


class EmbeddedTransport:
    """Makes publishers, consumers and queue lookers, each with the file opened for itself."""

    capabilities = Capabilities(
        ordered=True, confirms=True, returns=True, existence=True, single_consumer=True
    )
    codec: PropertyCodec = EnvelopePropertyCodec()
    user: str | None = None

    def __init__(self, url: str, *, lease: float = LEASE, patience: float = PATIENCE) -> None:
        """Open nothing yet. Raises ConfigurationError.

        `lease` is how many seconds a consumer that is frozen keeps its messages (those of a dead
        one are back at once), `patience` how many to wait for other processes that write.
        """
        self.path = parse_address(url)
        self.place = str(self.path)
        self._lease = lease
        self._patience = patience

    def publisher(self, probe: Outgoing | None = None) -> EmbeddedPublisher:  # noqa: ARG002 - no alarms here
        """Open a publisher. Raises BrokerUnavailable.

        There is nothing to probe for: no alarm lets messages pile up unconfirmed.
        """
        return EmbeddedPublisher(self._open)

    def consumer(self, queue: str, prefetch: int) -> EmbeddedConsumer:
        """Open a consumer of an existing queue. Raises BrokerUnavailable."""
        return EmbeddedConsumer(self._open(), queue, prefetch, self._lease)

    def queues(self) -> EmbeddedQueues:
        """Open the file to look at queues. Raises BrokerUnavailable."""
        return EmbeddedQueues(self._open())

    def _open(self) -> QueuesDb:
        return open_queues_db(self.path, self._patience)


def open_queues_db(path: Path, patience: float = PATIENCE) -> QueuesDb:
    """Open the file as this process; one that is missing is made. Raises BrokerUnavailable."""
    return QueuesDb(BrokerFile(path, SCHEMA, patience), describe_process())

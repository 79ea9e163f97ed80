"""The embedded broker as a transport: queues in one file, used by several processes, no server."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from retrier.domain.wire import Outgoing, PropertyCodec
from retrier.errors import BrokerUnavailable, ConfigurationError, StagingQueueUnusable
from retrier.processes import describe_process
from retrier.transport.embedded.broker_file import BUSY_TIMEOUT, BrokerFile
from retrier.transport.embedded.consumer import EmbeddedConsumer
from retrier.transport.embedded.hold import LEASE
from retrier.transport.embedded.properties import EnvelopePropertyCodec
from retrier.transport.embedded.publisher import EmbeddedPublisher
from retrier.transport.embedded.queues_db import QueuesDb
from retrier.transport.embedded.rows import SCHEMA
from retrier.transport.seam import Capabilities, QueueLook, Trial
from retrier.transport.transports import TransportOptions


class EmbeddedQueues:
    """Looks at queues, and declares the ones Retrier owns; each call is one transaction or two."""

    def __init__(self, db: QueuesDb) -> None:
        self._db = db

    def look(self, queue: str) -> QueueLook | None:
        """See the seam; consumers are not counted."""
        ready = self.depth(queue)
        return None if ready is None else QueueLook(ready=ready, consumers=0)

    def depth(self, queue: str) -> int | None:
        """Return how many messages are ready, or None when there is no such queue."""
        return self._db.count_ready(queue)

    def exists(self, queue: str) -> bool:
        """Return whether there is such a queue; none belongs to one connection."""
        return self._db.look(queue) is not None

    def declare_error_queue(self, queue: str) -> bool:
        """Declare it if it is missing; return whether it was missing."""
        missing = self._db.look(queue) is None
        self._db.declare(queue, single_active=False)
        return missing

    def why_not_declarable(self, _queue: str) -> None:
        """Return None: all queues can be declared."""

    def declare_staging_queue(self, queue: str) -> None:
        """Make sure that it exists as ours. Raises StagingQueueUnusable. See the seam."""
        messages = self._db.declare_single_active(queue)
        if messages:
            raise StagingQueueUnusable(
                f"the queue {queue!r} in {self._db.place} is not ours and in use: it holds "
                f"{messages} messages. Empty and delete it, or give this instance another name."
            )

    def delivery_limit(self, _queue: str) -> None:
        """Return None: no message is dropped, however often it is redelivered."""

    def dead_letters(self, _queue: str) -> bool:
        """Return False: there are no dead-letter exchanges here."""
        return False

    def why_not_ingestible(self, _queue: str) -> None:
        """Return None: all queues can be ingested."""

    def purge(self, queue: str) -> int:
        """Drop every ready message; return how many."""
        purged = self._db.purge(queue)
        if purged is None:
            raise BrokerUnavailable(f"the embedded broker {self._db.place}: no queue {queue!r}")
        return purged

    def delete(self, queue: str) -> None:
        """Delete the queue with all it holds; a missing one is fine."""
        self._db.delete(queue)

    def keep_alive(self) -> None:
        """Do nothing: a file needs no heartbeats."""

    def close(self) -> None:
        """Close the file; never hangs, never raises."""
        self._db.close()


SCHEME = "embedded"
NOWHERE = frozenset({None, "localhost"})
"""Hosts that a URL may name: Kombu fills `localhost` in where there is none."""


def parse_address(url: str) -> Path:
    """Read `embedded:///PATH`, percent-encoded: PATH is relative, or absolute with a fourth slash.

    Raises ConfigurationError.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() != SCHEME:
        raise ConfigurationError([f"broker.url must begin with {SCHEME}:///"])
    try:
        # Parsed as Kombu does it (kombu.utils.url), or two programs would use two files.
        parts = urlsplit(f"http://{rest}")
    except ValueError as error:
        raise ConfigurationError([f"broker.url is not a URL: {error}"]) from error
    if parts.query or parts.fragment:
        raise ConfigurationError(["broker.url must end after the path: no ? and no # in it"])
    return find_file(parts.hostname, unquote(parts.path[1:]))


def find_file(host: str | None, path: str | None) -> Path:
    """Return the absolute path of the file that these parts of a URL name.

    Raises ConfigurationError.
    """
    if host not in NOWHERE:
        raise ConfigurationError(
            [f"broker.url names the host {host!r}; a path begins after three slashes: {SCHEME}:///"]
        )
    # "/" is what Kombu fills in for a URL without a path.
    if not path or path.endswith("/"):
        raise ConfigurationError([f"broker.url must name a file: {SCHEME}:///PATH"])
    return Path(path).absolute()


class EmbeddedTransport:
    """Makes publishers, consumers and looks at queues, each with its own connection to the file."""

    capabilities = Capabilities(
        ordered=True, confirms=True, returns=True, existence=True, single_consumer=True
    )
    codec: PropertyCodec = EnvelopePropertyCodec()
    user: str | None = None

    def __init__(
        self, url: str, *, lease: float = LEASE, busy_timeout: float = BUSY_TIMEOUT
    ) -> None:
        """Open nothing yet. Raises ConfigurationError.

        `lease`: for how many seconds a frozen consumer keeps its messages (those of a dead one are
        back at once). `busy_timeout`: how many seconds to wait for other processes that write.
        """
        self.path = parse_address(url)
        self.place = str(self.path)
        self._lease = lease
        self._busy_timeout = busy_timeout

    def publisher(self, probe: Outgoing | None = None) -> EmbeddedPublisher:  # noqa: ARG002 - no alarms here
        """Open a publisher. Raises BrokerUnavailable.

        The probe is not used: it finds alarms, and this broker has none.
        """
        return EmbeddedPublisher(self._open)

    def consumer(self, queue: str, prefetch: int) -> EmbeddedConsumer:
        """Open a consumer of an existing queue. Raises BrokerUnavailable."""
        return EmbeddedConsumer(self._open(), queue, prefetch, self._lease)

    def queues(self) -> EmbeddedQueues:
        """Open the file to look at queues. Raises BrokerUnavailable."""
        return EmbeddedQueues(self._open())

    def try_out(self, _staging_queue: str) -> Trial:
        """See the seam: there are no rights here but those of the file, which was opened."""
        self.queues().close()
        return Trial()

    def _open(self) -> QueuesDb:
        return open_queues_db(self.path, self._busy_timeout)


def open_queues_db(path: Path, busy_timeout: float = BUSY_TIMEOUT) -> QueuesDb:
    """Open the file, or create a missing one. Raises BrokerUnavailable."""
    return QueuesDb(BrokerFile(path, SCHEMA, busy_timeout), describe_process())


def make_transport(options: TransportOptions) -> EmbeddedTransport:
    """Return the transport; the settings allow only one URL here. Raises ConfigurationError."""
    return EmbeddedTransport(options.urls[0])

"""RabbitMQ as a transport: its nodes, classic and quorum queues, and what retries need of it."""

from collections.abc import Callable, Iterable, Sequence
from random import Random, SystemRandom
from time import monotonic
from uuid import uuid4

from retrier.domain.wire import Confirmed, Outcome, Outgoing, PropertyCodec, Returned
from retrier.errors import AccessRefused, BrokerUnavailable
from retrier.transport.capabilities import MARKER, Capabilities
from retrier.transport.rabbitmq.address import Address, parse_address
from retrier.transport.rabbitmq.connection import UNREACHABLE, BrokerConnection
from retrier.transport.rabbitmq.consumer import RabbitMQConsumer
from retrier.transport.rabbitmq.library import CONNECT_TIMEOUT
from retrier.transport.rabbitmq.properties import USUAL_FRAME, AmqpPropertyCodec
from retrier.transport.rabbitmq.publisher import RabbitMQPublisher
from retrier.transport.rabbitmq.queues import RabbitMQQueues, is_quorum
from retrier.transport.seam import QueueKind, TrialReport
from retrier.transport.transports import Tls, TransportOptions

Dial = Callable[[], BrokerConnection]

PROBE_TIMEOUT = 5.0
"""Seconds for the trial's message; an alarm of the broker would hold it up for ever."""
NO_PROPERTIES = bytes(2)
ACCESS_REFUSED = "ACCESS_REFUSED"


class TooSlow(Exception):
    """The broker takes the trial's message too slowly, or reports an alarm."""


def try_out(dial: Dial, kind: QueueKind, staging_queue: str) -> TrialReport:
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
        return TrialReport(problems=problems) if problems else _use(queues, dial, staging_queue)
    except TooSlow:
        what = "publishing: the broker is blocked by an alarm (memory or disk), or very slow"
        return TrialReport(untried=(what,))
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


def _use(queues: RabbitMQQueues, dial: Dial, staging_queue: str) -> TrialReport:
    """Declare a queue like the staging queue, send a message through it, and delete it."""
    queue = f"{staging_queue.removesuffix('.staging')}.check.{uuid4().hex[:12]}"
    if queues.why_not_declarable(queue) or queues.why_not_ingestible(queue):
        return TrialReport(
            untried=(f"a queue like it: the rights do not hold for the name {queue}",)
        )
    try:
        queues.declare_trial_queue(queue)
        outcome = _publish(dial(), queue)
        if not isinstance(outcome, Confirmed):
            return TrialReport(problems=(f"a queue like it takes no message: {outcome.reason}",))
        if not _is_handed_out(dial, queue):
            return TrialReport(problems=("a queue like it does not hand out what it has taken",))
    except BrokerUnavailable as error:
        return TrialReport(problems=(f"a queue like it cannot be used: {error}",))
    finally:
        queues.delete(queue)
    return TrialReport()


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


FIRST_LOOK = 1.5
"""Seconds that each of several nodes has to answer in the first round (decision 0024)."""
AVOIDED = 60.0
"""Seconds for which a node that could not be reached is tried after all others."""

Failures = dict[Address, BrokerUnavailable]


class Nodes:
    """Connects to any of several nodes; all threads share which of them failed lately."""

    def __init__(self, addresses: Sequence[Address], dice: Random, first_look: float) -> None:
        """Connect to nothing yet. `dice` chooses the node that is tried first."""
        self._addresses = tuple(addresses)
        self._dice = dice
        self._first_look = first_look
        self._failed_at: dict[Address, float] = {}
        """When connecting to a node last failed, in monotonic seconds."""

    def __str__(self) -> str:
        return ", ".join(map(str, self._addresses))

    def dial(self, name: str, heartbeat: float) -> BrokerConnection:
        """Connect to the first node that answers. Raises BrokerUnavailable with all reasons."""
        timeout = self._addresses[0].connect_timeout or CONNECT_TIMEOUT
        if len(self._addresses) == 1:
            return BrokerConnection(self._addresses[0], name, heartbeat, timeout)
        failures: Failures = {}
        # A host that lost its power does not even refuse, so each has little time at first. Only if
        # none answers, those that stayed silent are tried again with more time (decision 0024).
        reached = self._try(self._order(), self._first_look, (name, heartbeat), failures)
        silent = [address for address, error in failures.items() if _said_nothing(error)]
        reached = reached or self._try(silent, timeout, (name, heartbeat), failures)
        if reached is None:
            refused = all(isinstance(each, AccessRefused) for each in failures.values())
            kind = AccessRefused if refused else BrokerUnavailable
            raise kind(_word(failures.values()))
        return reached

    def _try(
        self,
        addresses: Iterable[Address],
        timeout: float,
        how: tuple[str, float],
        failures: Failures,
    ) -> BrokerConnection | None:
        for address in addresses:
            try:
                connection = BrokerConnection(address, *how, timeout)
            except BrokerUnavailable as error:
                failures[address] = error
                self._failed_at[address] = monotonic()
            else:
                self._failed_at.pop(address, None)
                return connection
        return None

    def _order(self) -> list[Address]:
        """Return all nodes, starting at a random one; those that failed lately come last."""
        first = self._dice.randrange(len(self._addresses))
        forgotten = monotonic() - AVOIDED
        return sorted(
            (*self._addresses[first:], *self._addresses[:first]),
            key=lambda address: max(self._failed_at.get(address, forgotten), forgotten),
        )


def _said_nothing(error: BrokerUnavailable) -> bool:
    return isinstance(error.__cause__, TimeoutError)


def _word(failures: Iterable[BrokerUnavailable]) -> str:
    """Name the place of each failure; the first words stand once where all begin with them."""
    words = [str(each) for each in failures]
    if not all(each.startswith(UNREACHABLE) for each in words):
        return "; ".join(words)
    return UNREACHABLE + "; ".join(each.removeprefix(UNREACHABLE) for each in words)


CAPABILITIES = Capabilities(
    broker="RabbitMQ",
    confirms=True,
    returns=True,
    existence=True,
    ordered=True,
    single_consumer=True,
    redelivers=True,
    exact=True,
    told={
        "confirms": "a publisher confirm",
        "returns": "comes back (`mandatory`)",
        "existence": "a passive declaration",
        "ordered": "yes",
        "single_consumer": "`x-single-active-consumer`",
        "counting": MARKER,
        "exact": "all, also the types of headers",
        "attributes": "any number",
        "size": "that of the broker; headers in one frame",
        "visibility": "stays its own while it is connected",
        "redelivers": "comes back at once, in its place",
        "durable": "kept: durable queues, persistent messages",
        "dedup": "arrives twice",
        "delay": "-",
    },
)


class RabbitMQTransport:
    """Makes publishers, consumers and looks at queues, each with its own connection.

    During an alarm (memory or disk is short) the broker stops reading connections that publish.
    Acknowledgements on the same connection would not be read either.
    """

    capabilities = CAPABILITIES
    codec: PropertyCodec

    def __init__(
        self,
        *urls: str,
        staging_queue_type: QueueKind = "quorum",
        connection_name: str,
        heartbeat: float = 5,
        first_look: float = FIRST_LOOK,
        dice: Random | None = None,
        tls: Tls | None = None,
    ) -> None:
        """Connect to nothing yet. `heartbeat` is in seconds. Raises ConfigurationError.

        Several URLs are nodes of one broker: they differ in host and port only. `dice` chooses the
        node that a connection tries first, and `first_look` is how many seconds each node has to
        answer while others are left. The broker drops a connection after two to three
        heartbeats of silence.
        """
        addresses = [parse_address(url, tls) for url in urls]
        self._nodes = Nodes(addresses, dice or SystemRandom(), first_look)
        self._staging_queue_type: QueueKind = staging_queue_type
        self._connection_name = connection_name
        self._heartbeat = addresses[0].heartbeat or heartbeat
        self.codec = AmqpPropertyCodec(addresses[0].frame_max or USUAL_FRAME)
        self.user: str | None = addresses[0].user
        self.place = str(self._nodes)

    def publisher(self, probe: Outgoing | None = None) -> RabbitMQPublisher:
        """Connect a publisher. Raises BrokerUnavailable.

        The probe goes before the first window of each connection, and `waiting` is called while
        its confirm is outstanding: so also during an alarm.
        """
        return RabbitMQPublisher(lambda: self._dial("publisher"), probe)

    def consumer(self, queue: str, prefetch: int) -> RabbitMQConsumer:
        """Connect a consumer of an existing queue. Raises BrokerUnavailable."""
        return RabbitMQConsumer(self._dial(f"consumer of {queue}"), queue, prefetch)

    def queues(self) -> RabbitMQQueues:
        """Connect to look at queues. Raises BrokerUnavailable."""
        return RabbitMQQueues(lambda: self._dial("queues"), self._staging_queue_type)

    def counts_deliveries(self, queue: str) -> bool:
        """Return whether the queue counts redeliveries in `x-delivery-count`: a quorum queue.

        False without the right to configure it, for then its type is not revealed. Raises
        BrokerUnavailable.
        """
        queues = self.queues()
        try:
            return is_quorum(queues.trying(queue))
        finally:
            queues.close()

    def try_out(self, staging_queue: str) -> TrialReport:
        """See the seam. Raises BrokerUnavailable."""
        return try_out(lambda: self._dial("check"), self._staging_queue_type, staging_queue)

    def _dial(self, role: str) -> BrokerConnection:
        return self._nodes.dial(f"{self._connection_name}: {role}", self._heartbeat)


def make_transport(options: TransportOptions) -> RabbitMQTransport:
    """Return the transport of these nodes. Raises ConfigurationError."""
    return RabbitMQTransport(
        *options.urls,
        staging_queue_type=options.staging_queue_type,
        connection_name=options.connection_name,
        dice=options.dice,
        tls=options.tls,
    )

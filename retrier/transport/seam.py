"""What Retrier needs of a broker: implemented by each transport, and by test doubles.

One thread per object: publisher, consumer and queues each own their connection. An error that
breaks a connection raises BrokerUnavailable with host and reason; the object is closed then. Its
subclass QueueSilent means that the broker is there, but a queue does not answer.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

from retrier.domain.values import dataclass
from retrier.domain.wire import Delivery, Outcome, Outgoing, PropertyCodec
from retrier.overlap import WhileInFlight, nothing_else
from retrier.transport.capabilities import Capabilities


def nothing() -> None:
    """Do nothing while the broker is waited for."""


QueueKind = Literal["quorum", "classic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsettled:
    """What a publisher waits for: the queues of the messages the broker has not settled yet.

    `blocked` says that the broker has reported an alarm, during which it takes no publishes; `why`
    says so in words where the broker has others for it.
    """

    queues: frozenset[str] = frozenset()
    blocked: bool = False
    why: str = "the broker blocks publishers (alarm)"


USUAL_DELIVERY_LIMIT = 20
"""What RabbitMQ sets since 4.0 where nobody has set another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryLimit:
    """How often a message may come back to its queue before the broker drops or dead-letters it.

    `most` is None if the broker shows only that there may be a limit.
    """

    most: int | None


class Publisher(Protocol):
    """Publishes a window of messages and settles every one of them."""

    @property
    def awaited(self) -> Unsettled:
        """What the running `publish` waits for; read from within `waiting`."""
        ...

    def publish(
        self,
        messages: Iterable[Outgoing],
        waiting: Callable[[], None],
        while_in_flight: WhileInFlight = nothing_else,
    ) -> tuple[Outcome, ...]:
        """Publish all, wait until each is settled, and return the outcomes in the same order.

        Waits as long as the broker needs: nothing times out while an alarm blocks it. `waiting` is
        called at least once a second while confirms are outstanding. `while_in_flight` is called
        once all is written, until it returns False: for slow work that can be done meanwhile. An
        error raised by either, or by making the messages, ends the wait and is passed on. After a
        ChannelClosed or Unknown outcome the next call opens a new connection. After a refusal the
        next call lets the queue decide anew. Raises BrokerUnavailable without a connection; then
        nothing was sent. Raises QueueSilent when the probe's queue confirms nothing for too long,
        although the broker is there and not blocked.
        """
        ...

    def keep_alive(self) -> None:
        """Send a heartbeat if one is due. Call it every few seconds while idle; never raises.

        A connection that has broken meanwhile is noticed, or replaced, at its next use.
        """
        ...

    def close(self) -> None:
        """Drop the connection; never hangs, never raises."""
        ...


class Consumer(Protocol):
    """Takes messages off one queue; unacknowledged ones return to it when it closes."""

    def receive(self, limit: int, timeout: float) -> list[Delivery]:
        """Return up to `limit` messages; wait up to `timeout` seconds for the first one only.

        Raises BrokerUnavailable when the connection breaks or the queue is deleted.
        """
        ...

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge these messages. Raises BrokerUnavailable."""
        ...

    def surely_holds(self) -> bool:
        """Return whether the broker surely has given nothing of what is unacknowledged to others.

        False for a process that stood still for long, or did not receive for long: others may have
        been handed its messages, and its own copies do not show that. It stays so until the
        consumer is closed, or the broker has answered it again. Nothing is asked here.
        """
        ...

    def put_back(self, deliveries: Sequence[Delivery]) -> None:
        """Hand these messages back to their queue. Raises BrokerUnavailable."""
        ...

    def cease(self) -> Sequence[Delivery]:
        """Consume no more; return what was handed over and not received. Raises BrokerUnavailable.

        What is unacknowledged can still be acknowledged. If fewer messages are unacknowledged than
        the prefetch allows, more may be on their way here: those are waited for first. A queue may
        put a message that meets a cancelled consumer behind later ones, and count it as delivered.
        """
        ...

    def rest(self) -> bool:
        """Stop consuming, but stay connected; return whether that was possible; never raises.

        It is not possible while messages are unacknowledged: only closing gives them back.
        """
        ...

    def resume(self, prefetch: int) -> None:
        """Consume again, after a rest or once it has ceased. Raises BrokerUnavailable."""
        ...

    def keep_alive(self) -> None:
        """Send a heartbeat if one is due, during a rest. See Publisher."""
        ...

    def close(self) -> None:
        """Drop the connection; never hangs, never raises."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLook:
    """What is seen of a queue. `consumers` is 0 if the broker does not count them.

    `hidden`: messages in somebody's hands, perhaps of a process that is dead, where these come back
    by time only. Elsewhere they are ready at once, and it is 0.
    """

    ready: int
    consumers: int
    hidden: int = 0


class Queues(Protocol):
    """Looks at queues and declares the ones Retrier owns."""

    def look(self, queue: str) -> QueueLook | None:
        """Return what is seen of the queue without declaring it; None when there is none."""
        ...

    def depth(self, queue: str) -> int | None:
        """Return how many messages are ready, or None when there is no such queue."""
        ...

    def exists(self, queue: str) -> bool:
        """Return whether there is such a queue, also if another connection has it to itself."""
        ...

    def declare_error_queue(self, queue: str) -> bool:
        """Declare it durable if it is missing; return whether it was missing."""
        ...

    def why_not_declarable(self, queue: str) -> str | None:
        """Return why we may not declare a queue of this name, in a sentence; declares nothing."""
        ...

    def declare_staging_queue(self, queue: str) -> None:
        """Make sure that it exists as ours: durable, with a single active consumer.

        An empty queue with other arguments is deleted and declared anew. Raises
        StagingQueueUnusable for one that is in use.
        """
        ...

    def delivery_limit(self, queue: str) -> DeliveryLimit | None:
        """Return after how many returns the queue drops a message; None if never, or if missing.

        A limit that a policy sets or takes away is not visible.
        """
        ...

    def dead_letters(self, queue: str) -> bool | None:
        """Return whether its arguments name a dead-letter exchange; None if that is not revealed.

        One that a policy names is not visible. Nothing is declared, even if the queue is missing.
        """
        ...

    def why_not_ingestible(self, queue: str) -> str | None:
        """Return why failed messages cannot be removed from the queue, in a sentence.

        That is its type, or that we may not read it. No message is handed out to find it out. None
        when they can, when the queue is missing, or when the broker does not reveal it.
        """
        ...

    def purge(self, queue: str) -> int:
        """Drop every ready message; return how many."""
        ...

    def find_risks(self) -> tuple[str, ...]:
        """Return why the server itself may lose what it holds, or that it did; a sentence each.

        Empty where a broker keeps what it has confirmed. What was lost is said as long as the
        process runs that has noticed it.
        """
        ...

    def delete(self, queue: str) -> None:
        """Delete the queue with all it holds; a missing one is fine."""
        ...

    def keep_alive(self) -> None:
        """Send a heartbeat if one is due, between two questions. See Publisher."""
        ...

    def close(self) -> None:
        """Drop the connection; never hangs, never raises."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialReport:
    """What was found out by trying: each problem in a sentence, and what could not be tried."""

    problems: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()
    risks: tuple[str, ...] = ()
    """Why the server itself may lose what it holds; a sentence each."""


class Transport(Protocol):
    """One broker: makes publishers, consumers and looks at queues."""

    capabilities: Capabilities
    codec: PropertyCodec
    user: str | None
    """The connection's own user: the only `user_id` the broker would accept from us."""
    place: str
    """Where the broker is, for people: host and port, or the path of a file; no password."""

    def publisher(self, probe: Outgoing | None = None) -> Publisher:
        """Connect a publisher. Raises BrokerUnavailable.

        With a `probe`, each new connection first sends it and waits for its confirm, so that an
        alarm is noticed before a window is sent into it.
        """
        ...

    def consumer(self, queue: str, prefetch: int) -> Consumer:
        """Connect a consumer of an existing queue. Raises BrokerUnavailable."""
        ...

    def queues(self) -> Queues:
        """Connect to look at queues. Raises BrokerUnavailable."""
        ...

    def try_out(self, staging_queue: str) -> TrialReport:
        """Try what retries need: to declare and read the staging queue, and to publish.

        Nothing of it stays, and the staging queue itself is not touched. Raises BrokerUnavailable.
        """
        ...


@runtime_checkable
class KnowsKeys(Protocol):
    """Queues of a broker that encrypts with keys of its users, each with rights of its own."""

    def try_key(self, queue: str, *, is_read: bool) -> str | None:
        """Say what is not known of the right to use the key of a queue; None without such a key.

        Of a queue that `is_read` the first message may be received and given back at once. Raises
        AccessRefused if the key cannot be used, and BrokerUnavailable.
        """
        ...


@runtime_checkable
class CountsReceives(Protocol):
    """Queues of a broker that dead-letters what was received too often, and forgets what is old."""

    def describe_redrive(self, queue: str) -> str | None:
        """Say when messages are moved away from a queue, and where to; None if they are not."""
        ...

    def describe_retention(self, queue: str) -> str | None:
        """Say what may be gone from a queue before it is taken; None where nothing better can be set."""
        ...


@runtime_checkable
class KnowsNames(Protocol):
    """Queues of a broker where some names are none of any queue, or of a queue elsewhere."""

    def why_misnamed(self, queue: str) -> str | None:
        """Say why a queue that does not exist cannot be declared by this name; None if it can."""
        ...


@runtime_checkable
class CountsRequests(Protocol):
    """A transport to a broker that is paid by the request."""

    def count_requests(self) -> Mapping[str, int]:
        """Return how many requests this process has sent, by what was asked for."""
        ...

"""What Retrier needs of a broker. Tests script it; RabbitMQ and the embedded broker implement it.

One thread per object: publisher, consumer and queues each own their connection. Whatever breaks
a connection raises BrokerUnavailable with host and reason; the object is then useless and closed.
A queue that does not answer, though the broker is there, is one of its kinds: QueueSilent.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from retrier.domain.wire import Delivery, Outcome, Outgoing, PropertyCodec
from retrier.overlap import WhileInFlight, nothing_else


def nothing() -> None:
    """Do nothing while the broker is waited for."""


QueueKind = Literal["quorum", "classic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a transport can do; asked for by the code and shown in the docs."""

    ordered: bool
    confirms: bool
    returns: bool
    existence: bool
    single_consumer: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """What a publisher waits for: the queues of what the broker has not settled yet.

    `blocked` says that the broker takes nothing from whoever publishes, as far as it has told.
    """

    queues: frozenset[str] = frozenset()
    blocked: bool = False


class Publisher(Protocol):
    """Publishes a window of messages and settles every one of them."""

    @property
    def awaited(self) -> Awaited:
        """What is waited for in a `publish` at present; asked within `waiting`."""
        ...

    def publish(
        self,
        messages: Iterable[Outgoing],
        waiting: Callable[[], None],
        while_in_flight: WhileInFlight = nothing_else,
    ) -> tuple[Outcome, ...]:
        """Publish all, wait until each is settled, and return the outcomes in the same order.

        Never waits less than the broker needs: while it is blocked by an alarm nothing times
        out. `waiting` is called at least once a second while confirms are outstanding;
        `while_in_flight` when all is written, as long as it says that there is more: what takes a
        while is better done then than later. What either raises, or making the messages, ends the wait and goes through. After
        a ChannelClosed or Unknown outcome the next call opens a new connection, after a refusal
        the queue is asked anew. Raises BrokerUnavailable when there is none to be had; then
        nothing of this call was sent. Raises QueueSilent when the probe queue confirms nothing
        for a while, though the broker is there and not blocked.
        """
        ...

    def keep_alive(self) -> None:
        """Let the broker hear of us while there is nothing to do, every few seconds; never raises.

        A connection that has broken meanwhile is found out, or replaced, at its next use.
        """
        ...

    def close(self) -> None:
        """Drop the connection; never hangs, never raises."""
        ...


class Consumer(Protocol):
    """Takes messages off one queue; unacknowledged ones return to it when it closes."""

    def receive(self, limit: int, timeout: float) -> list[Delivery]:
        """Return up to `limit` messages: waits up to `timeout` seconds for the first one only.

        Raises BrokerUnavailable when the connection breaks or the queue is deleted.
        """
        ...

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge these messages. Raises BrokerUnavailable."""
        ...

    def put_back(self, deliveries: Sequence[Delivery]) -> None:
        """Hand these messages back to their queue. Raises BrokerUnavailable."""
        ...

    def widen(self, prefetch: int) -> None:
        """Allow so many unacknowledged messages from now on. Raises BrokerUnavailable."""
        ...

    def rest(self) -> bool:
        """Stop consuming, but stay connected; say whether that was possible; never raises.

        It is not while anything is unacknowledged: only closing gives that back.
        """
        ...

    def resume(self, prefetch: int) -> None:
        """Consume again after a rest. Raises BrokerUnavailable."""
        ...

    def keep_alive(self) -> None:
        """Let the broker hear of us during a rest. See Publisher."""
        ...

    def close(self) -> None:
        """Drop the connection; never hangs, never raises."""
        ...


class Queues(Protocol):
    """Looks at queues and declares the ones Retrier owns."""

    def depth(self, queue: str) -> int | None:
        """Return how many messages are ready, or None when there is no such queue."""
        ...

    def declare_error_queue(self, queue: str) -> bool:
        """Declare it durable if it is missing; return whether it was missing."""
        ...

    def declare_staging_queue(self, queue: str) -> None:
        """Make sure it exists as ours: durable, single active consumer.

        One with other arguments is declared anew if it is empty. Raises StagingQueueUnusable
        otherwise.
        """
        ...

    def may_limit_deliveries(self, queue: str) -> bool:
        """Say whether the queue may drop messages that come back too often; false if missing.

        As far as the broker tells: a limit set by a policy is not always seen.
        """
        ...

    def why_not_ingestible(self, queue: str) -> str | None:
        """Say why failed messages cannot be taken off the queue for good.

        None when they can, when it is missing, or when the broker does not tell.
        """
        ...

    def purge(self, queue: str) -> int:
        """Drop every ready message; return how many."""
        ...

    def delete(self, queue: str) -> None:
        """Delete the queue with all it holds; a missing one is fine."""
        ...

    def keep_alive(self) -> None:
        """Let the broker hear of us between two questions. See Publisher."""
        ...

    def close(self) -> None:
        """Drop the connection; never hangs, never raises."""
        ...


class Transport(Protocol):
    """One broker, as a maker of the three objects above."""

    capabilities: Capabilities
    codec: PropertyCodec
    user: str | None
    """The connection's own user: the only `user_id` the broker would accept from us."""
    place: str
    """Where the broker is, for people: host and port, or the path of a file; no password."""

    def publisher(self, probe: Outgoing | None = None) -> Publisher:
        """Connect a publisher. Raises BrokerUnavailable.

        With a `probe`, each new connection first sends that and waits for its confirm, so that an
        alarm is seen before a window is exposed to it.
        """
        ...

    def consumer(self, queue: str, prefetch: int) -> Consumer:
        """Connect a consumer of an existing queue. Raises BrokerUnavailable."""
        ...

    def queues(self) -> Queues:
        """Connect to look at queues. Raises BrokerUnavailable."""
        ...

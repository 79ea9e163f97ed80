"""Any broker that Kombu knows, as far as it can keep what is promised: `describe` says it for each.

A publish is taken as done when it returns; a missing queue is not noticed; what is unacknowledged
when a process dies comes back only where the broker does so.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from threading import Event
from time import monotonic
from typing import Any, NoReturn

import kombu
from amqp.exceptions import AMQPError
from kombu.utils import json as kombu_json
from kombu.utils.url import maybe_sanitize_url

from retrier.domain.wire import Confirmed, Delivery, Outcome, Outgoing, PropertyCodec
from retrier.errors import BrokerUnavailable, ConfigurationError
from retrier.overlap import WhileInFlight, nothing_else
from retrier.transport.capabilities import BY_TIME, Capabilities
from retrier.transport.embedded.properties import EnvelopePropertyCodec
from retrier.transport.embedded.transport import Idling
from retrier.transport.payloads import read_payload
from retrier.transport.seam import QueueLook, TrialReport, Unsettled
from retrier.transport.transports import TransportOptions, find_scheme

KOMBU_JSON: Any = kombu_json
"""Any, because Kombu has types for half of itself only."""
UntypedConnection: Any = kombu.Connection
UntypedQueue: Any = kombu.Queue
RESTORE_EVERY = 5.0
"""Seconds between two looks at what other processes left unacknowledged (Redis)."""


class KombuLine:
    """One connection with one channel. The first error closes it."""

    def __init__(self, url: str, options: Mapping[str, object]) -> None:
        """Connect. Raises BrokerUnavailable, ConfigurationError."""
        self.connection: Any = UntypedConnection(url, transport_options=dict(options))
        self.place = str(maybe_sanitize_url(url))
        self._never = Event()
        try:
            self.connection.connect()
            self.channel: Any = self.connection.channel()
            # A channel of SQLAlchemy's opens its database at the first look at its session.
            self.session: Any = getattr(self.channel, "session", None)
        except (TypeError, ModuleNotFoundError) as error:
            # SQLAlchemy's words about an option that it does not know, or a driver that is missing.
            self.close()
            raise ConfigurationError(
                [f"broker.transport_options of {self.place}: {error}"]
            ) from error
        except self.errors as error:
            self.fail(error)

    @property
    def errors(self) -> tuple[type[BaseException], ...]:
        """All that Kombu raises when it cannot do what it is asked."""
        return (
            *self.connection.connection_errors,
            *self.connection.channel_errors,
            OSError,
            AMQPError,
        )

    def fail(self, error: BaseException) -> NoReturn:
        """Close, and raise BrokerUnavailable for the error."""
        self.close()
        raise BrokerUnavailable(f"the broker at {self.place}: {error}") from error

    def close(self) -> None:
        """Close the connection: a channel puts back what it has not acknowledged. Never raises."""
        with suppress(Exception):
            self.connection.close()


class KombuPublisher:
    """Publishes one message after the other."""

    awaited = Unsettled()

    def __init__(self, line: KombuLine) -> None:
        self._line = line

    def publish(
        self,
        messages: Iterable[Outgoing],
        waiting: Callable[[], None],  # noqa: ARG002 - nothing is waited for
        while_in_flight: WhileInFlight = nothing_else,  # noqa: ARG002
    ) -> tuple[Outcome, ...]:
        """Publish all. Raises BrokerUnavailable; then some may have been published."""
        return tuple(self._publish(message) for message in messages)

    def keep_alive(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Close the connection; never raises."""
        self._line.close()

    def _publish(self, message: Outgoing) -> Outcome:
        envelope = KOMBU_JSON.loads(message.raw)
        channel = self._line.channel
        prepared = channel.prepare_message(
            message.body,
            content_type=envelope.get("content-type"),
            content_encoding=envelope.get("content-encoding"),
            headers=envelope.get("headers"),
            properties=dict(envelope.get("properties") or {}),
        )
        try:
            channel.basic_publish(prepared, exchange="", routing_key=message.queue)
        except self._line.errors as error:
            self._line.fail(error)
        return Confirmed()


class KombuConsumer:
    """Takes messages one by one, and never more than may be unacknowledged."""

    def __init__(self, line: KombuLine, queue: str, prefetch: int) -> None:
        self._line = line
        self._queue = queue
        self._prefetch = prefetch
        self._tags: set[object] = set()
        self._restored = monotonic()

    def receive(self, limit: int, timeout: float) -> list[Delivery]:
        """Return up to `limit` messages. Raises BrokerUnavailable."""
        deadline = monotonic() + timeout
        idling = Idling()
        while True:
            self._restore()
            found = self._take(min(limit, self._prefetch - len(self._tags)))
            left = deadline - monotonic()
            if found or left <= 0:
                return found
            idling.wait(left)

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge these messages. Raises BrokerUnavailable."""
        for delivery in deliveries:
            self._settle(delivery, self._line.channel.basic_ack)

    def surely_holds(self) -> bool:
        """Return True: nothing is known of when such a broker gives messages away."""
        return True

    def put_back(self, deliveries: Sequence[Delivery]) -> None:
        """Put these messages to the end of their queue. Raises BrokerUnavailable."""
        for delivery in deliveries:
            self._settle(delivery, partial(self._line.channel.basic_reject, requeue=True))

    def cease(self) -> list[Delivery]:
        """Return nothing: what was not received was not handed over."""
        return []

    def rest(self) -> bool:
        """Return False: there is nothing to stop."""
        return False

    def resume(self, prefetch: int) -> None:
        """Consume with this prefetch."""
        self._prefetch = prefetch

    def keep_alive(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Close the connection; never raises."""
        self._line.close()

    def _take(self, room: int) -> list[Delivery]:
        found: list[Delivery] = []
        try:
            while len(found) < room:
                message = self._line.channel.basic_get(self._queue)
                if message is None:
                    break
                found.append(self._delivery(message))
        except self._line.errors as error:
            self._line.fail(error)
        return found

    def _delivery(self, message: Any) -> Delivery:
        # Not `message.body`: Kombu decompresses it and keeps the header that says it is compressed.
        payload = message._raw  # noqa: SLF001 - nowhere else is the message as it came
        parcel = read_payload(KOMBU_JSON.dumps(payload).encode())
        self._tags.add(message.delivery_tag)
        return Delivery(
            tag=message.delivery_tag,
            queue=self._queue,
            raw=parcel.raw,
            body=parcel.body,
            redelivered=parcel.redelivered,
            routing_key=parcel.routing_key,
        )

    def _restore(self) -> None:
        """Have Redis put back what processes that died have not acknowledged."""
        restore = getattr(self._line.channel.qos, "restore_visible", None)
        if restore is not None and monotonic() - self._restored > RESTORE_EVERY:
            self._restored = monotonic()
            try:
                restore(num=None, interval=1)
            except self._line.errors as error:
                self._line.fail(error)

    def _settle(self, delivery: Delivery, settle: Callable[[object], object]) -> None:
        try:
            settle(delivery.tag)
        except self._line.errors as error:
            self._line.fail(error)
        self._tags.discard(delivery.tag)


class KombuQueues:
    """Declares queues with Kombu. Nobody says whether one exists, so each does."""

    def __init__(self, line: KombuLine) -> None:
        self._line = line

    def look(self, queue: str) -> QueueLook:
        """Return how many messages are ready. Raises BrokerUnavailable."""
        return QueueLook(ready=self.depth(queue), consumers=0)

    def depth(self, queue: str) -> int:
        """Return how many messages are ready. Raises BrokerUnavailable."""
        return int(self._ask(lambda: self._line.channel._size(queue)))  # noqa: SLF001 - a passive declaration would make it, or deny it

    def exists(self, _queue: str) -> bool:
        """Return True: nobody can say that it does not."""
        return True

    def declare_error_queue(self, queue: str) -> bool:
        """Declare it; return False, as it may have existed. Raises BrokerUnavailable."""
        self._ask(UntypedQueue(queue, channel=self._line.channel).declare)
        return False

    def why_not_declarable(self, _queue: str) -> None:
        """Return None: all queues can be declared."""

    def declare_staging_queue(self, queue: str) -> None:
        """Declare it. Whether others use it is not seen. Raises BrokerUnavailable."""
        self.declare_error_queue(queue)

    def delivery_limit(self, _queue: str) -> None:
        """Return None: such a broker has none."""

    def dead_letters(self, _queue: str) -> bool:
        """Return False: such a broker has no dead-letter exchanges."""
        return False

    def why_not_ingestible(self, _queue: str) -> None:
        """Return None: all queues can be ingested."""

    def find_risks(self) -> tuple[str, ...]:
        """Return nothing: what such a broker loses is among the promises that it does not keep."""
        return ()

    def purge(self, queue: str) -> int:
        """Drop every ready message; return how many. Raises BrokerUnavailable."""
        return int(self._ask(UntypedQueue(queue, channel=self._line.channel).purge) or 0)

    def delete(self, queue: str) -> None:
        """Empty the queue: Kombu deletes none that no exchange knows. Raises BrokerUnavailable."""
        self.purge(queue)

    def keep_alive(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Close the connection; never raises."""
        self._line.close()

    def _ask(self, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except self._line.errors as error:
            self._line.fail(error)


_LOST = "is lost: Kombu has deleted it, or marked it as done, when it handed it out"
_KEPT = frozenset({"pgmq", "sqs", "redis"})
"""Schemes whose broker itself keeps what is in hand, and hands it out again after a while."""


def describe(scheme: str) -> Capabilities:
    """Return what a broker of Kombu's can do."""
    keeps = scheme in _KEPT
    return Capabilities(
        broker=f"Kombu's {scheme}",
        confirms=False,
        returns=False,
        existence=False,
        ordered=False,
        single_consumer=False,
        redelivers=keeps,
        exact=True,
        nobody_declares=True,
        told={
            "confirms": "nothing: it is taken as done when Kombu returns",
            "returns": "is lost, or makes the queue",
            "existence": "cannot be asked",
            "ordered": "no",
            "single_consumer": "no: the lease in the database",
            "counting": BY_TIME,
            "exact": "all; JSON is written anew",
            "attributes": "any number",
            "size": "that of the broker",
            "visibility": "Kombu's `visibility_timeout`" if keeps else "stays its own for ever",
            "redelivers": "comes back after that time" if keeps else _LOST,
            "durable": "kept",
            "dedup": "arrives twice",
            "delay": "-",
        },
    )


class KombuTransport:
    """A broker of Kombu's."""

    codec: PropertyCodec = EnvelopePropertyCodec()
    user: str | None = None

    def __init__(self, url: str, options: Mapping[str, object]) -> None:
        """Connect to nothing yet. Raises ConfigurationError for a scheme that Kombu does not know."""
        try:
            UntypedConnection(url).get_transport_cls()
        except (KeyError, ImportError, ValueError) as error:
            raise ConfigurationError([f"the URL of the broker: {error}"]) from error
        self.capabilities = describe(find_scheme(url))
        self._url = url
        self._options = options
        self.place = str(maybe_sanitize_url(url))

    def publisher(self, probe: Outgoing | None = None) -> KombuPublisher:  # noqa: ARG002 - no alarms
        """Connect a publisher. Raises BrokerUnavailable."""
        return KombuPublisher(KombuLine(self._url, self._options))

    def consumer(self, queue: str, prefetch: int) -> KombuConsumer:
        """Connect a consumer. Raises BrokerUnavailable."""
        return KombuConsumer(KombuLine(self._url, self._options), queue, prefetch)

    def queues(self) -> KombuQueues:
        """Connect to look at queues. Raises BrokerUnavailable."""
        return KombuQueues(KombuLine(self._url, self._options))

    def try_out(self, _staging_queue: str) -> TrialReport:
        """Try nothing."""
        return TrialReport()


def make_transport(options: TransportOptions) -> KombuTransport:
    """Return the transport; the settings allow only one URL here. Raises ConfigurationError."""
    url, given = options.urls[0], options.kombu
    made = KombuTransport(url, given)
    if find_scheme(url) == "sqla":
        # Only SQLAlchemy knows its options, and says so when it makes an engine.
        with suppress(BrokerUnavailable):
            KombuLine(url, given).close()
    return made

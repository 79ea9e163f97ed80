"""Any broker that Kombu knows, as far as it can keep what a worker promises.

A publish is taken as done when it returns; a missing queue is not noticed; what is unacknowledged
when a process dies comes back only where the broker does so. docs/worker.md says it for each.
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
from retrier.transport.capabilities import Capabilities
from retrier.transport.embedded.properties import EnvelopePropertyCodec
from retrier.transport.embedded.transport import Idling
from retrier.transport.seam import Queues, TrialReport, Unsettled

KOMBU_JSON: Any = kombu_json
"""Any, because Kombu has types for half of itself only."""
UntypedConnection: Any = kombu.Connection
OWN = frozenset({"delivery_tag", "delivery_info", "body_encoding"})
"""Properties that belong to one delivery, and not to the message."""
RESTORE_EVERY = 5.0
"""Seconds between two looks at what other processes left unacknowledged (Redis)."""


class KombuLine:
    """One connection with one channel. The first error closes it."""

    def __init__(self, url: str, options: Mapping[str, object]) -> None:
        """Connect. Raises BrokerUnavailable."""
        self.connection: Any = UntypedConnection(url, transport_options=dict(options))
        self.place = str(maybe_sanitize_url(url))
        self._never = Event()
        try:
            self.connection.connect()
            self.channel: Any = self.connection.channel()
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
        properties = payload.get("properties") or {}
        info = properties.get("delivery_info") or {}
        kept = {name: value for name, value in properties.items() if name not in OWN}
        envelope = {name: value for name, value in payload.items() if name not in _NOT_SENT}
        body = self._line.channel.decode_body(payload.get("body"), properties.get("body_encoding"))
        self._tags.add(message.delivery_tag)
        return Delivery(
            tag=message.delivery_tag,
            queue=self._queue,
            raw=KOMBU_JSON.dumps({**envelope, "properties": kept}).encode(),
            body=body.encode() if isinstance(body, str) else bytes(body or b""),
            redelivered=bool(payload.get("redelivered") or info.get("redelivered")),
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


_NOT_SENT = frozenset({"body", "properties", "redelivered"})


class KombuTransport:
    """A broker of Kombu's."""

    capabilities = Capabilities(
        broker="Kombu",
        ordered=False,
        confirms=False,
        returns=False,
        existence=False,
        single_consumer=False,
        redelivers=False,
        exact=True,
    )
    codec: PropertyCodec = EnvelopePropertyCodec()
    user: str | None = None

    def __init__(self, url: str, options: Mapping[str, object]) -> None:
        """Connect to nothing yet. Raises ConfigurationError for a scheme that Kombu does not know."""
        try:
            UntypedConnection(url).get_transport_cls()
        except (KeyError, ImportError, ValueError) as error:
            raise ConfigurationError([f"the URL of the broker: {error}"]) from error
        self._url = url
        self._options = options
        self.place = str(maybe_sanitize_url(url))

    def publisher(self, probe: Outgoing | None = None) -> KombuPublisher:  # noqa: ARG002 - no alarms
        """Connect a publisher. Raises BrokerUnavailable."""
        return KombuPublisher(KombuLine(self._url, self._options))

    def consumer(self, queue: str, prefetch: int) -> KombuConsumer:
        """Connect a consumer. Raises BrokerUnavailable."""
        return KombuConsumer(KombuLine(self._url, self._options), queue, prefetch)

    def queues(self) -> Queues:
        """Raise BrokerUnavailable: whether a queue exists cannot be asked."""
        raise BrokerUnavailable(f"the broker at {self.place} does not say which queues it has")

    def try_out(self, _staging_queue: str) -> TrialReport:
        """Try nothing."""
        return TrialReport()

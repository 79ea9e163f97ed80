"""Publishes windows of messages with pipelined confirms; every message gets an outcome."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic

import amqp
from amqp import spec

from retrier.domain.wire import ChannelClosed, Outcome, Outgoing, Unknown
from retrier.errors import BrokerUnavailable
from retrier.overlap import WhileInFlight, nothing_else
from retrier.transport.rabbitmq.breaks import ChannelLost
from retrier.transport.rabbitmq.connection import BrokerConnection
from retrier.transport.rabbitmq.outcomes import AwaitedQueue, Window
from retrier.transport.rabbitmq.raw_message import RawMessage, read_ack, why_unsendable
from retrier.transport.seam import Awaited

WAITING_EVERY = 0.25
RUN = 1 << 17
"""Bytes to write before reading what the broker sent; a run ends with the message that fills it."""
NACK = "the broker refused the message (negative acknowledgement): is its queue full?"

Dial = Callable[[], BrokerConnection]


class RabbitMQPublisher:
    """Publishes to queues through the default exchange; a broken connection is replaced first."""

    def __init__(self, dial: Dial, probe: Outgoing | None) -> None:
        """Connect. Raises BrokerUnavailable."""
        self._dial = dial
        self._probe_message = probe
        self._line = self._open_line()
        self._probed = False

    @property
    def awaited(self) -> Awaited:
        """See the seam."""
        return self._line.awaited

    def publish(
        self,
        messages: Iterable[Outgoing],
        waiting: Callable[[], None],
        while_in_flight: WhileInFlight = nothing_else,
    ) -> tuple[Outcome, ...]:
        """Publish all, wait until each is settled. See the seam for what is promised."""
        throttled = ThrottledCall(waiting)
        self._get_ready(throttled)
        return self._run(messages, throttled, while_in_flight, mandatory=True)

    def keep_alive(self) -> None:
        """See the seam."""
        self._line.connection.keep_up()

    def close(self) -> None:
        """Drop the connection; never hangs, never raises."""
        self._line.connection.close()

    def _get_ready(self, throttled: "ThrottledCall") -> None:
        if not self._line.connection.is_fit():
            self._line.connection.drop()
            self._line = self._open_line()
            self._probed = False
        elif self._line.refused:
            self._line = self._line.renew()
        if self._probe_message is not None and not self._probed:
            self._probe(self._probe_message, throttled)

    def _open_line(self) -> "ConfirmLine":
        probe = self._probe_message
        return ConfirmLine(self._dial(), None if probe is None else probe.queue)

    def _probe(self, probe: Outgoing, throttled: "ThrottledCall") -> None:
        # The broker reports an alarm only to connections that publish. Windows sent again during
        # an alarm pile up in the broker, which takes them all when it ends. So each connection
        # first sends one message that is dropped later, and waits for its confirm.
        outcomes = self._run([probe], throttled, nothing_else, mandatory=False)
        match outcomes:
            case (Unknown(reason) | ChannelClosed(reason),):
                raise BrokerUnavailable(reason)
            case _:
                self._probed = True

    def _run(
        self,
        messages: Iterable[Outgoing],
        throttled: "ThrottledCall",
        while_in_flight: WhileInFlight,
        *,
        mandatory: bool,
    ) -> tuple[Outcome, ...]:
        line, window = self._line, Window()
        try:
            line.begin(window, throttled)
            for run in runs(messages):
                line.send(run, mandatory=mandatory)
                line.wait_while_blocked()
            while while_in_flight():
                pass
            line.wait_until_settled()
        finally:
            # After an error confirms are still under way, and no later window may count them.
            if not window.settled:
                line.connection.drop()
        return window.outcomes


class ConfirmLine:
    """A connection in confirm mode, and the window on it.

    An error that breaks the connection is not raised: it ends the window.
    """

    def __init__(self, connection: BrokerConnection, own_queue: str | None) -> None:
        self.connection = connection
        self.refused = False
        """Whether a queue has refused something on this channel."""
        self._own_queue = own_queue
        self._window = Window()
        self._throttled = ThrottledCall(lambda: None)
        self._published = 0
        connection.ask(self._confirm_mode)

    def renew(self) -> "ConfirmLine":
        """Return a line over a new channel of the same connection. Raises BrokerUnavailable.

        Once a full quorum queue has refused a message, the same channel may refuse all messages to
        that queue for ever, even when there is room again. A new channel does not.
        """
        self.connection.renew_channel()
        return ConfirmLine(self.connection, self._own_queue)

    @property
    def awaited(self) -> Awaited:
        """The queues of the window that have unsettled messages, and whether an alarm blocks."""
        return Awaited(queues=self._window.open_queues, blocked=self.connection.blocked)

    def begin(self, window: Window, throttled: "ThrottledCall") -> None:
        """Apply confirms to this window from now on; the previous one must be settled."""
        self._window = window
        self._throttled = throttled
        self.connection.while_stalled(throttled.call_if_due)

    def send(self, messages: Sequence[Outgoing], *, mandatory: bool) -> None:
        """Write these messages, unless the window has ended; read what has arrived."""
        places = self._window.add(messages)
        if self._window.ended:
            return
        sendable = [place for place in places if self._is_sendable(place)]
        try:
            written = [self._window.messages[place] for place in sendable]
            self.connection.write(written, mandatory=mandatory)
        except BrokerUnavailable as lost:
            if self.connection.open:
                raise  # from `waiting`, which ran while the broker did not read
            self._window.end(Unknown(str(lost)))
        # Tagged after the write: the broker does not count a message that was never written.
        for place in sendable:
            self._published += 1
            self._window.sent(place, self._published)
        self._turn(0)

    def wait_while_blocked(self) -> None:
        """Write nothing during an alarm: the broker would take all of it when the alarm ends."""
        while self.connection.blocked and not self._window.ended:
            self._turn(self.connection.tick)
            self._throttled.call_if_due()

    def wait_until_settled(self) -> None:
        """Wait until the broker has settled the window; call `waiting` meanwhile.

        Raises QueueSilent for our own queue only: giving up on another would send messages twice.
        """
        awaited = AwaitedQueue(self.connection, self._window, self._own_queue)
        while not self._window.settled:
            self._turn(self.connection.tick)
            awaited.check()

    def _is_sendable(self, place: int) -> bool:
        problem = why_unsendable(self._window.messages[place], self.connection.largest_properties)
        if problem is not None:
            self._window.decline(place, problem)
        return problem is None

    def _turn(self, seconds: float) -> None:
        try:
            if self.connection.read(seconds):
                self.connection.read_arrived()
            self.connection.keep_alive()
        except ChannelLost as closed:
            self._window.end(ChannelClosed(closed.words))
        except BrokerUnavailable as lost:
            self._window.end(Unknown(str(lost)))
        if not self._window.settled:
            self._throttled.call_if_due()

    def _confirm_mode(self, channel: amqp.Channel) -> None:
        self.connection.give(spec.Basic.Ack, self._on_ack)
        channel.events["basic_nack"].add(self._on_nack)
        channel.events["basic_return"].add(self._on_return)
        channel.confirm_select()

    def _on_ack(self, arguments: bytes, _raw: bytes, _body: bytes) -> None:
        tag, multiple = read_ack(arguments)
        self._window.confirm(tag, multiple=multiple)

    def _on_nack(self, tag: int, multiple: bool) -> None:  # noqa: FBT001 - py-amqp's signature
        self.refused = True
        self._window.refuse(tag, NACK, multiple=multiple)

    def _on_return(
        self, error: amqp.ChannelError, _exchange: str, queue: str, message: RawMessage
    ) -> None:
        # The broker sends the return before the acknowledgement of the same message.
        reason = f"{error.reply_code} {error.reply_text}"
        self._window.give_back(queue, message.raw, message.body, reason)


class ThrottledCall:
    """Calls `waiting` every WAITING_EVERY seconds at most, and not at every frame."""

    def __init__(self, waiting: Callable[[], None]) -> None:
        self._waiting = waiting
        self._due = monotonic() + WAITING_EVERY

    def call_if_due(self) -> None:
        """Call `waiting` if it is due; its errors are passed on."""
        if monotonic() >= self._due:
            self._due = monotonic() + WAITING_EVERY
            self._waiting()


def runs(messages: Iterable[Outgoing]) -> Iterator[Sequence[Outgoing]]:
    """Cut messages, as they are made, into runs of RUN bytes or more, each written at once."""
    run, size = [], 0
    for message in messages:
        run.append(message)
        size += len(message.raw) + len(message.body)
        if size >= RUN:
            yield run
            run, size = [], 0
    if run:
        yield run

"""Publishes windows of messages with pipelined confirms; every message gets an outcome."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from time import monotonic

import amqp
from amqp import spec

from retrier.domain.wire import (
    ChannelClosed,
    Confirmed,
    Outcome,
    Outgoing,
    Refused,
    Returned,
    Unknown,
)
from retrier.errors import BrokerUnavailable, QueueSilent
from retrier.overlap import WhileInFlight, nothing_else
from retrier.transport.rabbitmq.connection import (
    PRECONDITION_FAILED,
    BrokerConnection,
    ChannelLost,
)
from retrier.transport.rabbitmq.library import ANSWER_TIMEOUT, RawMessage, read_ack, why_unsendable
from retrier.transport.seam import Unsettled


class Window:
    """The messages of one publish; the broker settles them in any order."""

    def __init__(self) -> None:
        self.messages: list[Outgoing] = []
        self._outcomes: dict[int, Outcome] = {}
        self._sent: dict[int, int] = {}
        """Unsettled messages: their places in `messages` by delivery tag, ascending."""
        self._end: Outcome | None = None

    def add(self, messages: Sequence[Outgoing]) -> range:
        """Add messages; return their places. After `end` they get the same outcome."""
        start = len(self.messages)
        self.messages += messages
        if self._end is not None:
            self.end(self._end)
        return range(start, len(self.messages))

    @property
    def ended(self) -> bool:
        """Whether `end` was called, so that nothing more is sent."""
        return self._end is not None

    @property
    def settled(self) -> bool:
        """Whether the outcome of every message is known."""
        return len(self._outcomes) == len(self.messages)

    @property
    def left(self) -> int:
        """How many messages are not settled yet."""
        return len(self.messages) - len(self._outcomes)

    @property
    def open_queues(self) -> frozenset[str]:
        """The queues of the messages whose outcome is not known."""
        every = enumerate(self.messages)
        return frozenset(message.queue for at, message in every if at not in self._outcomes)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes in the order of the messages; only for a settled window."""
        return tuple(self._outcomes[place] for place in range(len(self.messages)))

    def sent(self, place: int, tag: int) -> None:
        """Note under which delivery tag the message at this place was written."""
        self._sent[tag] = place

    def confirm(self, tag: int, *, multiple: bool) -> None:
        """Settle one tag, or all up to it. A message that was returned stays returned."""
        self._settle(tag, Confirmed(), multiple=multiple)

    def refuse(self, tag: int, reason: str, *, multiple: bool) -> None:
        """Settle one tag, or all up to it, as negatively acknowledged."""
        self._settle(tag, Refused(reason), multiple=multiple)

    def decline(self, place: int, reason: str) -> None:
        """Settle a message that was never written, and never can be."""
        self._outcomes[place] = Refused(reason, unsendable=True)

    def give_back(self, queue: str, raw: bytes, body: bytes, reason: str) -> None:
        """Settle a message the broker returned: a return has the content, but no tag.

        Among messages of equal content any will do. If none is equal (the broker removes BCC), any
        message to that queue will do: all of them are equally unroutable.
        """
        same_queue = self._open_to(queue)
        exact = (place for place in same_queue if self._is(place, raw, body))
        place = next(exact, None)
        if place is None:
            place = next(self._open_to(queue), None)
        if place is not None:
            self._outcomes[place] = Returned(reason)

    def end(self, outcome: Outcome) -> None:
        """Settle all unsettled messages, written or not, and all that are added later."""
        self._end = outcome
        for place in range(len(self.messages)):
            self._outcomes.setdefault(place, outcome)

    def _settle(self, tag: int, outcome: Outcome, *, multiple: bool) -> None:
        tags = list(takewhile(tag.__ge__, self._sent)) if multiple else [tag]
        for each in tags:
            place = self._sent.pop(each, None)
            if place is not None:
                self._outcomes.setdefault(place, outcome)

    def _open_to(self, queue: str) -> Iterator[int]:
        return (
            place
            for place in self._sent.values()
            if place not in self._outcomes and self.messages[place].queue == queue
        )

    def _is(self, place: int, raw: bytes, body: bytes) -> bool:
        return self.messages[place].raw == raw and self.messages[place].body == body


NOTHING = f"it has confirmed nothing for {ANSWER_TIMEOUT:g} s"


class AwaitedQueue:
    """Detects that our own queue confirms nothing, while a written window is settled.

    A broker that confirms one message after the other is slow, and one under an alarm reports it:
    neither counts as silent (decision 0018).
    """

    def __init__(self, connection: BrokerConnection, window: Window, own_queue: str | None) -> None:
        """`own_queue` is the only queue whose silence ends the wait; None for no such queue."""
        self._connection = connection
        self._window = window
        self._own_queue = own_queue
        self._left = window.left
        connection.silence.begin()

    def check(self) -> None:
        """Raise QueueSilent if nothing was confirmed for too long and our own queue is open."""
        left, self._left = self._left, self._window.left
        if self._left < left or self._connection.blocked:
            self._connection.silence.begin()
        too_long = self._connection.silence.seconds >= ANSWER_TIMEOUT
        if too_long and self._own_queue in self._window.open_queues:
            raise QueueSilent(self._own_queue, NOTHING)


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
    def awaited(self) -> Unsettled:
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
    def awaited(self) -> Unsettled:
        """The queues of the window that have unsettled messages, and whether an alarm blocks."""
        return Unsettled(queues=self._window.open_queues, blocked=self.connection.blocked)

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
            unsendable = closed.code == PRECONDITION_FAILED
            self._window.end(ChannelClosed(closed.words, unsendable=unsendable))
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

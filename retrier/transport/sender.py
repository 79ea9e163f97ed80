"""Sends single messages that people ask for: in bounded time, and always knowing what is in doubt."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import BoundedSemaphore
from typing import assert_never
from uuid import uuid4

from retrier.clock import Clock
from retrier.domain.copies import PROBE_BODY
from retrier.domain.failed_imports import Doubtful, NotTaken, NotTried, SendOutcome, Sent
from retrier.domain.wire import (
    ChannelClosed,
    Confirmed,
    Outcome,
    Outgoing,
    PropertyCodec,
    Refused,
    Returned,
    Unknown,
)
from retrier.errors import BrokerUnavailable
from retrier.transport.seam import Publisher, Transport

AT_ONCE = 2
"""So many send at once: a broker that takes nothing must not keep every other request waiting."""

WAIT_FOR_PLACE = 2.0
"""Seconds to wait for one of these places."""

HAND_OVER_WITHIN = 10.0
"""Seconds after the connection in which a message may be handed to the broker, and no later.

A process that was frozen in between finds out when it wakes up: somebody may have decided to send
the message again meanwhile.
"""

ANSWER_WITHIN = 20.0
"""Seconds after the connection in which the broker has to answer."""


class Overdue(Exception):
    """The broker takes too long: the wait for it ends here."""


class BrokerSender:
    """Opens a connection for each message, so that nothing is left over from the one before."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        """Connect to nothing yet."""
        self._transport = transport
        self._clock = clock
        self._places = BoundedSemaphore(AT_ONCE)

    @property
    def codec(self) -> PropertyCodec:
        """What reads and edits the properties of this broker's messages."""
        return self._transport.codec

    @property
    def user(self) -> str | None:
        """The connection's own user: the only `user_id` that the broker accepts."""
        return self._transport.user

    @contextmanager
    def connected(self) -> Iterator["BrokerSendLine"]:
        """Give a line to a broker that takes messages at this moment.

        Raises BrokerUnavailable when there is none to be had; then nothing was sent.
        """
        if not self._places.acquire(timeout=WAIT_FOR_PLACE):
            raise BrokerUnavailable("others are sending at this moment, and wait for the broker")
        try:
            with closing(self._transport.publisher(self._make_probe())) as publisher:
                line = BrokerSendLine(publisher, self._clock)
                line.prove()
                yield line
        finally:
            self._places.release()

    def _make_probe(self) -> Outgoing:
        """Return a message to a queue that nobody has: the broker drops it, and confirms that.

        It has a body: under an alarm the broker stops reading behind the header of a message, so
        that one without a body would be confirmed all the same.
        """
        queue = f"retrier.probe.{uuid4()}"
        return Outgoing(queue=queue, raw=self._transport.codec.empty, body=PROBE_BODY)


class BrokerSendLine:
    """A connection over which one message is sent."""

    def __init__(self, publisher: Publisher, clock: Clock) -> None:
        self._publisher = publisher
        self._clock = clock
        self._began = clock.monotonic()

    def prove(self) -> None:
        """Wait until the broker takes what is published. Raises BrokerUnavailable.

        Only then is the message stamped: a broker under an alarm leaves nothing in doubt.
        """
        try:
            self._publisher.publish((), self._wait)
        except Overdue as overdue:
            raise BrokerUnavailable(str(overdue)) from None

    def send(self, message: Outgoing) -> SendOutcome:
        """Send the message; return what became of it. Never raises what a broker can cause."""
        handed_over = False

        def hand_over() -> Iterator[Outgoing]:
            nonlocal handed_over
            if self._seconds() > HAND_OVER_WITHIN:
                raise Overdue(f"this process stood still for {self._seconds():.0f} s before it")
            handed_over = True
            yield message

        try:
            (outcome,) = self._publisher.publish(hand_over(), self._wait)
        except BrokerUnavailable as error:
            return NotTried(str(error))
        except Overdue as overdue:
            return Doubtful(str(overdue)) if handed_over else NotTried(str(overdue))
        return _judge(outcome, message.queue)

    def _wait(self) -> None:
        if self._seconds() > ANSWER_WITHIN:
            awaited = self._publisher.awaited
            why = awaited.why if awaited.blocked else "it does not answer"
            raise Overdue(f"the broker took nothing for {ANSWER_WITHIN:g} s: {why}")

    def _seconds(self) -> float:
        return self._clock.monotonic() - self._began


def _judge(outcome: Outcome, queue: str) -> SendOutcome:
    match outcome:
        case Confirmed():
            return Sent()
        case Returned(reason):
            return NotTaken(f"the queue {queue} does not exist ({reason})", no_queue=True)
        case Refused(reason, may_have_arrived=True):
            return Doubtful(reason)
        case Refused(reason) | ChannelClosed(reason):
            # The only message of its window: it is the one for which the channel was closed.
            return NotTaken(f"the broker refused it: {reason}")
        case Unknown(reason):
            return Doubtful(reason)
        case _ as never:
            assert_never(never)

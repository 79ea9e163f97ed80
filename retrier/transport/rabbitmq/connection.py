"""One connection with one channel: errors of py-amqp are raised as errors of this package."""

import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import NoReturn, TypeVar

import amqp
from amqp import spec

from retrier.domain.wire import Outgoing
from retrier.errors import BrokerUnavailable
from retrier.transport.rabbitmq.address import Address
from retrier.transport.rabbitmq.breaks import (
    BREAKS,
    UNREACHABLE,
    translate,
)
from retrier.transport.rabbitmq.entry import translate_refused_entry
from retrier.transport.rabbitmq.library import (
    Channel,
    Question,
    dial,
    hear_out,
    is_closed_by_peer,
    read_frame,
    read_frames,
    read_version,
)
from retrier.transport.rabbitmq.raw_message import (
    METHOD,
    OVERHEAD,
    PROPERTIES_AT,
    Method,
    Taker,
    write_frame,
    write_publish,
)
from retrier.transport.rabbitmq.silence import ANSWER_TIMEOUT, Silence

GOODBYE_TIMEOUT = 1.0
LEAVE = write_frame(METHOD, 0, struct.pack(">HH", *spec.Connection.CloseOk))

T = TypeVar("T")


class BrokerConnection:
    """A connection used by one thread; the first error drops it for good."""

    def __init__(self, address: Address, name: str, heartbeat: float, timeout: float) -> None:
        """Connect and open the channel. Raises BrokerUnavailable.

        `heartbeat` is in seconds. Until connected, each answer may take `timeout` seconds.
        """
        self.blocked = False
        self.heartbeat = heartbeat
        self.tick = min(0.5, heartbeat / 4)
        """Seconds one read may last: after a longer one our own heartbeats would be late."""
        self._address = address
        self._raw: amqp.Connection | None = None
        self._used = monotonic()
        self.silence = Silence(heartbeat)
        try:
            self._raw = dial(
                address,
                name,
                heartbeat,
                timeout,
                on_blocked=self._on_blocked,
                on_unblocked=self._on_unblocked,
            )
            self.channel = Channel(self._raw, auto_decode=False)
            self.channel.open()
        except BREAKS as error:
            self.drop()
            raise translate_refused_entry(error, address) from error
        self.version = read_version(self._live())
        """The broker's version as numbers, such as (4, 0, 5)."""

    @property
    def largest_properties(self) -> int:
        """The most bytes of properties that fit into one frame: they cannot be split."""
        return int(self._live().frame_max) - OVERHEAD - PROPERTIES_AT

    @property
    def user(self) -> str:
        """The user of the connection, for people."""
        return self._address.user

    @property
    def open(self) -> bool:
        """Whether it is connected, as far as is known."""
        return self._raw is not None

    @property
    def kept(self) -> bool:
        """Whether the broker surely has not given it up, and so nothing that it has sent here."""
        raw = self._raw
        return raw is not None and raw.signs.suffice and not is_closed_by_peer(raw.sock)

    def is_fit(self) -> bool:
        """Return whether it is open, and was used within the last heartbeat interval."""
        if self._raw is None or monotonic() - self._used > self.heartbeat:
            return False
        with suppress(BrokerUnavailable):
            self.read_arrived()
        return self._raw is not None

    def read(self, timeout: float) -> bool:
        """Read one frame; False if none came within `timeout`. Raises BrokerUnavailable."""
        try:
            arrived = read_frame(self._live(), timeout)
        except BREAKS as error:
            self._break(error)
        if arrived:
            self._hear()
        return arrived

    def read_arrived(self, until: Callable[[], bool] = lambda: False) -> None:
        """Read all that has arrived, or `until` is true. Raises BrokerUnavailable."""
        try:
            arrived = read_frames(self._live(), until)
        except BREAKS as error:
            self._break(error)
        if arrived:
            self._hear()

    def give(self, method: Method, taker: Taker) -> None:
        """Pass all arriving methods of this kind to `taker` instead of py-amqp."""
        self._live().on_inbound_frame.give(method, taker)

    def while_stalled(self, call: Callable[[], None]) -> None:
        """Have this called, again and again, while the broker does not read what is written."""
        self._live().transport.stalled = call

    def keep_alive(self) -> None:
        """Send a heartbeat if due, and check that the broker's come. Raises BrokerUnavailable.

        Call it only after a read: frames that lie unread would be taken for silence.
        """
        try:
            self._live().heartbeat_tick(rate=2)
        except BREAKS as error:
            self._break(error)
        self._used = monotonic()

    def keep_up(self) -> None:
        """Read what has arrived and keep alive while idle; drop a broken connection silently."""
        with suppress(BrokerUnavailable):
            self.read_arrived()
            self.keep_alive()

    def ask(
        self,
        question: Callable[[amqp.Channel], T],
        queue: str | None = None,
        timeout: float = ANSWER_TIMEOUT,
    ) -> T:
        """Call methods of the channel, about this queue. Raises ChannelLost, BrokerUnavailable.

        Raises QueueSilent if, for `timeout` seconds, the broker is heard and does not answer.
        """
        raw = self._live()
        self.silence.begin()
        asked = monotonic()
        raw.question = Question(self.silence, timeout, self.tick)
        try:
            answer = question(self.channel)
        except BREAKS as error:
            self._break(error, queue)
        finally:
            raw.question = None
        raw.signs.answered(asked)
        self._used = monotonic()
        return answer

    def renew_channel(self) -> None:
        """Close the channel, on which nothing may be under way, and open another.

        Raises BrokerUnavailable.
        """
        self.ask(lambda channel: channel.close())
        self.channel = Channel(self._live(), auto_decode=False)
        self.ask(lambda channel: channel.open())

    def write(self, messages: Sequence[Outgoing], *, mandatory: bool) -> None:
        """Write messages to the default exchange, all at once. Raises BrokerUnavailable.

        Not with py-amqp's `basic_publish`: it reads the socket first, so its errors may have
        nothing to do with the message.
        """
        raw = self._live()
        frames = [
            frame
            for message in messages
            for frame in write_publish(
                self.channel.channel_id, message, mandatory=mandatory, frame_max=raw.frame_max
            )
        ]
        try:
            raw.transport.write(b"".join(frames))
        except BREAKS as error:
            self._break(error)

    def write_ack(self, tag: int, *, multiple: bool) -> None:
        """Acknowledge a delivery. Raises BrokerUnavailable.

        Written by hand: there is no answer, and py-amqp takes as long for it as for all the rest.
        """
        raw = self._live()
        began = monotonic()
        method = struct.pack(">HHQB", *spec.Basic.Ack, tag, multiple)
        try:
            raw.transport.write(write_frame(METHOD, self.channel.channel_id, method))
        except BREAKS as error:
            self._break(error)
        raw.signs.sent(began)
        self._used = monotonic()

    def close(self) -> None:
        """Send connection.close, wait a moment for the answer, drop; never hangs, never raises."""
        raw = self._raw
        if raw is not None and raw.connected and not self.blocked:
            with suppress(*BREAKS):
                raw.sock.settimeout(GOODBYE_TIMEOUT)
                raw.send_method(spec.Connection.Close, "BsBB", (200, "", 0, 0))
                hear_out(raw.sock, LEAVE, GOODBYE_TIMEOUT / 4)
        self.drop()

    def drop(self) -> None:
        """Close the socket; never hangs, never raises.

        Not with py-amqp's `close`: with a frozen or blocked broker it waits for ever.
        """
        raw, self._raw = self._raw, None
        if raw is None:
            return
        with suppress(*BREAKS):
            if raw.connected:
                raw.sock.settimeout(GOODBYE_TIMEOUT)  # closing TLS sends and may wait
            raw.collect()

    def _live(self) -> amqp.Connection:
        if self._raw is None:
            raise self._unavailable("the connection is closed")
        return self._raw

    def _hear(self) -> None:
        self._used = monotonic()
        self.silence.hear()

    def _break(self, error: Exception, queue: str | None = None) -> NoReturn:
        self.drop()
        raise translate(error, self._address, queue) from error

    def _unavailable(self, reason: str) -> BrokerUnavailable:
        return BrokerUnavailable(f"{UNREACHABLE}{self._address}: {reason}")

    def _on_blocked(self, _reason: str) -> None:
        self.blocked = True

    def _on_unblocked(self) -> None:
        self.blocked = False

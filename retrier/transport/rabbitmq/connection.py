"""One connection with one channel; why it breaks, and why the broker refuses it, in words for people.

Only the refusal of a declaration shows arguments of an existing queue: it names the first one that
differs. The broker cuts its text off at 255 bytes, so the value may be missing.
"""

import re
import ssl
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import NoReturn, TypeVar

import amqp
from amqp import spec
from amqp.exceptions import AMQPError, ChannelError, ConsumerCancelled

from retrier.domain.values import dataclass
from retrier.domain.wire import Outgoing
from retrier.errors import AccessRefused, BrokerUnavailable, ConnectionLimit, QueueSilent
from retrier.transport.rabbitmq.address import Address
from retrier.transport.rabbitmq.library import (
    ANSWER_TIMEOUT,
    METHOD,
    OVERHEAD,
    PROPERTIES_AT,
    Channel,
    Method,
    NoAnswer,
    PendingReply,
    Silence,
    Taker,
    dial,
    hear_out,
    is_closed_by_peer,
    read_frame,
    read_frames,
    read_version,
    write_frame,
    write_publish,
)

UNREACHABLE = "cannot reach the broker at "
ACCESS_REFUSED = 403
PRECONDITION_FAILED = 406
INTERNAL_ERROR = 541
STREAM_TYPE = "rabbit_stream_queue"
A_STREAM = (
    "it is a stream, which keeps what is taken off it: nothing of it can be ingested. "
    "List a queue, of type quorum or classic, in its place."
)

# All that py-amqp raises when a connection breaks, or sends something it cannot parse.
BREAKS = (
    AMQPError,
    OSError,
    ValueError,
    ArithmeticError,
    LookupError,
    AttributeError,
    TypeError,
    struct.error,
)


class ConnectionRefusal(BrokerUnavailable):
    """The broker closed the connection, and said why."""

    def __init__(self, message: str, code: int, words: str) -> None:
        super().__init__(message)
        self.code = code
        self.words = words


class ChannelLost(ConnectionRefusal):
    """The broker closed only the channel; BrokerConnection drops the connection as well."""


def is_silence(error: Exception) -> bool:
    """Return whether a queue, and not the broker, has failed to answer.

    The broker may give the queue up before we do, with an internal error (541).
    """
    internal = isinstance(error, AMQPError) and error.reply_code == INTERNAL_ERROR
    return internal or isinstance(error, NoAnswer)


def translate(error: Exception, address: Address, queue: str | None = None) -> BrokerUnavailable:
    """Return the error to raise for one that broke a connection, in a question about `queue`."""
    if queue is not None and is_silence(error):
        return QueueSilent(queue, words_of(error))
    if isinstance(error, AMQPError) and error.reply_code:
        kind = ChannelLost if isinstance(error, ChannelError) else ConnectionRefusal
        words = words_of(error)
        return kind(f"the broker at {address} refused: {words}", error.reply_code, words)
    return BrokerUnavailable(f"{UNREACHABLE}{address}: {words_of(error)}")


def words_of(error: Exception) -> str:
    """Return a description of the error: the broker's own text, if there is any."""
    match error:
        case ConsumerCancelled():
            return "the queue was deleted, or the broker cancelled its consumer"
        case AMQPError(reply_code=code, reply_text=str(text)):
            return f"{code} {text}" if code else text
        case OSError(strerror=str(text)):
            return text
        case _:
            return str(error) or type(error).__name__


def is_of_access(refusal: ConnectionRefusal | None) -> bool:
    """Return whether a right is missing."""
    return refusal is not None and refusal.code == ACCESS_REFUSED


def is_of_a_stream(refusal: ConnectionRefusal | None) -> bool:
    """Return whether a stream has refused the consumer: it names its type."""
    return refusal is not None and STREAM_TYPE in refusal.words


def name_missing_right(user: str, right: str, queue: str) -> str:
    """Say which right (`configure` or `read`) the user needs on the queue."""
    return f"the user {user} may not {right} the queue {queue}: grant it `{right}` on that queue"


_ARGUMENT = re.compile(r"inequivalent arg '([^']+)'")
_VALUE = re.compile(r"current is the value '(.*)' of type '(\w+)'", re.DOTALL)
_FLAG = re.compile(r"current is '(true|false)'")
_GIVEN = re.compile(r"current is (none|the value '|')")
_NUMBERS = frozenset({"byte", "short", "signedint", "long", "unsignedbyte", "unsignedint"})

Value = int | str | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDifference:
    """An argument in which a queue differs from its declaration, with its value in the queue.

    `value` is None if absent or not shown. `given` says whether the queue has the argument, which
    may be known of a value that is cut off; None if it is not shown. `argument` is empty if the
    refusal names none.
    """

    argument: str
    value: Value | None
    given: bool | None


def read_difference(words: str) -> QueueDifference:
    """Read the difference from the text of a refusal."""
    argument, given = _ARGUMENT.search(words), _GIVEN.search(words)
    return QueueDifference(
        argument=argument[1] if argument else "",
        value=_find_value(words),
        given=given[1] != "none" if given else None,
    )


def _find_value(words: str) -> Value | None:
    if flag := _FLAG.search(words):
        return flag[1] == "true"
    value = _VALUE.search(words)
    return _read(value[1], value[2]) if value else None


def _read(content: str, kind: str) -> Value | None:
    if kind == "longstr":
        return content
    if kind == "bool":
        return content == "true"
    return int(content) if kind in _NUMBERS else None


def translate_refused_entry(error: Exception, address: Address) -> BrokerUnavailable:
    """Return the error to raise for one that came while connecting."""
    if is_limit(error):
        return ConnectionLimit(f"the broker at {address} takes no more: {words_of(error)}")
    reason = why_refused(error)
    if reason is not None:
        return AccessRefused(f"the broker at {address} {reason}")
    return translate(error, address)


def why_refused(error: Exception) -> str | None:
    """Return why a connection was not allowed, for a person to change; None if it is not that."""
    match error:
        case AMQPError(reply_code=403):
            return f"refuses user and password: {words_of(error)}"
        case AMQPError(reply_code=530) if is_limit(error):
            return None
        case AMQPError(reply_code=530):
            return f"refuses the virtual host: {words_of(error)}"
        case ssl.SSLError():
            return why_insecure(error)
        case _:
            return None


def is_limit(error: Exception) -> bool:
    """Say whether it is a limit of connections or channels: of the user, the host or the node."""
    limited = isinstance(error, AMQPError) and error.reply_code == NOT_ALLOWED
    return limited and "limit" in words_of(error)


NOT_ALLOWED = 530
_PLAIN = ("WRONG_VERSION_NUMBER", "UNEXPECTED_MESSAGE", "RECORD_LAYER_FAILURE")
_OTHER_NAME = "shows a certificate for another name ({}): name the broker in broker.url as its certificate does"
_CERTIFICATES = {
    9: "shows a certificate that is not valid yet: compare the clocks of both machines",
    10: "shows a certificate that has expired: renew it there, or the one of its authority",
    62: _OTHER_NAME,
    64: _OTHER_NAME,
}
"""What is wrong with the broker's certificate, by OpenSSL's codes."""
_UNTRUSTED = (
    "shows a certificate that is not trusted here ({}): name the file of the authority that signed "
    "it as broker.tls.ca"
)
_ALERTS = {
    "CERTIFICATE_EXPIRED": (
        "refuses our certificate, which has expired: renew broker.tls.certificate"
    ),
    "UNKNOWN_CA": (
        "does not trust the authority that signed our certificate: name one that it trusts as "
        "broker.tls.certificate, or make the authority known there"
    ),
}
"""What the broker says of our certificate, by the end of OpenSSL's name for it."""


def why_insecure(error: ssl.SSLError) -> str:
    """Return what is wrong with TLS, and what to do."""
    reason = getattr(error, "reason", None) or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _CERTIFICATES.get(error.verify_code, _UNTRUSTED).format(error.verify_message)
    if reason in _PLAIN:
        return (
            "does not speak TLS on this port: write amqp:// in broker.url, or name the port for "
            "TLS, mostly 5671"
        )
    _, is_alert, alert = reason.partition("ALERT_")
    if alert in _ALERTS:
        return _ALERTS[alert]
    if is_alert or isinstance(error, ssl.SSLEOFError):
        # With TLS 1.3 a broker that misses our certificate says so, or only hangs up.
        return (
            f"has ended the TLS handshake ({reason or words_of(error)}): if it asks for a "
            "certificate, name one that it trusts as broker.tls.certificate, with broker.tls.key"
        )
    return f"cannot be reached with TLS: {words_of(error)}"


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
        raw.question = PendingReply(self.silence, timeout, self.tick)
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

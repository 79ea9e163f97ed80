"""A connection to Redis, made by Kombu: its channel names the keys, and its classes do the work.

Kombu's own channel pushes without looking whether anybody has made the queue, and takes a message
off its list before it stores that it is taken: a process that dies in between loses it. Both are
replaced by scripts here. All else is Kombu's: URLs, sentinels, TLS, keys, priorities, declarations.
"""

import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any, NoReturn
from uuid import uuid4

import kombu
import redis
from kombu.message import Message
from kombu.transport import redis as kombu_redis
from kombu.transport import virtual
from kombu.utils.url import maybe_sanitize_url
from redis.backoff import NoBackoff
from redis.connection import SSLConnection
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    NoPermissionError,
    RedisError,
    ResponseError,
)
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError

from retrier.domain.values import dataclass
from retrier.domain.wire import Outgoing
from retrier.errors import AccessRefused, BrokerUnavailable, ConfigurationError
from retrier.transport.payloads import make_payload, priority_of
from retrier.transport.redis import scripts
from retrier.transport.transports import Tls

CONNECT_TIMEOUT = 5.0
ANSWER_TIMEOUT = 20.0
KNOWN, STAGING = "_retrier:queues", "_retrier:staging"
"""Sets of names of queues: those that Retrier has declared or consumes, and staging queues.

No queue may have the name of a key: `retrier.staging` is the staging queue of most installations.
"""
BINDINGS = "_kombu.binding."
"""What Kombu leaves of a queue that was declared with an exchange: a set for each exchange."""
DEFAULT_EXCHANGE = "celery"
_SCANNED = 1000

UntypedConnection: Any = kombu.Connection
UntypedProducer: Any = kombu.Producer
UntypedConsumer: Any = kombu.Consumer
UntypedQueue: Any = kombu.Queue
"""Any, because Kombu has types for half of itself only."""

_Quick: Any = kombu_redis.Channel
_Watched: Any = kombu_redis.SentinelChannel
_QoS: Any = virtual.QoS
_Message: Any = Message


class HeldMessage(_Message):  # type: ignore[misc]
    """A payload as it was taken, for Kombu's consumer. Nothing of it is decoded or decompressed."""

    def __init__(self, payload: tuple[str, bytes], channel: Any = None) -> None:
        super().__init__(
            body=payload[1], delivery_tag=payload[0], channel=channel, headers={}, properties={}
        )


class HeldElsewhere(_QoS):  # type: ignore[misc]
    """Kombu's list of what is unacknowledged: the script that took a message has stored it."""

    def restore_unacked(self) -> None:
        """Do nothing: what is in hand is given back by a script."""


_SSLConnection: Any = SSLConnection


class SecureConnection(_SSLConnection):  # type: ignore[misc]
    """A connection with TLS: its handshake counts as a part of connecting."""

    def _wrap_socket_with_ssl(self, sock: Any) -> Any:
        # A server without TLS waits for more of what it takes for a command, and never answers.
        sock.settimeout(self.socket_connect_timeout)
        try:
            secured = super()._wrap_socket_with_ssl(sock)
        except TimeoutError as error:
            raise redis.ConnectionError(
                f"no TLS handshake within {self.socket_connect_timeout:g} s: "
                "the server may not speak TLS"
            ) from error
        secured.settimeout(self.socket_timeout)
        return secured


class Scripted:
    """What both kinds of channel have in common: with and without sentinels."""

    QoS = HeldElsewhere
    Message = HeldMessage
    do_restore = False
    connection_class_ssl = SecureConnection

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.window: list[tuple[Outgoing, str]] = []
        """What the producer has published and nobody has pushed: a message, and its list."""
        super().__init__(*arguments, **named)

    @property
    def client(self) -> Any:
        """A client of the pool; Kombu's own keeps a connection for polling."""
        return self._create_client()  # type: ignore[attr-defined]

    def prepare_message(self, body: Outgoing, *_others: Any, **_named: Any) -> Any:
        """Return the message itself: Kombu would add properties that it does not have."""
        return {"body": body, "properties": {"delivery_info": {}}}

    def encode_body(self, body: Any, _encoding: Any = None) -> tuple[Any, None]:
        """Return the message as it is."""
        return body, None

    def _put(self, queue: str, message: Any, **_named: Any) -> None:
        outgoing: Outgoing = message["body"]
        self.window.append((outgoing, self._q_for_pri(queue, priority_of(outgoing))))  # type: ignore[attr-defined]

    def _new_queue(self, queue: str, **_named: Any) -> None:
        prefix = self.global_keyprefix  # type: ignore[attr-defined]
        make_client(self).eval(scripts.DECLARE, 1, prefix + KNOWN, queue)

    def _size(self, queue: str) -> int:
        # Kombu asks in a transaction, which a server without memory refuses.
        client, prefix = make_client(self), self.global_keyprefix  # type: ignore[attr-defined]
        keys = [prefix + self._q_for_pri(queue, step) for step in self.priority_steps]  # type: ignore[attr-defined]
        return sum(client.llen(key) for key in keys)

    def _connparams(self, asynchronous: bool = False) -> Any:  # noqa: FBT001, FBT002 - Kombu's
        found = super()._connparams(asynchronous)  # type: ignore[misc]
        # Without retries of the client: a push whose answer is lost must not be pushed again unseen.
        return {
            **found,
            "retry": Retry(NoBackoff(), 0),
            "socket_timeout": found.get("socket_timeout") or ANSWER_TIMEOUT,
            "socket_connect_timeout": found.get("socket_connect_timeout") or CONNECT_TIMEOUT,
        }


class Channel(Scripted, _Quick):  # type: ignore[misc]
    """Kombu's channel to one server."""


class SentinelChannel(Scripted, _Watched):  # type: ignore[misc]
    """Kombu's channel to the server that sentinels name."""


_Transport: Any = kombu_redis.Transport
_SentinelTransport: Any = kombu_redis.SentinelTransport


class Transport(_Transport):  # type: ignore[misc]
    """Kombu's transport with our channel."""

    Channel = Channel


class SentinelTransport(_SentinelTransport):  # type: ignore[misc]
    """The same with sentinels."""

    Channel = SentinelChannel


def make_client(channel: Any, *, alone: bool = False) -> Any:
    """Return a client that adds no prefix to keys; `alone`: with one connection of its own."""
    return redis.Redis(connection_pool=channel.pool, single_connection_client=alone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a server is, and how it is spoken to; `options` are Kombu's transport options."""

    url: str
    options: Mapping[str, Any]
    tls: Tls = field(default_factory=Tls)

    @property
    def place(self) -> str:
        """The URL for people, without its password."""
        return ";".join(str(maybe_sanitize_url(each)) for each in self.url.split(";"))

    def connect(self) -> Any:
        """Return Kombu's connection, not connected yet."""
        scheme = self.url.partition(":")[0]
        is_secure = scheme == "rediss"
        return UntypedConnection(
            self.url,
            transport=SentinelTransport if scheme == "sentinel" else Transport,
            transport_options=dict(self.options),
            **({"ssl": self._secure()} if is_secure else {}),
        )

    def _secure(self) -> dict[str, Any]:
        tls = self.tls
        named = {
            "ssl_ca_certs": tls.ca,
            "ssl_certfile": tls.certificate,
            "ssl_keyfile": tls.key,
        }
        return {
            "ssl_cert_reqs": ssl.CERT_REQUIRED if tls.verify else ssl.CERT_NONE,
            "ssl_check_hostname": tls.verify,
            **{name: value for name, value in named.items() if value},
        }


class Line:
    """One channel of Kombu's. All that speaks to Redis raises BrokerUnavailable, and closes it."""

    def __init__(self, address: Address) -> None:
        """Connect. Raises BrokerUnavailable, ConfigurationError."""
        self.place = address.place
        self._connection = address.connect()
        try:
            # Once: Kombu would try again, and take twice as long as may be waited for.
            self._connection.ensure_connection(max_retries=0, reraise_as_library_errors=False)
            self.channel: Any = self._connection.channel()
            self.client: Any = make_client(self.channel, alone=True)
        except ValueError as error:
            self.close()
            raise ConfigurationError([f"broker.url: {error}"]) from error
        except (RedisError, OSError) as error:
            self.fail(error)
        self.prefix: str = self.channel.global_keyprefix

    def fail(self, error: BaseException) -> NoReturn:
        """Close, and raise BrokerUnavailable for the error."""
        lacks_right = isinstance(error, NoPermissionError) or _is_forbidden_script(error)
        why = f"{error}{self._find_missing_right(error)}" if lacks_right else _describe(error)
        self.close()
        refused = isinstance(error, AuthenticationError | AuthorizationError)
        is_access = refused or lacks_right or _is_wrong_database(error)
        kind = AccessRefused if is_access else BrokerUnavailable
        raise kind(f"the broker at {self.place}: {why}") from error

    def _find_missing_right(self, error: BaseException) -> str:
        """Say which right is missing, if the server tells: of a script only its log does."""
        missing = ""
        if _is_forbidden_script(error):
            with suppress(RedisError, OSError):
                latest = self.client.acl_log(1)
                missing = f", missing is {latest[0]['object']}" if latest else ""
        return f"{missing} (see Rights in docs/transports.md)"

    def ask(self, script: str, keys: Sequence[str], arguments: Sequence[Any] = ()) -> Any:
        """Run a script and return its answer. Raises BrokerUnavailable."""
        try:
            return self.client.eval(script, len(keys), *keys, *arguments)
        except (RedisError, OSError) as error:
            self.fail(error)

    def command(self, *words: Any) -> Any:
        """Run a command and return its answer. Raises BrokerUnavailable."""
        try:
            return self.client.execute_command(*words)
        except (RedisError, OSError) as error:
            self.fail(error)

    def find_out(self, *words: Any) -> Any:
        """Run a command that may be forbidden here; None then. Raises BrokerUnavailable."""
        try:
            return self.client.execute_command(*words)
        except ResponseError:
            return None
        except (RedisError, OSError) as error:
            self.fail(error)

    def lists(self, queue: str) -> list[str]:
        """Return the keys of the lists of a queue: one for each step of priority, 0 first."""
        steps = self.channel.priority_steps
        return [self.prefix + self.channel._q_for_pri(queue, step) for step in steps]  # noqa: SLF001 - Kombu has no other name for it

    def key(self, kind: str, queue: str) -> str:
        """Return a key of Retrier's own for a queue."""
        return f"{self.prefix}_retrier:{kind}:{queue}"

    @property
    def known(self) -> str:
        """The key of the set of queues that Retrier has declared or consumes."""
        return self.prefix + KNOWN

    @property
    def staging(self) -> str:
        """The key of the set of staging queues."""
        return self.prefix + STAGING

    def guess_binding(self, queue: str) -> tuple[str, str]:
        """Return set and member that a Celery worker leaves of a queue of this name."""
        separator = self.channel.sep
        return f"{self.prefix}{BINDINGS}{queue}", f"{queue}{separator}{separator}{queue}"

    def find_binding(self, queue: str) -> tuple[str, str] | None:
        """Return the set and the member that name the queue, if it is bound to any exchange.

        The usual exchanges are looked at first: a walk over all keys may take long. Raises
        BrokerUnavailable.
        """
        end = f"{self.channel.sep}{queue}".encode()
        usual = [f"{self.prefix}{BINDINGS}{name}" for name in (queue, DEFAULT_EXCHANGE)]
        try:
            for key in (*usual, *self._scan()):
                for member in self.client.smembers(key):
                    if member.endswith(end):
                        return key, member.decode()
        except (RedisError, OSError) as error:
            self.fail(error)
        return None

    def _scan(self) -> Iterator[str]:
        pattern = re.sub(r"([*?\[\]\\])", r"\\\1", f"{self.prefix}{BINDINGS}")
        found = self.client.scan_iter(f"{pattern}*", count=_SCANNED, _type="set")
        return (key.decode() for key in found)

    def declare(self, queue: str) -> None:
        """Declare a queue with Kombu. Raises BrokerUnavailable."""
        try:
            UntypedQueue(queue, channel=self.channel).declare()
        except (RedisError, OSError) as error:
            self.fail(error)

    def publish(self, messages: Sequence[Outgoing]) -> list[tuple[Outgoing, str, bytes]]:
        """Have Kombu's producer publish; return each message with its list and its payload.

        Nothing is pushed yet.
        """
        producer = UntypedProducer(self.channel, auto_declare=False)
        self.channel.window.clear()
        for message in messages:
            producer.publish(
                message,
                exchange="",
                routing_key=message.queue,
                content_type="-",
                content_encoding="-",
            )
        return [
            (message, self.prefix + key, make_payload(message, str(uuid4())))
            for message, key in self.channel.window
        ]

    def close(self) -> None:
        """Drop the connections; never hangs, never raises."""
        with suppress(Exception):
            self.client.close()
        with suppress(Exception):
            self._connection.close()


def _is_forbidden_script(error: BaseException) -> bool:
    return isinstance(error, ResponseError) and "user executing the script can't" in str(error)


def _describe(error: BaseException) -> str:
    """Return an error as a sentence for people."""
    if not isinstance(error, MasterNotFoundError):
        return str(error)
    # The library shows its own objects, one for each sentinel that it could not ask.
    text = str(error)
    name = text.removeprefix("No master found for ").partition(" : ")[0]
    missed = text.count(" - ")
    silent = f"; {missed} of them could not be reached" if missed else ""
    return f"the sentinels name no server {name} that is up (master_name){silent}"


def _is_wrong_database(error: BaseException) -> bool:
    return isinstance(error, ResponseError) and "DB index" in str(error)

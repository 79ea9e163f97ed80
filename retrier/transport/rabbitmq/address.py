"""Where the broker is, read from its URL."""

from collections.abc import Mapping
from dataclasses import field
from difflib import get_close_matches
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from retrier.domain.values import dataclass
from retrier.errors import ConfigurationError
from retrier.transport.transports import Tls

PORTS = {"amqp": 5672, "amqps": 5671}
LEAST_FRAME = 4096
"""Bytes: no broker may allow less."""
_FROM_ONE_SECOND_ON = 1000
"""`connection_timeout` is in milliseconds for RabbitMQ's own clients, and in seconds for others."""
_RANGES = {
    "heartbeat": (1, 3600),
    "connection_timeout": (1, 600_000),
    "connect_timeout": (1, 600),
    "socket_timeout": (1, 600),
    "frame_max": (LEAST_FRAME, 2**31 - 1),
    "channel_max": (1, 65535),
}
"""The parameters that are taken, as clients of RabbitMQ name them, and what each may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Host and port of a broker, the virtual host, user and password."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    virtual_host: str
    tls: bool
    trust: Tls = field(default_factory=Tls)
    heartbeat: float | None = None
    """Seconds between two heartbeats, and for how long a connection may take; None if not given."""
    connect_timeout: float | None = None
    frame_max: int | None = None
    channel_max: int | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def parse_address(url: str, trust: Tls | None = None) -> Address:
    """Read `amqp://user:password@host:port/vhost` (`amqps` for TLS), each part percent-encoded.

    The usual parameters of clients may follow: `?heartbeat=30&connection_timeout=5`.

    `trust` is used with `amqps`. No path, `/` and `//` all mean the broker's default virtual host, `/`. Raises
    ConfigurationError, never with the password in it.
    """
    parts = _split(url)
    given = _read_parameters(parts.query)
    return Address(
        host=parts.hostname or "127.0.0.1",
        port=parts.port or PORTS[parts.scheme],
        user=unquote(parts.username or "guest"),
        password=unquote(parts.password or "guest"),
        virtual_host=unquote(parts.path[1:]) or "/",
        tls=parts.scheme == "amqps",
        trust=trust or Tls(),
        heartbeat=given.get("heartbeat"),
        connect_timeout=_find_timeout(given),
        frame_max=given.get("frame_max"),
        channel_max=given.get("channel_max"),
    )


def _read_parameters(query: str) -> Mapping[str, int]:
    """Return the parameters. Raises ConfigurationError; no value is quoted, nor an unknown name.

    A `?` that is not encoded may stand in the password: then all that follows is a piece of it.
    """
    given: dict[str, int] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _RANGES:
            near = get_close_matches(name, _RANGES, 1)
            meant = f"; is {near[0]} meant?" if near else ""
            raise _wrong(f"has a parameter other than {', '.join(_RANGES)}{meant}")
        least, most = _RANGES[name]
        if not (value.isascii() and value.isdigit() and least <= int(value[:12]) <= most):
            raise _wrong(f"must have a whole number between {least} and {most} as {name}")
        given[name] = int(value)
    return given


def _find_timeout(given: Mapping[str, int]) -> float | None:
    timeout = given.get("connection_timeout")
    if timeout is not None:
        return timeout / 1000 if timeout >= _FROM_ONE_SECOND_ON else timeout
    return given.get("connect_timeout", given.get("socket_timeout"))


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        unreadable = parts.port is not None and parts.port < 1
    except ValueError:
        # `from None`: urllib quotes a piece of the URL, which may be a piece of the password.
        raise _wrong("is not a URL; encode / : @ # ? % in the password as %..") from None
    if unreadable or parts.scheme not in PORTS:
        raise _wrong("must begin with amqp:// or amqps:// and name a port above 0, if any")
    is_cut = "?" in url and ("@" in parts.query or not parts.query)
    if parts.fragment or is_cut:
        raise _wrong("must end after the virtual host, or with ? and parameters: no other ? or #")
    return parts


def _wrong(problem: str) -> ConfigurationError:
    return ConfigurationError([f"broker.url {problem}"])

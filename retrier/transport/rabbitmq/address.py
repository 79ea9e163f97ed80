"""Where the broker is, read from its URL."""

from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

from retrier.errors import ConfigurationError
from retrier.transport.transports import Tls

PORTS = {"amqp": 5672, "amqps": 5671}


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

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def parse_address(url: str, trust: Tls | None = None) -> Address:
    """Read `amqp://user:password@host:port/vhost` (`amqps` for TLS), each part percent-encoded.

    `trust` is used with `amqps`. No path, `/` and `//` all mean the broker's default virtual host, `/`. Raises
    ConfigurationError, never with the password in it.
    """
    parts = _split(url)
    return Address(
        host=parts.hostname or "127.0.0.1",
        port=parts.port or PORTS[parts.scheme],
        user=unquote(parts.username or "guest"),
        password=unquote(parts.password or "guest"),
        virtual_host=unquote(parts.path[1:]) or "/",
        tls=parts.scheme == "amqps",
        trust=trust or Tls(),
    )


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        unreadable = parts.port is not None and parts.port < 1
    except ValueError:
        # `from None`: urllib quotes a piece of the URL, which may be a piece of the password.
        raise _wrong("is not a URL; encode / : @ # ? % in the password as %..") from None
    if unreadable or parts.scheme not in PORTS:
        raise _wrong("must begin with amqp:// or amqps:// and name a port above 0, if any")
    if parts.query or parts.fragment:
        raise _wrong("must end after the virtual host: no ? and no # in it")
    return parts


def _wrong(problem: str) -> ConfigurationError:
    return ConfigurationError([f"broker.url {problem}"])

"""The transports by the scheme of a broker's URL; to add one, add a package and a line here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from random import Random
from types import MappingProxyType

from retrier.errors import ConfigurationError
from retrier.transport.seam import QueueKind, Transport

TRANSPORTS: Mapping[str, str] = MappingProxyType(
    {
        "amqp": "retrier.transport.rabbitmq",
        "amqps": "retrier.transport.rabbitmq",
        "embedded": "retrier.transport.embedded",
        "redis": "retrier.transport.redis",
        "rediss": "retrier.transport.redis",
        "sentinel": "retrier.transport.redis",
        "filesystem": "retrier.transport.other_brokers",
        "mongodb": "retrier.transport.other_brokers",
        "pgmq": "retrier.transport.other_brokers",
        "sqla": "retrier.transport.other_brokers",
    }
)
"""Each package has a function `make_transport`. It is imported only when it is needed:
loading a client library takes longer than most commands."""

_REDIS = "pip install 'retrier[redis]'"
EXTRAS: Mapping[str, str] = MappingProxyType(
    {"redis": _REDIS, "rediss": _REDIS, "sentinel": _REDIS}
)
"""How to install the client library that a scheme needs, where Retrier itself does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """How a TLS connection is secured: files in PEM form; an empty name is no file.

    Without `ca` the authorities of the machine are trusted. `certificate` and `key` are ours, for a
    broker that asks for them. Without `verify` anybody may be the broker.
    """

    ca: str = ""
    certificate: str = ""
    key: str = ""
    verify: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportOptions:
    """What a transport may need; each ignores what it has no use for."""

    urls: tuple[str, ...]
    staging_queue_type: QueueKind
    connection_name: str
    dice: Random
    tls: Tls = Tls()
    kombu: Mapping[str, object] = field(default_factory=dict)
    """Kombu's transport options, for brokers that it knows."""


def find_scheme(url: str) -> str:
    """Return the scheme of a URL, without what stands behind a plus sign: `sqla` of `sqla+sqlite://`."""
    return url.partition(":")[0].lower().partition("+")[0]


def make_transport(options: TransportOptions) -> Transport:
    """Return the transport of the first URL's scheme; nothing is connected yet.

    Raises ConfigurationError, and KeyError for a scheme that no transport has.
    """
    scheme = find_scheme(options.urls[0])
    try:
        made: Transport = import_module(TRANSPORTS[scheme]).make_transport(options)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(scheme, "the client library that Kombu needs for it")
        problem = f"broker.url: {scheme}:// needs what is not installed ({error}): {extra}"
        raise ConfigurationError([problem]) from error
    return made

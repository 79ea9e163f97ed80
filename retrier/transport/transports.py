"""The transports by the scheme of a broker's URL; to add one, add a package and a line here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from random import Random
from types import MappingProxyType

from retrier.transport.seam import QueueKind, Transport

TRANSPORTS: Mapping[str, str] = MappingProxyType(
    {
        "amqp": "retrier.transport.rabbitmq",
        "amqps": "retrier.transport.rabbitmq",
        "embedded": "retrier.transport.embedded",
        "redis": "retrier.transport.redis",
        "rediss": "retrier.transport.redis",
        "sentinel": "retrier.transport.redis",
    }
)
"""Each package has a function `make_transport`. It is imported only when it is needed:
loading a client library takes longer than most commands."""


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


def make_transport(options: TransportOptions) -> Transport:
    """Return the transport of the first URL's scheme; nothing is connected yet.

    Raises ConfigurationError, and KeyError for a scheme that no transport has.
    """
    scheme, _, _ = options.urls[0].partition(":")
    made: Transport = import_module(TRANSPORTS[scheme.lower()]).make_transport(options)
    return made

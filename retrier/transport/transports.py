"""The transports by the scheme of a broker's URL; to add one, add a package and a line here."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from importlib import import_module
from random import Random
from types import MappingProxyType

from retrier.domain.parameters import nearest
from retrier.domain.values import dataclass
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
        "sqs": "retrier.transport.sqs",
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
    {"redis": _REDIS, "rediss": _REDIS, "sentinel": _REDIS, "sqs": "pip install 'retrier[sqs]'"}
)
"""How to install the client library that a scheme needs, where Retrier itself does not."""


_OF_ALL = (
    "body_encoding",
    "deadletter_queue",
    "interval_max",
    "interval_start",
    "interval_step",
    "max_retries",
    "polling_interval",
)
"""Transport options that each of Kombu's own queues on a database or in files knows."""
OF_REDIS = (
    "visibility_timeout",
    "master_name",
    "client_name",
    "global_keyprefix",
    "health_check_interval",
    "max_connections",
    "min_other_sentinels",
    "priority_steps",
    "sentinel_kwargs",
    "sep",
    "socket_connect_timeout",
    "socket_keepalive",
    "socket_timeout",
)
"""Kombu's transport options that have a meaning on Redis. Others are about Kombu's own way to consume."""
OPTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "redis": OF_REDIS,
        "rediss": OF_REDIS,
        "sentinel": OF_REDIS,
        "filesystem": (
            "control_folder",
            "data_folder_in",
            "data_folder_out",
            "processed_folder",
            "store_processed",
            *_OF_ALL,
        ),
        "mongodb": (
            "broadcast_collection",
            "calc_queue_size",
            "capped_queue_size",
            "connect_timeout",
            "default_database",
            "default_hostname",
            "default_port",
            "messages_collection",
            "queues_collection",
            "routing_collection",
            "ssl",
            "ttl",
            *_OF_ALL,
        ),
        "pgmq": (
            "conn_string",
            "fifo_mode",
            "init_extension",
            "max_poll_seconds",
            "notify_throttle_interval_ms",
            "poll_interval_ms",
            "pool_size",
            "pool_timeout",
            "queue_name_prefix",
            "use_notify",
            "visibility_timeout",
            "wait_time_seconds",
            *_OF_ALL,
        ),
    }
)
"""The transport options by scheme; those of Kombu's other brokers as Kombu 5.7 reads them: it ignores others.

Those of `sqla` go to SQLAlchemy, which refuses what it does not know.
"""


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


def why_not_known(scheme: str, option: str) -> str | None:
    """Return why a transport option does nothing with a broker of this scheme; None if it may."""
    known = OPTIONS.get(scheme)
    if known is None or option in known:
        return None
    near = nearest(option, frozenset(known))
    hint = "" if near is None else f" (perhaps {near} is meant)"
    broker = "Redis" if known is OF_REDIS else f"Kombu's {scheme}"
    return f"has no meaning with {broker}{hint}; known are {', '.join(known)}"


def refuse_unknown_options(scheme: str, options: Iterable[str]) -> None:
    """Raise ConfigurationError for transport options that do nothing with a broker of this scheme."""
    told = ((name, why_not_known(scheme, name)) for name in options)
    if wrong := [f"transport_options.{name}: {why}" for name, why in told if why is not None]:
        raise ConfigurationError(wrong)


def make_transport(options: TransportOptions) -> Transport:
    """Return the transport of the first URL's scheme; nothing is connected yet.

    Raises ConfigurationError, and KeyError for a scheme that no transport has.
    """
    scheme = find_scheme(options.urls[0])
    refuse_unknown_options(scheme, options.kombu)
    try:
        made: Transport = import_module(TRANSPORTS[scheme]).make_transport(options)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(scheme, "the client library that Kombu needs for it")
        problem = f"broker.url: {scheme}:// needs what is not installed ({error}): {extra}"
        raise ConfigurationError([problem]) from error
    return made

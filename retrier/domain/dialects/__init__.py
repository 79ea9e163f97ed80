"""The dialects Retrier understands, in the order in which they are tried."""

from functools import lru_cache

from retrier.domain.dialects.dialect import Dialect
from retrier.domain.dialects.nservicebus import NServiceBusDialect
from retrier.domain.dialects.rabbitmq import RabbitMqDialect
from retrier.domain.dialects.retrier import RetrierDialect
from retrier.domain.headers import BROKER_COUNTERS
from retrier.domain.wire import Properties

RETRIER = RetrierDialect()
RABBITMQ = RabbitMqDialect()

BY_CONSUMERS: tuple[Dialect, ...] = (NServiceBusDialect(), RETRIER)
"""Written by the consumer that gave the message up. They are tried first: they name the error."""

DIALECTS: tuple[Dialect, ...] = (*BY_CONSUMERS, RABBITMQ)


def by_name(name: str) -> Dialect | None:
    """Return the dialect of that name."""
    return next((dialect for dialect in DIALECTS if dialect.name == name), None)


def recognise(properties: Properties, forced: str | None = None) -> Dialect | None:
    """Return the dialect of a message: the forced one, else the first that recognises it."""
    if forced is not None:
        return by_name(forced)
    return next((each for each in DIALECTS if each.recognises(properties.headers)), None)


def written_by_consumer(properties: Properties) -> bool:
    """Say whether a consumer wrote failure headers on the message."""
    return any(dialect.recognises(properties.headers) for dialect in BY_CONSUMERS)


@lru_cache(maxsize=4096)
def strips(dialect: str, header: str) -> bool:
    """Say whether a retry must not carry the header: one of the dialect's or of the broker's.

    The broker writes headers on messages of every dialect, and middleware keeps them.
    The result is cached: there are many messages, but few header names.
    """
    known = by_name(dialect)
    by_broker = header in BROKER_COUNTERS or RABBITMQ.strips(header)
    return by_broker or (known is not None and known.strips(header))

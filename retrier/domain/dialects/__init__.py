"""The dialects Retrier understands, in the order in which they are tried."""

from functools import lru_cache

from retrier.domain.dialects.accounts import BY_CONSUMERS
from retrier.domain.dialects.celery import CeleryDialect
from retrier.domain.dialects.dialect import Dialect
from retrier.domain.dialects.dramatiq import SUFFIX, DramatiqDialect
from retrier.domain.dialects.rabbitmq import RabbitMqDialect
from retrier.domain.headers import BROKER_COUNTERS, OF_WORKERS
from retrier.domain.wire import Properties

RETRIER = BY_CONSUMERS[-1]
RABBITMQ = RabbitMqDialect()
DRAMATIQ = DramatiqDialect()

DIALECTS: tuple[Dialect, ...] = (*BY_CONSUMERS, DRAMATIQ, CeleryDialect(), RABBITMQ)


_OF_OTHER_QUEUES = tuple(each for each in DIALECTS if each is not DRAMATIQ)


def by_name(name: str) -> Dialect | None:
    """Return the dialect of that name."""
    return next((dialect for dialect in DIALECTS if dialect.name == name), None)


def recognise(properties: Properties, forced: str | None = None, queue: str = "") -> Dialect | None:
    """Return the dialect of a message: the forced one, else the first that recognises it.

    `queue` is the error queue: those of Dramatiq have names of their own, and no headers.
    """
    if forced is not None:
        return by_name(forced)
    headers = properties.headers
    for each in DIALECTS if queue.endswith(SUFFIX) else _OF_OTHER_QUEUES:
        if each.recognises(headers):
            return each
    return None


def written_by_consumer(properties: Properties) -> bool:
    """Say whether a consumer wrote failure headers on the message."""
    return any(dialect.recognises(properties.headers) for dialect in BY_CONSUMERS)


@lru_cache(maxsize=4096)
def strips(dialect: str, header: str) -> bool:
    """Say whether a retry must not carry the header: of the dialect, the broker, or a worker.

    Those write headers on messages of every dialect, and middleware keeps them.
    The result is cached: there are many messages, but few header names.
    """
    known = by_name(dialect)
    by_others = header in BROKER_COUNTERS or header in OF_WORKERS or RABBITMQ.strips(header)
    return by_others or (known is not None and known.strips(header))

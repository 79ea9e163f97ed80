"""The dialects Retrier understands, in the order in which they are tried."""

from collections.abc import Sequence
from functools import lru_cache

from retrier.domain.dialects.accounts import BY_CONSUMERS
from retrier.domain.dialects.caf import CafDialect
from retrier.domain.dialects.celery import CeleryDialect
from retrier.domain.dialects.dialect import Dialect, Original
from retrier.domain.dialects.dramatiq import SUFFIX, DramatiqDialect
from retrier.domain.dialects.easynetq import EasyNetQDialect
from retrier.domain.dialects.faststream import FastStreamDialect
from retrier.domain.dialects.laravel import LaravelDialect
from retrier.domain.dialects.masstransit import MassTransitDialect
from retrier.domain.dialects.nestjs import NestJsDialect
from retrier.domain.dialects.rabbitmq import DEATHS, RabbitMqDialect
from retrier.domain.dialects.rebus import RebusDialect
from retrier.domain.dialects.spring import SpringDialect
from retrier.domain.dialects.sqs import SqsDialect
from retrier.domain.dialects.symfony import SymfonyDialect
from retrier.domain.dialects.taskiq import TaskiqDialect
from retrier.domain.dialects.watermill import WatermillDialect
from retrier.domain.headers import BROKER_COUNTERS, OF_WORKERS, is_among
from retrier.domain.wire import Properties

RETRIER = BY_CONSUMERS[-1]
RABBITMQ = RabbitMqDialect()
DRAMATIQ = DramatiqDialect()
EASYNETQ = EasyNetQDialect()
SYMFONY = SymfonyDialect()
SQS = SqsDialect()

ENVELOPES: tuple[Dialect, ...] = (EASYNETQ, SYMFONY, SQS)
"""What came is no message of the sender, or not it alone: that stands inside."""

BY_LIBRARIES: tuple[Dialect, ...] = (
    MassTransitDialect(),
    SpringDialect(),
    SYMFONY,
    RebusDialect(),
    WatermillDialect(),
    EASYNETQ,
    CafDialect(),
)
"""Written by a library that publishes what it gave up; tried before what the broker wrote."""

BY_THE_BROKER: tuple[Dialect, ...] = (
    DRAMATIQ,
    CeleryDialect(),
    LaravelDialect(),
    TaskiqDialect(),
    NestJsDialect(),
    FastStreamDialect(),
    RABBITMQ,
    SQS,
)
"""The broker wrote that it failed; whose message it was is said elsewhere."""

DIALECTS: tuple[Dialect, ...] = (*BY_CONSUMERS, *BY_LIBRARIES, *BY_THE_BROKER)


BUILT_IN: tuple[str, ...] = tuple(each.name for each in DIALECTS)
"""Names of all that need no settings."""

_OF_OTHER_QUEUES = tuple(each for each in DIALECTS if each is not DRAMATIQ)
_ON_SQS = tuple(each for each in DIALECTS if each.mark != DEATHS)
"""Without those that read what RabbitMQ writes, a list: on SQS it is an attribute of the sender's."""


def by_name(name: str) -> Dialect | None:
    """Return the dialect of that name."""
    return next((dialect for dialect in DIALECTS if dialect.name == name), None)


def recognise(
    properties: Properties,
    forced: str | None = None,
    queue: str = "",
    body: bytes = b"",
    own: Sequence[Dialect] = (),
) -> Dialect | None:
    """Return the dialect of a message: the forced one, else the first that recognises it.

    `queue` is the error queue: those of Dramatiq have names of their own, and no headers. `own` are
    those of the settings, which come first: somebody has said what is meant.
    """
    if forced is not None:
        return next((each for each in own if each.name == forced), None) or by_name(forced)
    for each in own:
        if each.recognises(properties, body):
            return each
    tried = DIALECTS if queue.endswith(SUFFIX) else _OF_OTHER_QUEUES
    if SQS.mark in properties.headers and not isinstance(properties.headers.get(DEATHS), list):
        tried = _ON_SQS
    for each in tried:
        if each.recognises(properties, body):
            return each
    return None


def written_by_consumer(properties: Properties) -> bool:
    """Say whether a consumer, or its library, wrote failure headers on the message."""
    return any(each.recognises(properties) for each in (*BY_CONSUMERS, *BY_LIBRARIES))


def open_envelope(properties: Properties, body: bytes) -> Original | None:
    """Return the message inside an error envelope of any dialect; None if this is none."""
    for each in ENVELOPES:
        if each.recognises(properties, body):
            return each.unwrap(properties, body)
    return None


def unwrap(dialect: str, properties: Properties, body: bytes) -> Original | None:
    """Return the message inside an envelope of that dialect; None if what came is the message."""
    known = next((each for each in ENVELOPES if each.name == dialect), None)
    return known.unwrap(properties, body) if known else None


@lru_cache(maxsize=4096)
def strips(dialect: str, header: str) -> bool:
    """Say whether a retry must not carry the header: of any dialect, the broker, or a worker.

    Middleware keeps headers that it does not know, so a message may have those of several. A name
    that other programs use too counts only if `dialect` read the message.
    The result is cached: there are many messages, but few header names.
    """
    if header in BROKER_COUNTERS or header in OF_WORKERS:
        return True
    if any(each.strips(header) for each in DIALECTS):
        return True
    known = by_name(dialect)
    return known is not None and is_among(header, known.declared.removes_own)


_STRIPPED = (*BROKER_COUNTERS, *OF_WORKERS)


@lru_cache(maxsize=4096)
def strips_in_any_case(dialect: str, header: str) -> bool:
    """Say the same of what a person sets: a header that differs in case alone is not set either.

    AMQP tells such names apart, and many libraries do not.
    """
    removed = (pattern for each in DIALECTS for pattern in each.declared.removes)
    return strips(dialect, header) or is_among(header, (*_STRIPPED, *removed))


@lru_cache(maxsize=4096)
def varies(header: str) -> bool:
    """Say whether a library changes the header when the message fails again."""
    return any(
        each.strips(header)
        or is_among(
            header, (*each.declared.varies, *each.declared.removes, *each.declared.removes_own)
        )
        for each in DIALECTS
    )

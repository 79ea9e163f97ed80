"""Why a server does not let us in: whose turn it is, in words and as a kind of error."""

from datetime import timedelta

import psycopg
import pytest
from amqp.exceptions import AMQPError, NotAllowed
from sqlalchemy.exc import OperationalError

from retrier.errors import (
    AccessRefused,
    BrokerUnavailable,
    ConnectionLimit,
    DatabaseRefused,
    DatabaseUnavailable,
)
from retrier.store.engine.refusals import Translator
from retrier.transport.rabbitmq.address import parse_address
from retrier.transport.rabbitmq.connection import translate_refused_entry

BROKER = parse_address("amqp://broker.example")
TRANSLATOR = Translator(place="db.example/shop", answer_limit=timedelta(seconds=5))
LIMITS = [
    "NOT_ALLOWED - connection refused for user 'lim': user connection limit (1) is reached",
    "NOT_ALLOWED - access to vhost '/' refused for user 'lim': connection limit (1) is reached",
    "NOT_ALLOWED - channels opened for 'lim' have reached the maximum allowed user limit of (1)",
    "NOT_ALLOWED - connection refused: node connection limit (1) is reached",
]
"""What RabbitMQ 3.10 to 4.3 say."""
VIRTUAL_HOSTS = [
    "NOT_ALLOWED - vhost shop not found",
    "NOT_ALLOWED - access to vhost 'shop' refused for user 'lim'",
]


def enter_broker(words: str) -> BrokerUnavailable:
    error: AMQPError = NotAllowed(words, (10, 40), "Connection.open")
    return translate_refused_entry(error, BROKER)


@pytest.mark.parametrize("words", LIMITS)
def test_a_limit_of_the_broker_is_no_fault_of_the_virtual_host(words: str) -> None:
    error = enter_broker(words)

    assert isinstance(error, ConnectionLimit)
    assert not isinstance(error, AccessRefused)  # a later try may succeed
    assert str(error).startswith("the broker at broker.example:5672 takes no more: 530 NOT_ALLOWED")
    assert "virtual host" not in str(error)


@pytest.mark.parametrize("words", VIRTUAL_HOSTS)
def test_a_virtual_host_that_is_refused_is_told_so(words: str) -> None:
    error = enter_broker(words)

    assert isinstance(error, AccessRefused)
    assert "refuses the virtual host" in str(error)


def enter_database(words: str) -> DatabaseUnavailable:
    error = OperationalError(None, None, psycopg.OperationalError(words))  # type: ignore[arg-type]
    translated = TRANSLATOR.translate(error)
    assert isinstance(translated, DatabaseUnavailable)
    return translated


@pytest.mark.parametrize(
    "words",
    [
        'FATAL:  password authentication failed for user "ada"',
        'FATAL:  role "ada" does not exist',
        'FATAL:  role "ada" is not permitted to log in',
        'FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "ada", database "shop", no encryption',
        'FATAL:  permission denied for database "shop"',
        "FATAL:  unsupported startup parameter: options",
        "SSL error: certificate verify failed",
        "SSL error: ssl/tls alert certificate expired",
        'server certificate for "other" does not match host name "db.example"',
        'root certificate file "/root/.postgresql/root.crt" does not exist',
    ],
)
def test_what_a_person_has_to_change_is_one_kind(words: str) -> None:
    assert isinstance(enter_database(words), DatabaseRefused)


@pytest.mark.parametrize(
    "words",
    [
        "FATAL:  sorry, too many clients already",
        'FATAL:  too many connections for role "ada"',
        "FATAL:  the database system is starting up",
        "FATAL:  the database system is shutting down",
        "connection refused",
        "FATAL:  query_wait_timeout",
    ],
)
def test_where_a_later_try_may_succeed_it_is_another(words: str) -> None:
    assert not isinstance(enter_database(words), DatabaseRefused)


def test_a_limit_of_the_database_is_told_with_what_a_process_needs() -> None:
    error = enter_database('FATAL:  too many connections for role "ada"')

    assert "refused: too many connections for role" in str(error)
    assert "a process opens up to 20 connections" in str(error)

"""Finds the servers the tests talk to: named by the environment, local, or in a container."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pika
import pika.exceptions
import psycopg
import pytest
import redis
import redis.exceptions

REQUIRE_SERVICES = "RETRIER_REQUIRE_SERVICES"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A server the tests need, and the ways to come by one."""

    name: str
    variable: str
    local_url: str
    answers: Callable[[str], bool]
    contained: Callable[[], AbstractContextManager[str]]


@contextmanager
def found(service: Service) -> Iterator[str]:
    """Give the URL of a running server; skip aloud, or fail if services are required."""
    named = os.environ.get(service.variable)
    if named:
        yield named
    elif service.answers(service.local_url):
        yield service.local_url
    elif _docker_answers():
        with service.contained() as url:
            yield url
    else:
        give_up(f"no {service.name}: {service.variable} is unset, {service.local_url} is silent")


def give_up(reason: str) -> None:
    """Skip, or fail where a skip would hide that nothing was tested."""
    if os.environ.get(REQUIRE_SERVICES) == "1":
        pytest.fail(f"{reason}, and {REQUIRE_SERVICES}=1", pytrace=False)
    pytest.skip(reason)


def pika_connection(url: str) -> pika.BlockingConnection:
    """Connect as somebody else's client would: the other side of every test."""
    parts = urlsplit(url)
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            host=parts.hostname or "127.0.0.1",
            port=parts.port or 5672,
            virtual_host=unquote(parts.path[1:]) or "/",
            credentials=pika.PlainCredentials(
                unquote(parts.username or "guest"), unquote(parts.password or "guest")
            ),
            blocked_connection_timeout=30,
            socket_timeout=5,
        )
    )


def psycopg_url(url: str) -> str:
    """Turn SQLAlchemy's URL into the one psycopg reads."""
    return url.replace("+psycopg", "", 1)


def _rabbitmq_answers(url: str) -> bool:
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname, parts.port or 5672), timeout=3).close()
        pika_connection(url).close()
    except (pika.exceptions.AMQPError, OSError):
        return False
    return True


def _postgres_answers(url: str) -> bool:
    try:
        psycopg.connect(psycopg_url(url), connect_timeout=3).close()
    except psycopg.OperationalError:
        return False
    return True


def _redis_answers(url: str) -> bool:
    try:
        with closing(redis.Redis.from_url(url, socket_connect_timeout=3)) as client:
            client.ping()
    except (redis.exceptions.RedisError, OSError):
        return False
    return True


def _docker_answers() -> bool:
    if "DOCKER_HOST" not in os.environ and not Path("/var/run/docker.sock").exists():
        return False
    try:
        import docker  # noqa: PLC0415 - only where no server was found
    except ImportError:
        return False
    try:
        docker.from_env(timeout=3).ping()
    except (docker.errors.DockerException, OSError):
        return False
    return True


@contextmanager
def _contained_rabbitmq() -> Iterator[str]:
    from testcontainers.rabbitmq import RabbitMqContainer  # noqa: PLC0415 - only with Docker

    with RabbitMqContainer("rabbitmq:4") as server:
        host, port = server.get_container_host_ip(), server.get_exposed_port(5672)
        yield f"amqp://guest:guest@{host}:{port}//"


@contextmanager
def _contained_postgres() -> Iterator[str]:
    from testcontainers.postgres import PostgresContainer  # noqa: PLC0415 - only with Docker

    with PostgresContainer("postgres:17", driver="psycopg") as server:
        yield server.get_connection_url()


@contextmanager
def _contained_redis() -> Iterator[str]:
    from testcontainers.redis import RedisContainer  # noqa: PLC0415 - only with Docker

    with RedisContainer("redis:7") as server:
        yield f"redis://{server.get_container_host_ip()}:{server.get_exposed_port(6379)}/0"


REDIS = Service(
    name="Redis",
    variable="RETRIER_TEST_REDIS_URL",
    local_url="redis://127.0.0.1:6379/0",
    answers=_redis_answers,
    contained=_contained_redis,
)
RABBITMQ = Service(
    name="RabbitMQ",
    variable="RETRIER_TEST_AMQP_URL",
    local_url="amqp://guest:guest@127.0.0.1:5672//",
    answers=_rabbitmq_answers,
    contained=_contained_rabbitmq,
)
POSTGRES = Service(
    name="PostgreSQL",
    variable="RETRIER_TEST_POSTGRES_URL",
    local_url="postgresql+psycopg://postgres@127.0.0.1:5432/postgres",
    answers=_postgres_answers,
    contained=_contained_postgres,
)

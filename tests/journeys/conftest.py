"""A shop, a database and a host for the service: everything as a user would have it.

The services at a site are forked, as each of them would import for longer than most journeys last,
and find their database upgraded. Journeys about the start of a process start the command itself;
those without any settings begin with no database.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copyfile
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.pool import NullPool

from tests.support.adding_up import assert_all_adds_up
from tests.support.databases import path_of, sqlite_url, temporary_postgres
from tests.support.embedded_shop import opened_embedded_shop
from tests.support.forked_service import ForkingHost
from tests.support.redis_shop import opened_redis_shop
from tests.support.service import Host, hosted
from tests.support.shop import opened_shop

RABBITMQ_AND_POSTGRES = [pytest.mark.rabbitmq, pytest.mark.postgres]
QUORUM = pytest.param("quorum", marks=RABBITMQ_AND_POSTGRES)
ON_BOTH_BROKERS = pytest.mark.parametrize("kind", [QUORUM, "embedded"])
"""For journeys that measure time, and run alone one after the other."""
ON_EVERY_KIND = pytest.mark.parametrize(
    "kind",
    [
        pytest.param("classic", marks=RABBITMQ_AND_POSTGRES),
        QUORUM,
        "embedded",
        pytest.param("redis", marks=pytest.mark.postgres),
    ],
)
"""For the main job: classic queues and Redis, too."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where one journey takes place. `shop` is a Shop or an EmbeddedShop."""

    shop: Any
    host: Host
    database_url: str
    staging_queue: str
    _engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_engine", _open_engine(self.database_url))

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Look into the database, as an operator would."""
        with self._engine.connect() as conn:
            return [tuple(row) for row in conn.execute(text(sql))]

    def count(self, sql: str) -> int:
        """Return the number a query answers with."""
        return int(self.query(sql)[0][0])

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()


def _open_engine(url: str) -> Engine:
    if url.startswith("sqlite"):
        return create_engine(url, poolclass=NullPool)
    # Who waits asks again and again: a connection for each would take longer than the answer.
    return create_engine(url, isolation_level="AUTOCOMMIT", pool_pre_ping=True)


@pytest.fixture(
    params=[
        pytest.param("classic", marks=[*RABBITMQ_AND_POSTGRES, pytest.mark.kills]),
        QUORUM,
        "embedded",
    ]
)
def kind(request: pytest.FixtureRequest) -> str:
    """Name the broker of the journey: RabbitMQ with queues of one type, or the embedded one.

    Classic queues only with `-m kills`: what differs between the two types is the transport's, and
    its contract is held on both.

    Of the other two most journeys have one each time, always the same: tests/support/turns.py.
    """
    return str(request.param)


@pytest.fixture
def site(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """Give a site on RabbitMQ and PostgreSQL, or on the embedded default; nothing runs yet."""
    match kind:
        case "embedded":
            make = _upgraded_embedded_site(request, tmp_path)
        case "redis":
            make = _redis_site(request, tmp_path)
        case _:
            make = _server_site(kind, request, tmp_path)
    with make as site:
        yield site


@contextmanager
def _server_site(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[Site]:
    amqp_url: str = request.getfixturevalue("amqp_url")
    queue_name: Callable[..., str] = request.getfixturevalue("queue_name")
    instance = queue_name("instance")
    postgres = temporary_postgres(
        request.getfixturevalue("postgres_url"), request.getfixturevalue("upgraded_postgres")
    )
    with postgres as url, opened_shop(amqp_url, queue_name, kind) as shop:
        settings = {
            "instance": instance,
            "broker": {"url": amqp_url, "staging_queue_type": kind},
            "database": {"url": url},
            "ingestion": {"error_queues": [shop.error]},
            "api": {"port": 0},
        }
        staging_queue = f"{instance}.staging"
        with (
            hosted(folder, settings, ForkingHost) as host,
            closing(Site(shop, host, url, staging_queue)) as site,
        ):
            yield site
        assert_all_adds_up(host.config)
        # Only now: a service that still runs would declare it again.
        shop.delete(staging_queue)


@contextmanager
def _redis_site(request: pytest.FixtureRequest, folder: Path) -> Iterator[Site]:
    redis_url: str = request.getfixturevalue("redis_url")
    instance = f"test.journeys.{uuid4().hex[:12]}"
    postgres = temporary_postgres(
        request.getfixturevalue("postgres_url"), request.getfixturevalue("upgraded_postgres")
    )
    with (
        postgres as url,
        opened_redis_shop(redis_url, lambda queue: f"{instance}.{queue}", instance) as shop,
    ):
        settings = {
            "instance": instance,
            "broker": {"url": redis_url},
            "database": {"url": url},
            "ingestion": {"error_queues": [shop.error]},
            "api": {"port": 0},
        }
        with (
            hosted(folder, settings, ForkingHost) as host,
            closing(Site(shop, host, url, f"{instance}.staging")) as site,
        ):
            yield site
        assert_all_adds_up(host.config)


@contextmanager
def _upgraded_embedded_site(request: pytest.FixtureRequest, folder: Path) -> Iterator[Site]:
    with embedded_site(folder) as site:
        copyfile(request.getfixturevalue("upgraded_sqlite"), path_of(site.database_url))
        yield site


@contextmanager
def embedded_site(folder: Path) -> Iterator[Site]:
    """Open a site on the embedded default; nothing runs yet."""
    broker = f"embedded:///{folder}/broker.db"
    url = sqlite_url(folder)
    with opened_embedded_shop(broker) as shop:
        settings = {
            "broker": {"url": broker},
            "database": {"url": url},
            "ingestion": {"error_queues": [shop.error]},
            "api": {"port": 0},
        }
        with (
            hosted(folder, settings, ForkingHost) as host,
            closing(Site(shop, host, url, "retrier.staging")) as site,
        ):
            yield site
        assert_all_adds_up(host.config)

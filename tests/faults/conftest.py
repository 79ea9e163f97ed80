"""Servers of the test run's own, a site on them, the work on it, and a table of what was measured."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pika.exceptions
import pytest

from tests.faults.beginning import begin_work
from tests.faults.work import PREFETCH, WINDOW, Figures, Work
from tests.journeys.conftest import Site
from tests.support.adding_up import assert_all_adds_up
from tests.support.private_servers import (
    PrivatePostgres,
    PrivateRabbitMQ,
    private_postgres,
    private_rabbitmq,
)
from tests.support.servers import pika_connection
from tests.support.service import hosted
from tests.support.shop import Shop
from tests.support.tcp_proxy import TcpProxy

FIGURES = pytest.StashKey[list[Figures]]()
Begin = Callable[[Site], Work]
STAGING_RATE = 30_000
"""Bytes a second: staging lasts long enough for a fault to fall into it."""


@pytest.fixture(scope="session")
def broker() -> Iterator[PrivateRabbitMQ]:
    """Give a RabbitMQ node that a test may do anything to."""
    with private_rabbitmq() as server:
        yield server


@pytest.fixture(scope="session")
def cluster() -> Iterator[PrivatePostgres]:
    """Give a PostgreSQL cluster that a test may do anything to."""
    with private_postgres() as server:
        yield server


@pytest.fixture
def line(broker: PrivateRabbitMQ) -> Iterator[TcpProxy]:
    """Give a line to the broker that a test may do anything to."""
    with TcpProxy(broker.url) as proxy:
        yield proxy


@pytest.fixture
def database_url(cluster: PrivatePostgres) -> str:
    """Give a new database."""
    return cluster.create_database()


@pytest.fixture
def database_line(database_url: str) -> Iterator[TcpProxy]:
    """Give a line to the database that a test may do anything to."""
    with TcpProxy(database_url) as proxy:
        yield proxy


@pytest.fixture
def kind() -> str:
    """Name the type of all queues; a test that matters for both asks for both."""
    return "quorum"


@pytest.fixture
def site(broker: PrivateRabbitMQ, database_url: str, kind: str, tmp_path: Path) -> Iterator[Site]:
    """Give a site on both; nothing runs yet."""
    with open_site(Roads(broker.url, database_url), tmp_path, kind) as site:
        yield site


@pytest.fixture
def site_by_line(
    broker: PrivateRabbitMQ, database_url: str, line: TcpProxy, kind: str, tmp_path: Path
) -> Iterator[Site]:
    """Give a site whose service reaches the broker by the line."""
    roads = Roads(broker.url, database_url, service_broker=line.url)
    with open_site(roads, tmp_path, kind) as site:
        yield site


@pytest.fixture
def site_by_database_line(
    broker: PrivateRabbitMQ, database_url: str, database_line: TcpProxy, tmp_path: Path
) -> Iterator[Site]:
    """Give a site whose service reaches the database by the line."""
    roads = Roads(broker.url, database_url, service_database=database_line.url)
    with open_site(roads, tmp_path) as site:
        yield site


@pytest.fixture
def begin(broker: PrivateRabbitMQ, request: pytest.FixtureRequest) -> Iterator[Begin]:
    """Give what begins the work on a site; what was measured of it is kept for the table."""
    begun: list[Work] = []

    def make(site: Site) -> Work:
        begun.append(begin_work(site, broker.url, request.node.name))
        return begun[-1]

    yield make
    request.config.stash.setdefault(FIGURES, []).extend(work.figures for work in begun)


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Figures:
    """Give what is to be measured of a fault that brings work of its own."""
    figures = Figures(name=request.node.name)
    request.config.stash.setdefault(FIGURES, []).append(figures)
    return figures


@pytest.fixture
def work(site_by_line: Site, line: TcpProxy, begin: Begin, stage: str) -> Work:
    """Give work in the middle of the stage; while it is staging the line is slow."""
    work = begin(site_by_line)
    line.throttle(STAGING_RATE if stage == "staging" else None)
    work.wait_for(stage)
    return work


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print a table of the faults: what a run proves is in these figures."""
    figures = config.stash.get(FIGURES, [])
    if not figures:
        return
    terminalreporter.section("faults of servers")
    row = "{:11} {:>10} {:>7} {:>6} {:>5}  {}".format
    terminalreporter.line(row("stage", "recovery", "doubled", "cpu", "lines", "fault"))
    for each in figures:
        cpu = "-" if each.cpu_share is None else f"{each.cpu_share:.2f}"
        recovery = f"{each.recovery:.1f} s"
        terminalreporter.line(row(each.stage, recovery, each.doubled, cpu, each.lines, each.name))


@dataclass(frozen=True, slots=True)
class Roads:
    """Where broker and database are, and by which lines the service reaches them."""

    broker: str
    database: str
    service_broker: str | list[str] | None = None
    service_database: str | None = None


@contextmanager
def open_site(roads: Roads, folder: Path, kind: str = "quorum") -> Iterator[Site]:
    """Give a site with new queues on the node and this database; in the end all must add up."""

    def name(prefix: str) -> str:
        return f"test.{prefix}.{uuid4().hex[:12]}"

    instance = name("instance")
    with opened_shop(roads.broker, name, kind) as shop:
        settings = {
            "instance": instance,
            "broker": {"url": roads.service_broker or roads.broker, "staging_queue_type": kind},
            "database": {"url": roads.service_database or roads.database},
            "ingestion": {"error_queues": [shop.error], "prefetch": PREFETCH},
            "retries": {"forwarding_window": WINDOW},
            "api": {"port": 0},
        }
        with (
            hosted(folder, settings) as host,
            closing(Site(shop, host, roads.database, f"{instance}.staging")) as site,
        ):
            yield site
        assert_all_adds_up(host.config)


@contextmanager
def opened_shop(url: str, name: Callable[[str], str], kind: str) -> Iterator[Shop]:
    """Open a shop; a fault may break its connection, and the test make another."""
    connection = pika_connection(url)
    shop = Shop(connection.channel(), name, kind)
    shop.channel = connection.channel()  # without confirms: quicker, and the depth is looked at
    try:
        yield shop
    finally:
        with suppress(pika.exceptions.AMQPError, OSError):
            shop.channel.connection.close()

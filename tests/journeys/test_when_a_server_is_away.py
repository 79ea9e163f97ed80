"""Broker or database out of reach at start: one clear line, a reason in /health/ready, recovery."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import make_url

from tests.support.databases import sqlite_url, temporary_postgres
from tests.support.forked_service import ForkingHost
from tests.support.metrics import Scrape
from tests.support.service import Service, hosted
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.rabbitmq, pytest.mark.postgres]


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Give a port on which nothing listens, and that nobody is given until the test is over."""
    with kept_port() as port:
        yield port


@contextmanager
def kept_port() -> Iterator[int]:
    """Keep a port without listening on it; a proxy that is told to may."""
    with socket.socket() as keeper:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind(("127.0.0.1", 0))
        yield int(keeper.getsockname()[1])


def lines(service: Service, event: str) -> list[dict[str, Any]]:
    return [line for line in service.logged if line.get("event") == event]


def test_a_broker_that_is_away_is_told_once_and_waited_for(
    amqp_url: str, queue_name: Callable[..., str], closed_port: int, tmp_path: Path
) -> None:
    # Given a service whose broker does not listen
    settings = {
        "instance": queue_name("instance"),
        "broker": {"url": f"amqp://guest:guest@127.0.0.1:{closed_port}//"},
        "database": {"url": sqlite_url(tmp_path)},
        "ingestion": {"error_queues": [queue_name("error")], "declare_missing": True},
        "api": {"port": 0},
    }
    with hosted(tmp_path, settings, ForkingHost) as host:
        service = host.start()
        with service.http as http:
            # Then it says so once, with host and reason, and is not ready
            wait_until(lambda: lines(service, "broker.unreachable"), 30)
            answer = http.get("/health/ready")
            assert answer.status_code == 503
            assert f"127.0.0.1:{closed_port}" in answer.text
            assert "refused" in answer.text
            assert http.get("/health").status_code == 200

            # When the broker comes, then it is ready by itself
            with TcpProxy(amqp_url, closed_port):
                wait_until(lambda: http.get("/health/ready").status_code == 200, 30)
        assert len(lines(service, "broker.unreachable")) == 1
        assert lines(service, "broker.reached")
        service.kill()


def test_a_database_that_is_away_is_told_once_and_waited_for(
    amqp_url: str,
    postgres_url: str,
    queue_name: Callable[..., str],
    closed_port: int,
    tmp_path: Path,
) -> None:
    with temporary_postgres(postgres_url) as url:
        settings = {
            "instance": queue_name("instance"),
            "broker": {"url": amqp_url},
            "database": {
                "url": make_url(url)
                .set(host="127.0.0.1", port=closed_port)
                .render_as_string(hide_password=False)
            },
            "ingestion": {"error_queues": [queue_name("error")], "declare_missing": True},
            "api": {"port": 0},
        }
        with hosted(tmp_path, settings, ForkingHost) as host:
            service = host.start()
            with service.http as http:
                wait_until(lambda: lines(service, "database.unreachable"), 30)
                answer = http.get("/health/ready")
                assert answer.status_code == 503
                assert f"127.0.0.1:{closed_port}" in answer.text
                assert http.get("/api/errors").status_code == 503

                with TcpProxy(url, closed_port):
                    wait_until(lambda: http.get("/health/ready").status_code == 200, 30)
                    assert http.get("/api/errors").json() == []
                    service.kill()
            assert len(lines(service, "database.unreachable")) == 1


def test_a_frozen_database_is_told_in_time(
    amqp_url: str, postgres_url: str, queue_name: Callable[..., str], tmp_path: Path
) -> None:
    # Given a service that works
    with temporary_postgres(postgres_url) as url, TcpProxy(url) as proxy:
        settings = {
            "instance": queue_name("instance"),
            "broker": {"url": amqp_url},
            "database": {"url": proxy.url},
            "ingestion": {"error_queues": [queue_name("error")], "declare_missing": True},
            "api": {"port": 0},
        }
        with hosted(tmp_path, settings, ForkingHost) as host, host.start_ready().http as http:
            assert database_up(http) == 1

            # When its database neither answers nor refuses
            proxy.freeze()

            # Then it is not ready and says why, and a scrape shows it; it is alive all the same
            answer = http.get("/health/ready", timeout=20)
            assert answer.status_code == 503
            assert "not answered" in answer.json()["parts"]["database"]["reason"]
            assert http.get("/health", timeout=20).status_code == 200
            wait_until(lambda: database_up(http) == 0, 30)

            # When it is back, then the service is ready by itself
            proxy.cut()
            wait_until(lambda: http.get("/health/ready").status_code == 200, 60)
            wait_until(lambda: database_up(http) == 1, 30)


def database_up(http: httpx.Client) -> float | None:
    return Scrape(http.get("/metrics", timeout=20).text).get("retrier_database_up")


def test_a_database_that_goes_while_the_broker_is_waited_for_is_waited_for_too(
    amqp_url: str,
    postgres_url: str,
    queue_name: Callable[..., str],
    closed_port: int,
    tmp_path: Path,
) -> None:
    # Given a service that has reached its database, and waits for its broker
    broker_port = closed_port
    with temporary_postgres(postgres_url) as url, kept_port() as database_port:
        through = make_url(url).set(host="127.0.0.1", port=database_port)
        settings = {
            "instance": queue_name("instance"),
            "broker": {"url": f"amqp://guest:guest@127.0.0.1:{broker_port}//"},
            "database": {"url": through.render_as_string(hide_password=False)},
            "ingestion": {"error_queues": [queue_name("error")], "declare_missing": True},
            "api": {"port": 0},
        }
        with hosted(tmp_path, settings, ForkingHost) as host:
            with TcpProxy(url, database_port):
                service = host.start()
                wait_until(lambda: lines(service, "broker.unreachable"), 20)

            # When the database goes before the broker comes, and comes back
            with TcpProxy(amqp_url, broker_port):
                wait_until(lambda: lines(service, "broker.reached"), 20)
                wait_until(lambda: lines(service, "service.started"), 30)
                with TcpProxy(url, database_port):
                    # Then the service goes on by itself
                    service.wait_ready(40)
                    service.kill()

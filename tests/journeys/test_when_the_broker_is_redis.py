"""Redis that forgets, and what lies in its lists; and a broker that only Kombu knows."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection

from tests.contract.redis_fixtures import bind
from tests.support.databases import sqlite_url
from tests.support.embedded_shop import EmbeddedShop
from tests.support.forked_service import ForkingHost
from tests.support.project import ROOT
from tests.support.redis_servers import FORGETS, PrivateRedis, private_redis
from tests.support.redis_shop import opened_redis_shop
from tests.support.service import Host, hosted
from tests.support.waiting import wait_until

pytestmark = pytest.mark.journey
COUNT = 5
DEADLINE = 60


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PrivateRedis]:
    """Give a server that forgets everything when it is started again."""
    with private_redis(tmp_path / "redis", *FORGETS) as server:
        yield server


@contextmanager
def opened_host(folder: Path, broker: dict[str, Any]) -> Iterator[Host]:
    settings = {
        "broker": broker,
        "database": {"url": sqlite_url(folder)},
        "retries": {"drain_timeout": "500ms"},
        "api": {"port": 0},
    }
    with hosted(folder, settings, ForkingHost) as host:
        yield host


def wait_for_failures(http: Any, count: int) -> None:
    def is_there() -> bool:
        return str(http.get("/api/errors").headers.get("Total-Count")) == str(count)

    wait_until(is_there, DEADLINE, f"{count} failures are listed")


def test_copies_that_a_restart_has_lost_are_staged_again(
    server: PrivateRedis, tmp_path: Path
) -> None:
    # Given a batch that is staged, on a server that is started again and has forgotten it
    with ExitStack() as stack:
        host = stack.enter_context(opened_host(tmp_path, {"url": server.url}))
        with opened_redis_shop(server.url, lambda queue: queue, "nothing") as shop:
            failed = shop.fail(COUNT)
            service = host.start(crash_at="staging.committed")
            with service.http as http:
                wait_for_failures(http, COUNT)
                http.post("/api/errors/retry/all")
            service.wait_dead(DEADLINE)
        server.kill()
        server.start()
        bind(server.url, "orders")

        # When another service goes on
        host.start_ready()

        # Then each retry arrives once
        with opened_redis_shop(server.url, lambda queue: queue, "nothing") as shop:
            sent = shop.take("orders", COUNT)
        assert sorted(each.properties.message_id for each in sent) == sorted(failed)


def test_a_payload_that_kombu_did_not_write_is_kept_and_goes_back_as_it_came(
    server: PrivateRedis, tmp_path: Path
) -> None:
    # Given something in the error queue that is no envelope
    with opened_host(tmp_path, {"url": server.url}) as host, closing(server.client()) as client:
        client.lpush("error", b"no \xff JSON")
        bind(server.url, "shelf")

        # When it is taken
        service = host.start_ready()
        with service.http as http:
            wait_until(lambda: http.get("/api/imports").json(), DEADLINE, "it is kept")
            (kept,) = http.get("/api/imports").json()

            # Then it says why, and goes to another queue as it came
            assert "Kombu did not write" in str(kept)
            answer = http.post(f"/api/imports/{kept['id']}/send", json={"to": "shelf"})

        assert answer.is_success, answer.text
        assert client.lrange("shelf", 0, -1) == [b"no \xff JSON"]
        assert client.llen("error") == 0


def test_a_user_with_the_rights_of_the_page_takes_and_retries(
    server: PrivateRedis, tmp_path: Path
) -> None:
    # Given a user who may do what the page says, and nothing else
    page = (ROOT / "docs" / "transports.md").read_text()
    (rights,) = re.findall(r"ACL SETUSER retrier on >PASSWORD (.*)", page)
    with closing(server.client()) as client:
        client.execute_command("ACL SETUSER", "retrier", "on", ">secret", *rights.split())
    url = server.url.replace("//", "//retrier:secret@")
    with (
        opened_host(tmp_path, {"url": url}) as host,
        opened_redis_shop(server.url, lambda queue: queue, "nothing") as shop,
    ):
        failed = shop.fail(COUNT)
        bind(server.url, "orders")

        # When what failed is retried, then all of it arrives
        service = host.start_ready()
        with service.http as http:
            wait_for_failures(http, COUNT)
            http.post("/api/errors/retry/all")
            sent = shop.take("orders", COUNT)
        assert sorted(each.properties.message_id for each in sent) == sorted(failed)


def test_a_server_without_memory_is_told_by_health_and_log(
    server: PrivateRedis, tmp_path: Path
) -> None:
    full = "Redis takes no writes: its memory is full (maxmemory)"
    with opened_host(tmp_path, {"url": server.url}) as host, closing(server.client()) as client:
        service = host.start_ready()
        client.config_set("maxmemory", 1)

        with service.http as http:
            wait_until(lambda: full in http.get("/health/ready").text, DEADLINE, "health says so")

        warned = [each["warning"] for each in service.find("service.broker_warned")]
        assert warned.count(full) == 1


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("filesystem://", {"data_folder_in": "{}", "data_folder_out": "{}"}),
        pytest.param(
            "sqla+sqlite:///{}/queues.db",
            {"message_tablename": "messages"},
            marks=pytest.mark.kills,  # Kombu takes a minute for it on a busy machine
        ),
    ],
    ids=["filesystem", "sqla"],
)
@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")  # of Kombu's own tables
def test_a_broker_that_only_kombu_knows_is_used_with_a_warning(
    tmp_path: Path, url: str, options: dict[str, str]
) -> None:
    # Given a broker of Kombu's: a folder, or tables of SQLite
    queues = tmp_path / "queues"
    queues.mkdir()
    url = url.format(queues)
    options = {name: each.format(queues) for name, each in options.items()}
    broker = {"url": url, "transport_options": options}
    with (
        opened_host(tmp_path, broker) as host,
        Connection(url, transport_options=options) as connection,
    ):
        shop = EmbeddedShop(connection, lambda name: name)
        failed = shop.fail(COUNT)

        # When what failed is retried
        service = host.start_ready()
        with service.http as http:
            wait_for_failures(http, COUNT)
            http.post("/api/errors/retry/all")
            sent = shop.take("orders", COUNT)

        # Then all of it arrives, and the log says what does not hold
        assert sorted(each.properties.message_id for each in sent) == sorted(failed)
        (warned,) = [
            each for each in service.logged if each["event"] == "service.promises_not_kept"
        ]
        assert "is lost" in warned["promises"]

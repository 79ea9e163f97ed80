"""A worker from the outside: what it loads, and its health check."""

import json
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from retrier.errors import ConfigurationError
from retrier.transport.other_brokers import KombuTransport
from retrier.worker import Worker
from retrier.worker.connections import find_transport
from retrier.worker.log import Condition
from retrier.worker.worker import HealthServer

LOADED = """
import sys
import retrier.worker
worker = retrier.worker.Worker("amqp://broker")
worker.handler("orders")(lambda body: None)
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_importing_it_loads_neither_store_nor_api_nor_a_client_library() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True
    )

    loaded = set(done.stdout.split())
    assert "retrier" in loaded
    assert not loaded & {
        "sqlalchemy",
        "fastapi",
        "alembic",
        "kombu",
        "amqp",
        "typer",
        "prometheus_client",
    }


def ask(port: int) -> tuple[int, dict[str, str]]:
    try:
        with urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return answer.status, json.load(answer)
    except HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


def test_the_health_check_answers_what_the_worker_waits_for() -> None:
    condition = Condition()
    server = HealthServer("127.0.0.1:0", lambda: condition.why)
    try:
        condition.wait_for("there is no queue orders")
        assert ask(server.port) == (503, {"status": "waiting", "why": "there is no queue orders"})
        condition.take("orders")
        assert ask(server.port) == (200, {"status": "taking"})
    finally:
        server.close()


@pytest.mark.parametrize("address", ["", "http", "host:", "99999", "-1"])
def test_a_port_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError, match="the port of the health check is no port"):
        HealthServer(address, lambda: None)


def test_what_is_waited_for_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    condition = Condition()
    for _ in range(3):
        condition.wait_for("the broker is away")
    condition.take("orders")
    condition.take("orders")
    condition.wait_for("the broker is away")

    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said == ["nothing is taken: the broker is away"] * 2


def test_a_scheme_that_nobody_knows_is_refused_when_it_begins() -> None:
    with pytest.raises(ConfigurationError, match="the URL of the broker"):
        find_transport(["nosuchbroker://host"], "shop")


def test_an_option_that_kombu_does_not_know_is_refused_when_it_begins() -> None:
    with pytest.raises(ConfigurationError, match="data_folder: has no meaning with Kombu's file"):
        find_transport(["filesystem://"], "shop", None, {"data_folder": "/queues"})


def test_an_option_that_has_no_meaning_on_redis_is_refused_when_it_begins() -> None:
    with pytest.raises(ConfigurationError, match="perhaps visibility_timeout is meant"):
        find_transport(["redis://127.0.0.1"], "shop", None, {"visibilty_timeout": 5})


@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")  # of Kombu's own tables
def test_what_sqlalchemy_does_not_know_is_refused_when_it_begins(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="bogus"):
        find_transport([f"sqla+sqlite:///{tmp_path}/queues.db"], "shop", None, {"bogus": 1})


def test_a_broker_of_kombus_is_used_by_its_scheme() -> None:
    transport = find_transport(["memory://"], "shop")

    assert isinstance(transport, KombuTransport)
    assert not transport.capabilities.existence


def test_a_worker_is_not_healthy_before_it_has_begun() -> None:
    assert not Worker("amqp://broker").healthy

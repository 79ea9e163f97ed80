"""Dramatiq's own workers beside the service: a task fails, is repaired, retried, and resolved."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.databases import sqlite_url
from tests.support.dramatiq_program import DramatiqProgram
from tests.support.dramatiq_site import OF_A_TASK
from tests.support.far_side import FarSide
from tests.support.forked_service import ForkingHost
from tests.support.service import Host, Service, hosted
from tests.support.waiting import let_pass, wait_until

pytestmark = [pytest.mark.journey, pytest.mark.rabbitmq, pytest.mark.examples]

SLOWLY = """    print(f"begun {number}", flush=True)
    while Path("slow").exists():
        Event().wait(0.02)
    print(f"order"""
ON_THE_WAY = {
    '    print(f"order': SLOWLY,
    "import os\n": "import os\nfrom threading import Event\n",
}
MANY = 30
KILLS = 10
STEP = 0.15
"""Seconds by which each worker lives longer than the one before."""


@pytest.fixture
def far(amqp_url: str) -> Iterator[FarSide]:
    far = FarSide(amqp_url)
    yield far
    far.close()


@pytest.fixture
def orders(far: FarSide, queue_name: Callable[..., str]) -> Iterator[str]:
    orders = queue_name("orders")
    yield orders
    for end in OF_A_TASK:
        far.channel.queue_delete(f"{orders}{end}")


@pytest.fixture
def error(far: FarSide, queue_name: Callable[..., str]) -> str:
    return far.declare(queue_name("error"))


@pytest.fixture
def program(amqp_url: str, orders: str, error: str, tmp_path: Path) -> DramatiqProgram:
    folder = tmp_path / "program"
    folder.mkdir()
    url = f"{amqp_url.removesuffix('//')}/%2F" if amqp_url.endswith("//") else amqp_url
    return DramatiqProgram(url, orders, error, folder)


@pytest.fixture
def host(
    amqp_url: str, error: str, queue_name: Callable[..., str], far: FarSide, tmp_path: Path
) -> Iterator[Host]:
    instance = queue_name("instance")
    settings = {
        "instance": instance,
        "broker": {"url": amqp_url},
        "database": {"url": sqlite_url(tmp_path)},
        "ingestion": {"error_queues": [error]},
        "api": {"port": 0},
    }
    with hosted(tmp_path, settings, ForkingHost) as host:
        yield host
    far.channel.queue_delete(f"{instance}.staging")


def ask(service: Service, path: str, **filters: Any) -> list[dict[str, Any]]:
    with service.http as http:
        found: list[dict[str, Any]] = http.get(path, params=filters).json()
    return found


def statuses(service: Service) -> list[str]:
    return sorted(message["status"] for message in ask(service, "/api/errors", per_page=100))


def read(service: Service, *words: str) -> Any:
    """Run a command of `retrier`; return its JSON document."""
    with service.http as http:
        environ = {**os.environ, "RETRIER_URL": str(http.base_url)}
    command = [sys.executable, "-m", "retrier", *words, "--json"]
    return json.loads(subprocess.run(command, env=environ, capture_output=True, check=True).stdout)


def retry_all(service: Service) -> None:
    with service.http as http:
        assert http.post("/api/errors/retry/all").status_code == 202


def test_a_task_that_failed_for_good_is_seen_repaired_retried_and_resolved(
    program: DramatiqProgram, host: Host
) -> None:
    # Given a task that has failed three times, twice retried by Dramatiq
    program.change(ON_THE_WAY)
    service = host.start_ready()
    program.send(7)
    with program.worker() as worker:
        wait_until(lambda: statuses(service) == ["unresolved"], 30, "it is stored")

        # Then it is in a group under the name of its actor, with its traceback
        (group,) = read(service, "groups", "--classifier", "Message Type")["items"]
        assert group["title"] == "pack"
        (failed,) = ask(service, "/api/errors")
        shown = json.dumps(read(service, "errors", "show", failed["id"]))
        assert "LookupError: nothing left" in shown
        assert "in pack" in shown

        # When it is repaired and retried, and its worker is killed while it runs
        program.repair()
        (program.folder / "slow").touch()
        retry_all(service)
        wait_until(lambda: "begun 7" in program.told, 30, "the retry has begun")
        worker.kill()
    assert statuses(service) == ["retryIssued"]
    (program.folder / "slow").unlink()

    # Then another worker handles it, and it is resolved
    with program.worker():
        wait_until(lambda: statuses(service) == ["resolved"], 30, "it is resolved")
    assert "order 7 is packed" in program.told


def test_what_dramatiq_dead_letters_without_us_is_understood(
    program: DramatiqProgram, host: Host, orders: str
) -> None:
    # Given a worker without our middleware, whose failures are in its .XQ
    program.change({"broker.add_middleware(Retrier": "print(Retrier"})
    program.send(7)
    host.configure("ingestion", error_queues=[f"{orders}.XQ"])
    service = host.start_ready()
    with program.worker():
        wait_until(lambda: statuses(service) == ["unresolved"], 30, "it is stored")

        # Then actor and queue are known, and the traceback of the run before the last
        (failed,) = ask(service, "/api/errors")
        assert failed["message_type"] == "pack"
        assert failed["destination"] == orders
        assert failed["exception"]["exception_type"] == "LookupError"
        assert failed["exception"]["message"] == "nothing left"

        # When it is repaired and retried
        program.repair()
        retry_all(service)

        # Then it is handled
        wait_until(lambda: "order 7 is packed" in program.told, 30, "it is handled")


@pytest.mark.kills
def test_no_task_is_lost_when_workers_are_killed_again_and_again(
    program: DramatiqProgram, host: Host
) -> None:
    # Given tasks that fail, and workers that are killed meanwhile
    service = host.start_ready()
    program.send(*range(MANY))
    kill_until(program, lambda: statuses(service) == ["unresolved"] * MANY)

    # When they are repaired and retried, and workers are killed meanwhile
    program.repair()
    retry_all(service)
    kill_until(program, lambda: statuses(service) == ["resolved"] * MANY)

    # Then each has run to its end
    for number in range(MANY):
        assert f"order {number} is packed" in program.told


def kill_until(program: DramatiqProgram, done: Callable[[], bool]) -> None:
    """Run workers and kill each, at another moment each time; then one until it is done."""
    for moment in range(KILLS):
        with program.worker():
            before = len(program.told)
            wait_until(lambda at=before: len(program.told) > at, 30, "it has begun")
            let_pass(moment * STEP)
    with program.worker():
        wait_until(done, 120, "all are done")

"""The lines of docs/deploy as they stand: what the unit starts, what the probes ask."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.deploy import unit_line, walk_probes
from tests.support.forked_service import ForkingHost
from tests.support.service import Service, hosted
from tests.support.waiting import wait_until

pytestmark = pytest.mark.journey

PORT = "33333"
UNREACHABLE = "embedded:////proc/nowhere/broker.db"
PROBES = list(walk_probes())


def probe_all(service: Service) -> list[tuple[str, int]]:
    """Ask for the service's health as each container would, on another port; return exit codes."""
    with service.http as http:
        port = str(http.base_url.port)
    return [(file, probe([word.replace(PORT, port) for word in words])) for file, words in PROBES]


def probe(command: list[str]) -> int:
    done = subprocess.run([sys.executable, *command[1:]], capture_output=True, check=False)
    return done.returncode


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with the settings of the unit in it."""
    (tmp_path / "retrier.yaml").write_text(
        yaml.safe_dump(
            {
                "broker": {"url": f"embedded:///{tmp_path}/broker.db"},
                "database": {"url": f"sqlite:///{tmp_path}/retrier.db"},
                "api": {"port": 0},
            }
        )
    )
    return tmp_path


def test_the_line_of_the_unit_runs_the_service(folder: Path) -> None:
    line = unit_line("ExecStart").replace("/etc/retrier/retrier.yaml", f"{folder}/retrier.yaml")
    program, *words = shlex.split(line)
    started = Path(sys.executable).with_name(Path(program).name)

    with subprocess.Popen([started, *words], stderr=subprocess.PIPE, text=True) as process:
        try:
            told = iter(process.stderr or ())
            while "service.started" not in next(told):
                pass
            process.terminate()
            process.communicate(timeout=30)
        finally:
            process.kill()

    assert process.returncode == 0


def test_each_probe_finds_a_service_that_is_ready(folder: Path) -> None:
    settings = yaml.safe_load((folder / "retrier.yaml").read_text())
    with hosted(folder, settings, ForkingHost) as host:
        service = host.start_ready()

        assert probe_all(service) == [(file, 0) for file, _ in PROBES]


def test_each_probe_tells_a_service_that_waits_for_its_broker(folder: Path) -> None:
    settings = yaml.safe_load((folder / "retrier.yaml").read_text())
    with hosted(folder, {**settings, "broker": {"url": UNREACHABLE}}, ForkingHost) as host:
        service = host.start()
        wait_until(lambda: "broker.unreachable" in service.names(), 30)

        assert probe_all(service) == [(file, int("liveness" not in file)) for file, _ in PROBES]

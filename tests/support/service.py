"""A real service process, as a user would start it, and the HTTP client that asks it."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.support.plain_http import client_at
from tests.support.waiting import wait_until

START_DEADLINE = 30.0
STOP_DEADLINE = 60.0


class Service:
    """One process. `logged` holds its log lines as they come.

    `within` is a command that is put in front, and becomes the process.
    """

    def __init__(
        self,
        config: Path | None,
        environ: Mapping[str, str],
        roles: tuple[str, ...],
        folder: Path | None = None,
        within: Sequence[str] = (),
    ) -> None:
        self.logged: list[dict[str, Any]] = []
        command = [*within, sys.executable, "-m", "retrier", "run"]
        command += ["--config", str(config)] if config else []
        command += [word for role in roles for word in ("--role", role)]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, env={**os.environ, **environ}, text=True, cwd=folder
        )
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def http(self) -> httpx.Client:
        """Return a client of the API, as soon as the process says where it listens."""
        wait_until(lambda: self._listening() or self.process.poll() is not None, START_DEADLINE)
        (line,) = self._listening()
        base = f"http://{line['host']}:{line['port']}"
        return client_at(base)

    def wait_ready(self, deadline: float = START_DEADLINE) -> None:
        """Wait until every part is ready."""
        with self.http as http:
            wait_until(
                lambda: http.get("/health/ready").status_code == 200, deadline, "service not ready"
            )

    def wait_dead(self, deadline: float = START_DEADLINE) -> int:
        """Wait for the end of the process; return its exit code."""
        wait_until(lambda: self.process.poll() is not None, deadline, "process lives on")
        return int(self.process.returncode)

    def is_frozen(self) -> bool:
        """Whether it is stopped, by itself or by SIGSTOP."""
        status = Path(f"/proc/{self.pid}/stat").read_text()
        return status.rpartition(")")[2].split()[0] == "T"

    def wake(self) -> None:
        """Let a frozen process go on."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it with SIGKILL, if it lives."""
        self.process.kill()
        self._end()

    def terminate(self) -> None:
        """Tell it to stop, with SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    def stop(self) -> int:
        """End it with SIGTERM; return its exit code."""
        self.terminate()
        self.process.wait(STOP_DEADLINE)
        self._end()
        return int(self.process.returncode)

    def find(self, event: str) -> list[dict[str, Any]]:
        """Return the lines of one event logged so far."""
        return [line for line in self.logged if line.get("event") == event]

    def names(self) -> list[str]:
        """Return the names of the events logged so far."""
        return [str(line.get("event")) for line in self.logged]

    def _listening(self) -> list[dict[str, Any]]:
        return [*self.find("api.listening"), *self.find("health.listening")]

    def _read_log(self) -> None:
        for line in self.process.stderr or ():
            try:
                self.logged.append(json.loads(line))
            except ValueError:
                self.logged.append({"event": "unreadable", "text": line})

    def _end(self) -> None:
        self.process.wait(STOP_DEADLINE)
        self._reader.join(STOP_DEADLINE)
        if self.process.stderr is not None:
            self.process.stderr.close()


class Host:
    """Starts services on one configuration and ends all of them."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        folder.mkdir(exist_ok=True)
        self.config = folder / "retrier.yaml"
        self.config.write_text(yaml.safe_dump(dict(settings)))
        self.environ: dict[str, str] = {}
        """What the processes started from now on find in their environment."""
        self.services: list[Service] = []

    def start(
        self,
        *roles: str,
        within: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        **switches: str | float | None,
    ) -> Service:
        """Start a process; with `crash_at` it kills itself at that crash point.

        Other switches: `freeze_at` a crash point, `clock_offset` in seconds. `environ` is for
        this process alone.
        """
        switched = {
            f"RETRIER_TEST_{name.upper()}": str(value) for name, value in switches.items() if value
        }
        found = {**self.environ, **switched, **(environ or {})}
        self.services.append(self._launch(found, roles, within))
        return self.services[-1]

    def _launch(
        self, environ: Mapping[str, str], roles: tuple[str, ...], within: Sequence[str]
    ) -> Service:
        return Service(self.config, environ, roles, within=within)

    def configure(self, section: str, **keys: object) -> None:
        """Set keys of one section for what is started from now on."""
        settings = yaml.safe_load(self.config.read_text())
        settings[section] = {**settings.get(section, {}), **keys}
        self.config.write_text(yaml.safe_dump(settings))

    def start_ready(
        self,
        *roles: str,
        within: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        **switches: str | float | None,
    ) -> Service:
        """Start a process and wait until it is ready."""
        service = self.start(*roles, within=within, environ=environ, **switches)
        service.wait_ready()
        return service


@contextmanager
def hosted(folder: Path, settings: Mapping[str, Any], kind: type[Host] = Host) -> Iterator[Host]:
    """Give a host; whatever still runs afterwards is killed."""
    host = kind(folder, settings)
    try:
        yield host
    finally:
        for service in host.services:
            service.kill()
            print(*service.logged, sep="\n")  # noqa: T201 - shown with a failure only

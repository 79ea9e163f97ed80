"""Real service processes that start quickly: forked from one that has imported everything."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from tests.support.forking import FORKING
from tests.support.service import STOP_DEADLINE, Host, Service


def run_service(config: str, environ: Mapping[str, str], roles: tuple[str, ...], log: str) -> None:
    """Be `retrier run`: what the child does."""
    os.environ.update(environ)
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    words = [word for role in roles for word in ("--role", role)]
    sys.argv = ["retrier", "run", "--config", config, *words]
    from tests.support.warm_start import COMMAND  # noqa: PLC0415 - imported before the fork

    COMMAND(prog_name="retrier")


class _Process:
    """A forked child with the few words of Popen that a Service uses."""

    stderr = None

    def __init__(self, child: ForkServerProcess) -> None:
        self._child = child

    @property
    def pid(self) -> int:
        return self._child.pid or 0

    @property
    def returncode(self) -> int | None:
        return self._child.exitcode

    def poll(self) -> int | None:
        return self._child.exitcode

    def kill(self) -> None:
        self._child.kill()

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, timeout: float) -> None:
        self._child.join(timeout)


class ForkedService(Service):
    """One process; its log is in a file."""

    def __init__(
        self, config: Path, environ: Mapping[str, str], roles: tuple[str, ...], log: Path
    ) -> None:
        self.log = log
        child = FORKING.Process(
            target=run_service, args=(str(config), dict(environ), roles, str(log)), daemon=True
        )
        child.start()
        self.process: Any = _Process(child)

    @property
    def logged(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """Return what it has logged; a line that is being written does not count."""
        if not self.log.exists():
            return []
        lines = self.log.read_text().split("\n")[:-1]
        return [
            json.loads(line) if line.startswith("{") else {"event": "unreadable", "text": line}
            for line in lines
        ]

    def _end(self) -> None:
        self.process.wait(STOP_DEADLINE)


class ForkingHost(Host):
    """Starts forked services on one configuration; what becomes of another command is not forked."""

    def _launch(
        self, environ: Mapping[str, str], roles: tuple[str, ...], within: Sequence[str]
    ) -> Service:
        """Make the process."""
        if within:
            return super()._launch(environ, roles, within)
        log = self.config.with_name(f"{len(self.services)}.log")
        return ForkedService(self.config, environ, roles, log)

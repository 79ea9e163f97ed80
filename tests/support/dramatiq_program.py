"""The program of docs/examples, on queues of its own, with the workers of Dramatiq's command."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.examples import EXAMPLES
from tests.support.project import ROOT

PROGRAM = "dramatiq_tasks"


class DramatiqProgram:
    """`folder` is where it runs, with the files `stock` and `told`."""

    def __init__(self, url: str, orders: str, error: str, folder: Path) -> None:
        self.folder = folder
        self._environ = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "BROKER_URL": url,
            "dramatiq_worker_timeout": "50",  # milliseconds between two looks
        }
        text = (EXAMPLES / f"{PROGRAM}.py").read_text()
        text = text.replace('"orders"', f'"{orders}"').replace('"error"', f'"{error}"')
        self._path = folder / f"{PROGRAM}.py"
        self._path.write_text(text)

    def change(self, changes: Mapping[str, str]) -> None:
        """Replace words of the program."""
        text = self._path.read_text()
        for before, after in changes.items():
            assert before in text
            text = text.replace(before, after)
        self._path.write_text(text)

    def send(self, *numbers: int) -> None:
        """Send orders, from a process of its own."""
        code = f"import {PROGRAM}\nfor number in {numbers}: {PROGRAM}.pack.send(number)"
        command = [sys.executable, "-c", code]
        subprocess.run(command, cwd=self.folder, env=self._environ, check=True)

    def repair(self) -> None:
        """Give the task what it lacks."""
        (self.folder / "stock").touch()

    @property
    def told(self) -> str:
        """What all workers have printed so far."""
        return (self.folder / "told").read_text()

    @contextmanager
    def worker(self) -> Iterator["DramatiqWorker"]:
        """Run a worker; it is killed afterwards."""
        worker = DramatiqWorker(self.folder, self._environ)
        try:
            yield worker
        finally:
            worker.kill()


class DramatiqWorker:
    """The command `dramatiq`, with one process and one thread."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "dramatiq", PROGRAM, "--processes", "1", "--threads", "1"]
        with (folder / "told").open("a") as told:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=environ,
                stdout=told,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        """End it with SIGKILL, with all its processes."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

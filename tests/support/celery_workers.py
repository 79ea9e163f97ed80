"""Real Celery workers of `tests.support.celery_app`, and what a client of them sends."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from celery import Celery

from tests.support.project import ROOT
from tests.support.servers import pika_connection
from tests.support.waiting import wait_until

DEADLINE = 90.0
APP = "tests.support.celery_app"
QUIETLY = ("--without-gossip", "--without-mingle", "--without-heartbeat")


class CeleryShop:
    """A queue of tasks, and workers that handle them one after the other."""

    def __init__(
        self,
        url: str,
        queue: str,
        error_queue: str,
        folder: Path,
        serializer: str = "json",
        **environ: str,
    ) -> None:
        """Open a shop. `environ`: what else `tests.support.celery_app` reads."""
        folder.mkdir()
        self.folder = folder
        self.serializer = serializer
        self._queue = queue
        self._environ = {
            "PYTHONDONTWRITEBYTECODE": "1",
            "BROKER": url,
            "BROKER_URL": url,
            "QUEUE": queue,
            "ERROR_QUEUE": error_queue,
            "TOLD": str(folder),
            "SERIALIZER": serializer,
            "C_FORCE_ROOT": "1",
            **environ,
        }
        self.client: Any = Celery(
            "client", broker=url, backend=environ.get("BACKEND"), set_as_current=False
        )
        self.client.conf.update(
            task_default_queue=queue,
            task_default_queue_type=environ.get("QUEUE_TYPE", "classic"),
            task_serializer=serializer,
        )
        self._workers: list[subprocess.Popen[bytes]] = []

    def start(
        self,
        pool: str = "prefork",
        app: str = APP,
        folder: Path = ROOT,
        concurrency: int = 1,
        *,
        node: str = "celery@%h",
        **environ: str,
    ) -> None:
        """Start a worker with so many processes or threads for tasks; `node` is its name."""
        command = [sys.executable, "-m", "celery", "-A", app, "worker", "-Q", self._queue]
        command += ["-P", pool, "-c", str(concurrency), "-l", "info", "-n", node]
        with (self.folder / "log").open("ab") as log:
            started = subprocess.Popen(
                [*command, *QUIETLY],
                cwd=folder,
                env={**os.environ, **self._environ, **environ},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._workers.append(started)

    def send(
        self, task: str, order: object, headers: Mapping[str, str] | None = None, priority: int = 0
    ) -> str:
        """Send a task; return its id."""
        sent = self.client.send_task(task, (order,), headers=headers, priority=priority)
        return str(sent.id)

    def count_waiting(self) -> int:
        """Return how many messages are in the queue of tasks."""
        with closing(pika_connection(self._environ["BROKER"])) as connection:
            channel = connection.channel()
            found = channel.queue_declare(self._queue, passive=True)
            return int(found.method.message_count)

    def send_chain(self, *tasks: str, order: object) -> str:
        """Send tasks each of which is given what the one before returned; return the first id."""
        first = self.client.signature(tasks[0], (order,))
        for task in tasks[1:]:
            first |= self.client.signature(task)
        sent = first.apply_async()
        while sent.parent is not None:
            sent = sent.parent
        return str(sent.id)

    def break_down(self) -> None:
        """Let tasks fail from now on."""
        (self.folder / "broken").touch()

    def repair(self) -> None:
        """Let tasks succeed from now on."""
        (self.folder / "broken").unlink()

    @property
    def told(self) -> list[str]:
        """Return what tasks and workers have told."""
        path = self.folder / "lines"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def logged(self) -> str:
        """Return what the workers have logged."""
        return (self.folder / "log").read_text()

    def wait_for(self, line: str, times: int = 1) -> None:
        """Wait until this was told."""
        wait_until(lambda: self.told.count(line) >= times, DEADLINE, f"nobody told: {line}")

    def die_after(self, deed: str) -> None:
        """Let a worker kill itself as soon as it has done this."""
        (self.folder / f"die after {deed}").touch()

    def wait_for_death(self) -> None:
        """Wait until the worker has killed itself."""
        worker = self._workers.pop()
        worker.wait(DEADLINE)
        assert worker.returncode == -signal.SIGKILL

    def kill(self) -> None:
        """End the worker and its children with SIGKILL."""
        worker = self._workers.pop()
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def stop(self) -> None:
        """Let the worker finish and end."""
        worker = self._workers.pop()
        worker.terminate()
        worker.wait(DEADLINE)

    def close(self) -> None:
        """Kill what is running."""
        while self._workers:
            self.kill()
        self.client.close()
        print(self.logged)  # noqa: T201 - shown with a failure only

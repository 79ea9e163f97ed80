"""Real worker processes that start quickly, and what their handlers do: the body of a message says.

`{"do": "ok"}` returns. `die` ends the process, `hog` runs out of memory, `hang` does not return, `slow`
takes `seconds`; if it is told of a file `after`, only from when that is there. Each start of a handler,
and each end, is a line of the file `told`; so is each crash count above 0 that a handler is shown.
"""

import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from threading import Event
from typing import Any

from retrier.worker import Message, Worker
from tests.support.forking import FORKING
from tests.support.waiting import wait_until

DEADLINE = 20.0


def run_worker(url: str, queue: str, told: str, log: str, options: Mapping[str, Any]) -> None:
    """Be a worker: what the child does."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    logging.basicConfig(filename=log, level=logging.INFO, format="%(message)s")
    worker = Worker(url, **options)
    note = _noting(told)

    @worker.handler(queue)
    def handle(body: bytes, message: Message) -> None:
        order = json.loads(body)
        note("begun", order["id"])
        if message.crashes:
            note("counted", f"{order['id']}={message.crashes}")
        _DEEDS[order.get("do", "ok")](order)
        note("done", order["id"])

    note("started", "")
    worker.run()


def _noting(told: str) -> Callable[[str, object], None]:
    file = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(what: str, about: object) -> None:
        os.write(file, f"{what} {about} {os.getpid()}\n".encode())

    return note


def _die(_order: object) -> None:
    os._exit(9)


def _hog(_order: object) -> None:
    raise MemoryError


def _hang(_order: object) -> None:
    Event().wait()


def _slow(order: Mapping[str, Any]) -> None:
    if "after" in order:
        wait_until(Path(order["after"]).exists, DEADLINE)
    Event().wait(order["seconds"])


def _fork(_order: object) -> None:
    """Fork a child that ends as a program does, and one that only returns."""
    ends = []
    for code in (3, 0):
        child = os.fork()
        if child == 0 and code:
            sys.exit(code)
        if child == 0:
            return
        ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    if ends != [3, 0]:
        raise RuntimeError(ends)


def _stop_child(_order: object) -> None:
    """Start a child, and end it by the signal that is meant for the worker."""
    child = os.fork()
    if child == 0:
        Event().wait(DEADLINE / 4)
        os._exit(1)
    os.kill(child, signal.SIGTERM)
    end = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if end != -signal.SIGTERM:
        raise RuntimeError(end)


def _ok(_order: object) -> None:
    """Handle it."""


_DEEDS: Mapping[str, Callable[[Any], None]] = {
    "ok": _ok,
    "die": _die,
    "hog": _hog,
    "hang": _hang,
    "slow": _slow,
    "fork": _fork,
    "stop child": _stop_child,
}


class WorkerProcesses:
    """Starts one worker after the other, all with the same arguments."""

    def __init__(self, url: str, queue: str, folder: Path, options: Mapping[str, Any]) -> None:
        self._arguments = (url, queue, str(folder / "told"), str(folder / "log"), dict(options))
        self._folder = folder
        self._all: list[ForkServerProcess] = []

    def start(self) -> ForkServerProcess:
        """Start one."""
        process = FORKING.Process(target=run_worker, args=self._arguments, daemon=True)
        process.start()
        self._all.append(process)
        return process

    def run_until(self, done: Callable[[], object], deadline: float = DEADLINE) -> None:
        """Start another one whenever one has ended, as a supervisor does, until it is done."""

        def step() -> object:
            self.keep_one_alive()
            return done()

        wait_until(step, deadline, "the workers are done")

    def keep_one_alive(self) -> None:
        """Start another one if the last one has ended."""
        if not self._all or not self._all[-1].is_alive():
            self.start()

    def told(self, what: str) -> list[str]:
        """Return the ids of the messages of which this was told."""
        return [about for each, about in self.journal if each == what]

    @property
    def journal(self) -> list[tuple[str, str]]:
        """What was told, and of which message, in its order."""
        path = self._folder / "told"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(what, about) for what, about, _ in (line.split(" ") for line in lines)]

    @property
    def logged(self) -> str:
        """Return what they have logged."""
        return (self._folder / "log").read_text()

    def close(self) -> None:
        """Kill what is running."""
        for process in self._all:
            process.kill()
            process.join()

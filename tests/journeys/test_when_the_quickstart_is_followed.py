"""The quickstart's transcript, typed as a new user would type it."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.project import ROOT
from tests.support.waiting import wait_until

pytestmark = pytest.mark.journey

PAGE = (ROOT / "docs" / "quickstart.md").read_text()
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")
OUTCOMES = re.compile(r"(?<=sent back; )[^\n]*")
"""What became of them by then differs: the worker may be as quick as the command."""
OPERATION = re.compile(r"^[0-9a-f.]{8}(?=  completed)", re.MULTILINE)
SHELL_DEADLINE = 60


class Demo:
    """A running `retrier demo`, and a second terminal beside it."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._told = folder / "told"
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        command = bin_folder / "retrier"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m retrier "$@"\n')
        command.chmod(0o755)
        self._environ = {
            **os.environ,
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "RETRIER_URL": f"http://127.0.0.1:{self.port}",
        }
        with self._told.open("w") as told:
            self.process = subprocess.Popen(
                ["retrier", "demo", "--port", str(self.port)], stdout=told, env=self._environ
            )

    @property
    def told(self) -> str:
        return self._told.read_text()

    @property
    def folder(self) -> str:
        found = re.search(r"database in (.*)", self.told)
        assert found
        return found.group(1)

    def type(self, line: str) -> str:
        """Type a command in the demo's folder; return what it prints."""
        done = subprocess.run(  # noqa: S602 - the page's own commands
            line,
            shell=True,
            cwd=self.folder,
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=SHELL_DEADLINE,
            check=False,
        )
        return done.stdout

    def normalise(self, text: str) -> str:
        """Leave out what differs from run to run."""
        text = text.replace(self.folder, "FOLDER").replace(str(self.port), "33333")
        text = OUTCOMES.sub("OUTCOMES", TIME.sub("TIME", text))
        return OPERATION.sub("........", text).strip()


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    running = Demo(tmp_path)
    try:
        wait_until(lambda: "Ctrl-C ends the demo" in running.told, SHELL_DEADLINE, "the demo is up")
        yield running
    finally:
        running.process.send_signal(signal.SIGINT)
        running.process.wait(20)


def transcript() -> list[tuple[str, str]]:
    """Return every command of the page with what it is said to print."""
    steps: list[tuple[str, str]] = []
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = step.partition("\n")
            steps.append((command, printed))
    return steps


def test_the_transcript_is_what_happens(demo: Demo) -> None:
    (said,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert demo.normalise(demo.told).startswith(demo.normalise(said))

    for command, printed in transcript():
        expected = demo.normalise(printed)

        # A group may need a moment: the worker is a program of its own.
        wait_until(
            lambda command=command, expected=expected: (
                demo.normalise(demo.type(command)) == expected
            ),
            15,
            f"$ {command}",
        )
    folder = Path(demo.folder)
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(20) == 0
    assert not folder.exists()


def test_the_story_tells_itself_within_a_minute(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "retrier", "demo", "--once"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "14 failed again" in done.stdout
    (again,) = re.findall(r"What failed again is back.*?:\n(.*?)\n\n", done.stdout, re.DOTALL)
    assert [int(line.split()[0]) for line in again.splitlines()] == [96, 12]
    assert done.stdout.rstrip().endswith("Nothing is missing.")

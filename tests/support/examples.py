"""The programs of docs/examples, run as their first comment says, where their toolchain is.

    RETRIER_TEST_NODE_MODULES  a folder node_modules with amqplib, and with NestJS; else the global one of npm
    RETRIER_TEST_PYTHON        a Python with FastStream and Taskiq; else the one that runs the tests
    RETRIER_TEST_PHP_AUTOLOAD  a file that loads Symfony Messenger
    RETRIER_TEST_CLASSPATH     the jars of amqp-client and slf4j-api
    GOPATH                     with amqp091-go in src or as a module

What is not there is skipped, also where services are required: nothing is downloaded.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.project import ROOT
from tests.support.waiting import wait_until

EXAMPLES = ROOT / "docs" / "examples"
DEADLINE = 90.0
"""Seconds; Java and Go compile a program before they run it."""


class Example:
    """One program on one broker. `told` is what it has printed so far."""

    def __init__(self, command: Sequence[str], folder: Path, *arguments: str) -> None:
        self._output = folder / "told"
        own = {"PYTHONPATH": str(ROOT), "GO111MODULE": "auto", **_environment()}
        self._environ = {**os.environ, **own}
        with self._output.open("w") as output:
            self.process = subprocess.Popen(
                [*command, *arguments],
                cwd=folder,
                env=self._environ,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def told(self) -> str:
        return self._output.read_text()

    def wait_until_it_says(self, words: str) -> None:
        """Wait for a line with these words, or for the end of the program."""
        wait_until(lambda: words in self.told or self.process.poll() is not None, DEADLINE, words)
        assert words in self.told, self.told

    def wait_for_its_end(self) -> str:
        """Wait until it has ended well; return what it printed."""
        assert self.process.wait(DEADLINE) == 0, self.told
        return self.told


@contextmanager
def running(name: str, folder: Path, *arguments: str) -> Iterator[Example]:
    """Run an example with these arguments; it is ended afterwards."""
    shutil.copy(EXAMPLES / name, folder)
    example = Example(_command(name, folder), folder, *arguments)
    try:
        yield example
    finally:
        example.process.kill()
        example.process.wait()


def _command(name: str, folder: Path) -> Sequence[str]:
    match Path(name).suffix:
        case ".py":
            return _python(name)
        case ".mjs":
            return _node(name, folder)
        case ".java":
            jars = os.environ.get("RETRIER_TEST_CLASSPATH")
            return [_tool("java"), "-cp", jars or _absent("amqp-client"), name]
        case ".go":
            return _go(name, folder)
        case ".php":
            if "AUTOLOAD" not in _environment():
                _absent("Symfony Messenger")
            return [_tool("php"), name]
        case suffix:
            pytest.skip(f"nothing here runs {suffix}")


def _python(name: str) -> Sequence[str]:
    """Use a Python of its own for what this project does not install."""
    library = name.removeprefix("consume_with_").removesuffix(".py")
    if library == name.removesuffix(".py"):
        return [sys.executable, name]
    python = os.environ.get("RETRIER_TEST_PYTHON", sys.executable)
    found = subprocess.run([python, "-c", f"import {library}"], capture_output=True, check=False)
    return [python, name] if found.returncode == 0 else _absent(library)


def _environment() -> Mapping[str, str]:
    loads = os.environ.get("RETRIER_TEST_PHP_AUTOLOAD")
    return {} if loads is None else {"AUTOLOAD": loads}


def _node(name: str, folder: Path) -> Sequence[str]:
    node = _tool("node")
    modules = Path(os.environ.get("RETRIER_TEST_NODE_MODULES") or _global_modules())
    needed = "@nestjs/microservices" if "nestjs" in name else "amqplib"
    if not (modules / needed).is_dir():
        _absent(needed)
    # An import of Node looks in node_modules beside the program only, whatever NODE_PATH says.
    beside = folder / "node_modules"
    if not beside.exists():
        beside.symlink_to(modules)
    return [node, name]


def _global_modules() -> str:
    asked = [_tool("npm"), "root", "--global"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def _go(name: str, folder: Path) -> Sequence[str]:
    """Build the program: `go run` leaves it running when it is killed itself."""
    program = str(folder / "program")
    built = subprocess.run(
        [_tool("go"), "build", "-o", program, name],
        cwd=folder,
        env={**os.environ, "GO111MODULE": "auto", "GOFLAGS": "-mod=mod", "GOPROXY": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    if "amqp091-go" in built.stderr:
        _absent("amqp091-go")
    assert built.returncode == 0, built.stderr
    return [program]


def _tool(name: str) -> str:
    return shutil.which(name) or _absent(name)


def _absent(what: str) -> str:
    pytest.skip(f"{what} is not installed")

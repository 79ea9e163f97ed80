"""What the tests of the embedded broker work with: a file, queues, and Kombu programs beside us."""

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from subprocess import PIPE, Popen
from uuid import uuid4

import pytest
from kombu import Connection

from retrier.transport.embedded import EmbeddedTransport
from retrier.transport.seam import Queues
from tests.contract.transport_fixtures import TransportFixtures
from tests.support.project import ROOT

Connect = Callable[..., Connection]
Program = Popen[str]
Start = Callable[..., Program]


def make_transport(url: str) -> EmbeddedTransport:
    """Make the transport in another process."""
    return EmbeddedTransport(url)


class EmbeddedFixtures(TransportFixtures):
    """Fills in the fixtures of the transport suite: each test has a broker of its own."""

    factory = f"{__name__}:{make_transport.__name__}"
    no_properties = b"{}"

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"embedded:///{tmp_path}/broker.db"

    @pytest.fixture
    def transport(self, url: str) -> EmbeddedTransport:
        return EmbeddedTransport(url)

    @pytest.fixture
    def queue_name(self) -> Callable[..., str]:
        return lambda prefix="queue": f"test.{prefix}.{uuid4().hex[:12]}"

    @pytest.fixture
    def new_queue(self, queues: Queues, queue_name: Callable[..., str]) -> Callable[[], str]:
        def declare() -> str:
            name = queue_name()
            queues.declare_error_queue(name)
            return name

        return declare

    @pytest.fixture
    def connect(self, url: str) -> Iterator[Connect]:
        """Make Kombu connections that are closed afterwards; arguments are transport options."""
        with ExitStack() as stack:
            yield lambda **options: stack.enter_context(Connection(url, transport_options=options))

    @pytest.fixture
    def start(self, url: str) -> Iterator[Start]:
        """Start Kombu programs (tests.support.kombu_program), which are killed in the end."""
        with ExitStack() as stack:

            def run(command: str, *arguments: object) -> Program:
                words = [sys.executable, "-m", "tests.support.kombu_program", command, url]
                program = stack.enter_context(
                    Popen(
                        [*words, *map(str, arguments)], cwd=ROOT, stdin=PIPE, stdout=PIPE, text=True
                    )
                )
                stack.callback(program.kill)
                return program

            yield run


def hear(program: Program) -> str:
    """Return the next line a program says."""
    assert program.stdout
    return program.stdout.readline().strip()


def tell(program: Program) -> list[str]:
    """Say a line to a program; return what it says until it ends, which it must do well."""
    said, _ = program.communicate("\n", timeout=10)
    assert program.returncode == 0
    return said.split()


def ask_file(path: Path, statement: str) -> list[tuple[float, ...]]:
    """Run a statement on the broker's file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys=ON")
        return connection.execute(statement).fetchall()


def take_leases_away(path: Path) -> None:
    """Do what another process does when it finds leases that ran out."""
    ask_file(path, "DELETE FROM holders")

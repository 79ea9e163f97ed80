"""Fixtures of the contract tests."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from shutil import copyfile

import pytest

from retrier.store.engine.database import Database
from tests.support.databases import open_database, path_of, sqlite_url, temporary_postgres
from tests.support.far_side import FarSide
from tests.support.halting import SLOW
from tests.support.rabbitmq_habits import RabbitMQHabits
from tests.support.tcp_proxy import TcpProxy


@pytest.fixture
def far_side(amqp_url: str) -> Iterator[FarSide]:
    """Give somebody else's client."""
    far_side = FarSide(amqp_url)
    yield far_side
    far_side.close()


@pytest.fixture
def habits(far_side: FarSide) -> RabbitMQHabits:
    """Give what the broker does of itself, by its version."""
    return RabbitMQHabits(far_side.version)


@pytest.fixture
def classic_queue(far_side: FarSide, queue_name: Callable[..., str]) -> str:
    """Give a durable classic queue of somebody else's."""
    return far_side.declare(queue_name("classic"))


@pytest.fixture
def proxy(amqp_url: str) -> Iterator[TcpProxy]:
    """Stand between the transport and the broker."""
    with TcpProxy(amqp_url) as proxy:
        yield proxy


OpenNew = Callable[[], Database]
OpenKind = Callable[[str], Database]


@pytest.fixture
def open_kind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenKind]:
    """Give a function that opens a new database of a kind, without tables."""
    with ExitStack() as stack:

        def open_one(kind: str) -> Database:
            if kind == "sqlite":
                url = sqlite_url(tmp_path)
            else:
                server = request.getfixturevalue("postgres_url")
                url = stack.enter_context(temporary_postgres(server))
            db = open_database(url)
            stack.callback(db.dispose)
            return db

        yield open_one


ON_BOTH = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=ON_BOTH)
def open_new(request: pytest.FixtureRequest, open_kind: OpenKind) -> OpenNew:
    """Give a function that opens a new database without tables."""
    return lambda: open_kind(request.param)


@pytest.fixture
def new(open_new: OpenNew) -> Database:
    """Give a database without tables."""
    return open_new()


def open_copy(
    request: pytest.FixtureRequest, stack: ExitStack, folder: Path, kind: str, of: str
) -> Database:
    """Open a copy of a database of this kind, until the stack ends.

    `of` names the fixture with the file, or with the PostgreSQL database, as in `upgraded_{}`.
    """
    original = request.getfixturevalue(of.format(kind))
    if kind == "sqlite":
        url = sqlite_url(folder)
        copyfile(original, path_of(url))
    else:
        server = request.getfixturevalue("postgres_url")
        url = stack.enter_context(temporary_postgres(server, original))
    db = open_database(url)
    stack.callback(db.dispose)
    return db


@pytest.fixture(params=ON_BOTH)
def upgraded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """Give a new database at the newest revision, whose tables may be changed: a copy of one."""
    with ExitStack() as stack:
        yield open_copy(request, stack, tmp_path, str(request.param), "upgraded_{}")


@pytest.fixture
def slow() -> Iterator[ThreadPoolExecutor]:
    """Give a pool whose thread can be halted."""
    with ThreadPoolExecutor(1, thread_name_prefix=SLOW) as pool:
        yield pool

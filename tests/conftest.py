"""Fixtures every test may ask for: servers, names that are cleaned up. How tests share a run."""

import gc
import os
import sqlite3
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from shutil import copyfile, disk_usage
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from hypothesis import settings
from sqlalchemy import event, make_url

from retrier.store.engine.database import Database
from tests.support.databases import (
    Borrowed,
    empty,
    open_database,
    open_upgraded,
    path_of,
    sqlite_url,
    temporary_postgres,
)
from tests.support.project import ROOT
from tests.support.servers import POSTGRES, RABBITMQ, REDIS, found, pika_connection
from tests.support.turns import left_out

settings.register_profile("beside others", settings(), deadline=2000)
settings.load_profile("beside others")
"""An example may take 2 s: Hypothesis's 200 ms, by the wall, say nothing beside other processes."""

WORKERS = 4
"""Twice the cores of a small machine: journeys wait for servers and processes most of their time."""

APART = ("waits", "alone")
"""Marks of the few tests that measure time."""

BEGINS = "test_site.py"
"""The file whose first test takes half a minute, for which its others wait in whichever process."""

LOOKED_AT = "looked_at"
"""The service that every page is looked at on: dear to make, and some of its tests are the longest."""

MEMORY = Path("/dev/shm")  # noqa: S108 - only the default of TMPDIR
"""A file system where no commit of SQLite waits for a disk."""
ROOM = 2 << 30
"""Bytes that have to be free there: a run and the two before it take a few hundred million."""


PLAIN_POSTGRES = "RETRIER_TEST_PLAIN_POSTGRES_URL"

GARBAGE = (20_000, 10, 20)
"""How many objects are made until the next look for garbage, and how many looks until one at all.

With Python's own numbers a quarter of the processor time of the tests of the page went into looks
at everything that the page has loaded, which never is garbage.
"""


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Spread the plain `pytest` and `-m waits`; what is asked for by name or another mark is not."""
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    spread = is_plain(config) or config.option.markexpr == "waits"
    return WORKERS if everything and spread else 0


def pytest_configure(config: pytest.Config) -> None:
    """Keep the files of the plain `pytest` and of `-m waits` in memory, where there is room.

    They also may have a PostgreSQL that waits for no disk: what waits together would wait for it as
    well, half a second now and then, whatever its own waits are. `-m alone` has the usual one.
    """
    if not (is_plain(config) or config.option.markexpr == "waits"):
        return
    if PLAIN_POSTGRES in os.environ:
        os.environ[POSTGRES.variable] = os.environ[PLAIN_POSTGRES]
    if "TMPDIR" not in os.environ and has_room(MEMORY):
        os.environ["TMPDIR"] = str(MEMORY)  # for the processes that tests start
        tempfile.tempdir = str(MEMORY)


def is_plain(config: pytest.Config) -> bool:
    """Say whether no mark is asked for."""
    return config.option.markexpr in config.getini("addopts")


def has_room(folder: Path) -> bool:
    """Say whether a run's files fit in there."""
    return folder.is_dir() and disk_usage(folder).free > ROOM


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import hundreds of files for the few tests that measure time: they say so themselves."""
    mark = config.option.markexpr
    if mark not in APART or collection_path.suffix != ".py":
        return None
    return True if f"pytest.mark.{mark}" not in collection_path.read_text() else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave two thirds of some tests on PostgreSQL to `pytest -m kills` (tests/support/turns.py).

    What builds the site begins: at the end of a run three processes would wait for the fourth. Then,
    in the same process, so that it is made once, come the tests of the service that is looked at.
    """
    for item in left_out(items):
        item.add_marker(pytest.mark.kills)
    items.sort(key=lambda item: (item.path.name != BEGINS, LOOKED_AT not in fixtures_of(item)))


def fixtures_of(item: pytest.Item) -> Sequence[str]:
    """Return the names of its fixtures."""
    return item.fixturenames if isinstance(item, pytest.Function) else ()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Do not look for garbage among thousands of tests, neither while they are found nor later."""
    gc.disable()
    try:
        if is_plain(session.config) and session.config.args == session.config.getini("testpaths"):
            load_own_share_first()
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*GARBAGE)
        gc.enable()


def load_own_share_first() -> None:
    """Let each process of a run load another share of the tests first, and then the others' shares.

    All load the same files. In the same order each would compile all of them on a new machine: one
    after the other is compiled by all at the same moment.
    """
    process = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not process:
        return
    count, own = int(os.environ["PYTEST_XDIST_WORKER_COUNT"]), int(process.removeprefix("gw"))
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files]
    begin = len(names) * own // count
    for name in names[begin:] + names[:begin]:
        with suppress(Exception):  # it is told when the tests of the file are collected
            import_module(name)


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """Give the URL of a Redis server that many tests share."""
    with found(REDIS) as url:
        yield url


@pytest.fixture(scope="session")
def sqs_server() -> Iterator[Any]:
    """Give a server that behaves as Amazon SQS does; all tests of a process share it."""
    from tests.support.sqs_server import running_sqs  # noqa: PLC0415 - boto3 takes long to load

    with running_sqs() as server:
        yield server


@pytest.fixture(scope="session")
def amqp_url() -> Iterator[str]:
    """Give the URL of a RabbitMQ server."""
    with found(RABBITMQ) as url:
        yield url


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """Give the URL of a PostgreSQL server; tests make databases of their own on it."""
    with found(POSTGRES) as url:
        yield url


@pytest.fixture(scope="session")
def upgraded_postgres(postgres_url: str) -> Iterator[str]:
    """Give the name of an upgraded PostgreSQL database to make copies of."""
    with temporary_postgres(postgres_url) as url:
        open_upgraded(url).dispose()
        yield str(make_url(url).database)


@pytest.fixture(scope="session")
def shared_postgres(postgres_url: str) -> Iterator[Database]:
    """Give one upgraded PostgreSQL database for all tests of a process; they empty it."""
    with temporary_postgres(postgres_url) as url:
        db = open_upgraded(url)
        event.listen(db.engine, "connect", wait_for_no_disk)
        db.dispose()  # the next connections are told
        yield db
        db.dispose()


def wait_for_no_disk(connection: psycopg.Connection[Any], _record: object) -> None:
    """Let commits of this session be answered before they are on disk: no server dies here."""
    connection.execute("SET synchronous_commit = off")
    connection.commit()


@pytest.fixture(scope="session")
def upgraded_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give an upgraded SQLite file; tests copy it, which is quicker than upgrading one each."""
    url = sqlite_url(tmp_path_factory.mktemp("upgraded"))
    open_upgraded(url).dispose()
    return path_of(url)


@pytest.fixture(scope="session")
def shared_sqlite(upgraded_sqlite: Path) -> Iterator[Database]:
    """Give one upgraded SQLite database for all tests of a process; they empty it.

    Each its own would compile all its statements once more: half of the time that a test takes.
    """
    file = copyfile(upgraded_sqlite, upgraded_sqlite.with_name("shared.db"))
    db = open_database(f"sqlite:///{file}")
    event.listen(db.engine, "connect", reverse_what_has_no_order)
    db.dispose()  # the next connections are told
    yield db
    db.dispose()


def reverse_what_has_no_order(connection: sqlite3.Connection, _record: object) -> None:
    """Return rows without ORDER BY the other way round: PostgreSQL promises no order either."""
    connection.execute("PRAGMA reverse_unordered_selects = ON")


@contextmanager
def opened_empty(kind: str, request: pytest.FixtureRequest) -> Iterator[Database]:
    """Open an empty database, `sqlite` or `postgres`; a server is asked for only then."""
    shared: Database = request.getfixturevalue(f"shared_{kind}")
    empty(shared)
    db = Borrowed(shared)
    yield db
    db.give_back()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Give an empty database; every test that asks runs on SQLite and on PostgreSQL."""
    with opened_empty(request.param, request) as db:
        yield db


@pytest.fixture
def queue_name(amqp_url: str) -> Iterator[Callable[..., str]]:
    """Make random queue names; whatever was declared under them is deleted afterwards."""
    names: list[str] = []

    def make(prefix: str = "queue") -> str:
        names.append(f"test.{prefix}.{uuid4().hex[:12]}")
        return names[-1]

    yield make
    if names:
        _delete(amqp_url, names)


def _delete(url: str, names: list[str]) -> None:
    with closing(pika_connection(url)) as connection:
        channel = connection.channel()
        for name in names:
            channel.queue_delete(name)

"""A place for each combination, and the table at the end."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copyfile

import pytest

from retrier.store.engine.database import Database
from tests.conftest import opened_empty
from tests.kills.sites import ON_SQS, Combination, Place, opened_place
from tests.support.databases import open_database, path_of, sqlite_url
from tests.support.project import ROOT
from tests.support.sqs_server import URL

PAGE = (ROOT / "docs" / "how-it-works.md").read_text()
ROW = re.compile(r"^\| `([a-z]+\.[a-z_]+)` \|.*\| ([a-z ]+) \|$", re.MULTILINE)


@dataclass(slots=True)
class Tally:
    """How often a process was killed at each crash point, and what that cost."""

    rows: dict[str, list[int]] = field(default_factory=dict)

    def add(self, point: str, lost: int, doubled: int) -> None:
        """Count one run."""
        row = self.rows.setdefault(point, [0, 0, 0])
        self.rows[point] = [row[0] + 1, row[1] + lost, row[2] + doubled]


TALLY = pytest.StashKey[Tally]()


def pytest_configure(config: pytest.Config) -> None:
    """Begin to count."""
    config.stash[TALLY] = Tally()


@pytest.hookimpl
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table: crash point, runs, lost, duplicates."""
    rows = terminalreporter.config.stash[TALLY].rows
    if not rows:
        return
    terminalreporter.section("killed at every crash point")
    terminalreporter.write_line(f"{'crash point':26} | runs | lost | duplicates")
    for point, (runs, lost, doubled) in rows.items():
        terminalreporter.write_line(f"{point:26} | {runs:4} | {lost:4} | {doubled:10}")


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Tally:
    """Give what counts the runs of this session."""
    return request.config.stash[TALLY]


@pytest.fixture(scope="session")
def admitted() -> dict[str, str]:
    """Give what the table of the documentation says that a kill can send twice at most."""
    return dict(ROW.findall(PAGE))


@pytest.fixture
def combination(request: pytest.FixtureRequest) -> Combination:
    """Give the combination that the case is for."""
    chosen: Combination = request.param
    return chosen


@contextmanager
def opened(
    combination: Combination, request: pytest.FixtureRequest, folder: Path
) -> Iterator[Database]:
    """Open an empty database; on SQLite a file of its own, as these processes die with it open."""
    if combination.database == "postgres":
        with opened_empty("postgres", request) as db:
            yield db
        return
    url = sqlite_url(folder)
    copyfile(request.getfixturevalue("upgraded_sqlite"), path_of(url))
    db = open_database(url)
    yield db
    db.dispose()


@pytest.fixture
def place(
    combination: Combination, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Place]:
    """Give the place of a combination; nothing runs yet."""

    def server_url(broker: str) -> str:
        if broker in ON_SQS:
            return URL
        return str(request.getfixturevalue("redis_url" if broker == "redis" else "amqp_url"))

    on_sqs = combination.broker in ON_SQS
    sqs = request.getfixturevalue("sqs_server") if on_sqs else None
    with (
        opened(combination, request, tmp_path) as db,
        opened_place(combination, tmp_path, db, server_url, sqs) as place,
    ):
        yield place

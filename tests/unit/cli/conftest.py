"""A command line on an empty SQLite database: what a database does is the same on each."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from retrier.store.engine.database import Database, DatabaseOptions
from tests.support.command_line import CommandLine
from tests.support.databases import open_upgraded


@pytest.fixture(scope="session")
def upgraded_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the file of an upgraded database that is not open any more; tests copy it."""
    file = tmp_path_factory.mktemp("template") / "retrier.db"
    open_upgraded(f"sqlite:///{file}").dispose()
    return file


@pytest.fixture
def cli(upgraded_file: Path, tmp_path: Path) -> Iterator[CommandLine]:
    """Give the command line."""
    copied = shutil.copy(upgraded_file, tmp_path / "copy.db")
    db = Database(DatabaseOptions(url=f"sqlite:///{copied}"))
    made = CommandLine(db)
    yield made
    made.api.http.close()
    db.dispose()

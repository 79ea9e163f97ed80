"""What the commands say of a database that a version before 1.0 has made; they leave it as it is."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.bench import Bench
from tests.support.commands import invoke
from tests.support.databases import open_upgraded

SAID = (
    "database.url: the database at {file} is at revision 1029: a version before 1.0, which was never "
    "released, has made it, and it cannot be upgraded. Send back what is still in it with that "
    "version, then name a new, empty database"
)
OPENING = {
    "run": ["run"],
    "check": ["check"],
    "verify": ["verify"],
    "db upgrade": ["db", "upgrade"],
    "db copy": ["db", "copy", "--to", "sqlite:///{folder}/copy.db"],
}
"""The commands that open the database of the settings."""


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """Give the file of such a database; nobody has it open."""
    file = tmp_path / "retrier.db"
    db = open_upgraded(f"sqlite:///{file}")
    Bench(db).fail(3)
    db.dispose()
    set_revision(file, "1029")
    return file


def set_revision(file: Path, revision: str) -> None:
    with closing(sqlite3.connect(file)) as conn, conn:
        conn.execute("UPDATE alembic_version SET version_num = ?", [revision])


@pytest.mark.parametrize("command", OPENING.values(), ids=OPENING.keys())
@pytest.mark.parametrize("upgrade", ["true", "false"])
def test_a_command_says_one_line_and_changes_nothing(
    older: Path, command: list[str], upgrade: str
) -> None:
    folder = older.parent
    before = older.read_bytes()
    environ = {
        "RETRIER_DATABASE__URL": f"sqlite:///{older}",
        "RETRIER_DATABASE__UPGRADE": upgrade,
        "RETRIER_BROKER__URL": f"embedded:///{folder}/broker.db",
        "RETRIER_API__PORT": "0",
    }

    result = invoke([word.format(folder=folder) for word in command], env=environ)

    said = [line for line in result.stderr.splitlines() if "revision" in line]
    assert said == [SAID.format(file=older)]
    assert result.exit_code == 2
    assert older.read_bytes() == before
    assert not any(each.stat().st_size for each in folder.glob("retrier.db-wal"))
    assert not (folder / "copy.db").exists()


def test_a_copy_into_one_is_refused_and_changes_nothing(older: Path) -> None:
    source = older.with_name("source.db")
    open_upgraded(f"sqlite:///{source}").dispose()
    before = older.read_bytes()

    result = invoke(
        ["db", "copy", "--to", f"sqlite:///{older}"],
        env={"RETRIER_DATABASE__URL": f"sqlite:///{source}"},
    )

    assert result.exit_code == 1
    assert f"{older} is not empty, and nothing was changed there" in result.stderr
    assert older.read_bytes() == before

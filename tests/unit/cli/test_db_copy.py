"""`retrier db copy`: what it prints and refuses, and what becomes of a copy that was killed."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import update
from typer.testing import Result

from retrier.app.process import describe_holder
from retrier.store.engine.database import Database
from retrier.store.error_queue_reads import note_reads
from retrier.store.lease import Fence, Holder, acquire_lease
from retrier.store.schema import processor_lease
from tests.support.bench import Bench
from tests.support.commands import invoke
from tests.support.databases import open_upgraded

Copy = Callable[..., Result]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Give a file with three failed messages that nobody has open."""
    file = tmp_path / "source.db"
    with_database(file, lambda db: Bench(db).fail(3))
    return file


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Give the path of a file that is not there."""
    return tmp_path / "target.db"


@pytest.fixture
def copy(source: Path, target: Path) -> Copy:
    """Give the command."""
    environ = {"RETRIER_DATABASE__URL": f"sqlite:///{source}", "RETRIER_COPY_TO": None}

    def run(*arguments: str) -> Result:
        given = arguments or ("--to", f"sqlite:///{target}")
        return invoke(["db", "copy", *given], env=environ)

    return run


def count(file: Path, table: str = "failed_messages") -> int:
    with closing(sqlite3.connect(file)) as conn:
        return int(conn.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608


def lead(db: Database, holder: Holder) -> None:
    assert isinstance(acquire_lease(db, holder, timedelta(minutes=5), lambda _: False), Fence)


def with_database(file: Path, act: Callable[[Database], object], *, released: bool = True) -> None:
    """Work with the file as a process does that ends afterwards, in good order or not."""
    db = open_upgraded(f"sqlite:///{file}")
    act(db)
    if released:
        with db.engine.begin() as conn:
            conn.execute(update(processor_lease).values(session_id=None, expires_at=None))
    db.dispose()


def test_it_says_what_was_copied_and_what_to_do_next(
    copy: Copy, source: Path, target: Path
) -> None:
    result = copy()

    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["table", "rows"]
    assert ["failed_messages", "3"] in [line.split() for line in lines]
    assert f"copied from {source} to {target}" in lines[-3]
    assert lines[-3].endswith("every row was read back and is the same")
    assert lines[-2] == "everything adds up in both"
    assert lines[-1] == "Now name the new database as database.url, and start the service."
    assert "failed_messages: 3 of 3 rows copied" in result.stderr
    assert "failed_messages: 3 of 3 rows compared" in result.stderr
    assert count(target) == 3


def test_all_of_it_is_one_json_document(copy: Copy, source: Path, target: Path) -> None:
    document = json.loads(copy("--to", f"sqlite:///{target}", "--json").stdout)

    assert document["ok"] is True
    assert (document["source"], document["target"]) == (str(source), str(target))
    assert {"table": "failed_messages", "rows": 3} in document["tables"]
    assert (document["resumed"], document["began_anew"], document["broken"]) == (0, False, [])


def test_a_wrong_address_is_refused(copy: Copy) -> None:
    result = copy("--to", "mysql://secret@x/y")

    assert result.exit_code == 2
    assert "--to or RETRIER_COPY_TO: must begin with postgresql:// or sqlite:///" in result.stderr
    assert "secret" not in result.stderr


def test_a_database_is_not_copied_into_itself(copy: Copy, source: Path) -> None:
    result = copy("--to", f"sqlite:///{source}")

    assert result.exit_code == 1
    assert "cannot be copied into itself" in result.stderr


def test_a_database_that_is_not_there_is_not_made(copy: Copy, source: Path) -> None:
    source.unlink()

    assert copy().exit_code == 3
    assert not source.exists()


def test_what_is_off_is_off_in_both_and_ends_with_1(copy: Copy, source: Path) -> None:
    with closing(sqlite3.connect(source)) as conn, conn:
        conn.execute("DELETE FROM ledger")

    result = copy()

    assert result.exit_code == 1
    assert "off by 3 in both: the ledger has as many new messages" in result.stdout


class TestASourceInUse:
    def test_by_a_processor_is_refused(self, copy: Copy, source: Path, target: Path) -> None:
        me = describe_holder(str(uuid4()))
        with_database(source, lambda db: lead(db, me), released=False)

        result = copy()

        assert result.exit_code == 1
        assert f"is in use: process {os.getpid()} on " in result.stderr
        assert "stop every process of Retrier that works with it" in result.stderr
        assert not target.exists()

    def test_by_a_processor_that_is_dead_is_copied(self, copy: Copy, source: Path) -> None:
        dead = replace(describe_holder(str(uuid4())), pid=2**22 - 1)
        with_database(source, lambda db: lead(db, dead), released=False)

        assert copy().exit_code == 0

    def test_by_a_process_that_reads_error_queues_is_refused(
        self, copy: Copy, source: Path
    ) -> None:
        me = describe_holder(str(uuid4()))
        with_database(source, lambda db: note_reads(db, me, {"error": {}}, lambda _holder: False))

        result = copy()

        assert result.exit_code == 1
        assert "reads error queues" in result.stderr

    def test_by_any_process_that_has_the_file_open_is_refused(
        self, copy: Copy, source: Path
    ) -> None:
        program = (
            "import sqlite3, sys; conn = sqlite3.connect(sys.argv[1]); "
            "conn.execute('SELECT 1 FROM causes').fetchall(); print(1, flush=True); "
            "sys.stdin.read()"
        )
        with subprocess.Popen(
            [sys.executable, "-c", program, source], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as other:
            assert other.stdout is not None
            other.stdout.readline()
            result = copy()
            other.communicate(b"")

        assert result.exit_code == 1
        assert "another process has it open" in result.stderr


class TestACopyThatWasKilled:
    @pytest.fixture
    def killed(self, source: Path, target: Path) -> None:
        """Kill the command while it copies many messages."""
        with_database(source, lambda db: Bench(db).fail(300))
        command = [sys.executable, "-m", "retrier", "db", "copy", "--to", f"sqlite:///{target}"]
        environ = os.environ | {"RETRIER_DATABASE__URL": f"sqlite:///{source}"}
        with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as doomed:
            assert doomed.stderr is not None
            for line in doomed.stderr:
                if line.startswith("processing_attempts"):
                    break
            doomed.kill()
        assert doomed.returncode == -signal.SIGKILL

    @pytest.mark.usefixtures("killed")
    def test_cannot_be_used_by_any_command(self, target: Path) -> None:
        # The usual port may be another test's.
        environ = {"RETRIER_DATABASE__URL": f"sqlite:///{target}", "RETRIER_API__PORT": "0"}

        for command in (["run"], ["check"], ["verify"], ["db", "upgrade"]):
            result = invoke(command, env=environ)
            assert result.exit_code == 2, command
            assert "is an unfinished copy of another database" in result.stderr

    @pytest.mark.usefixtures("killed")
    def test_goes_on_when_the_command_is_run_again(self, copy: Copy, target: Path) -> None:
        result = copy()

        assert result.exit_code == 0, result.stderr
        assert "rows had been copied before." in result.stderr
        assert count(target) == 303

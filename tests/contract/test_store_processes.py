"""Processes write that they run, and are forgotten when they end."""

from datetime import timedelta

from sqlalchemy import update

from retrier.store.engine.database import Database
from retrier.store.processes import SILENT, forget_process, list_processes, note_process
from retrier.store.schema import processes
from tests.contract.store_rows import rows
from tests.support.processes import process


def test_a_process_is_listed_as_it_was_written_last(database: Database) -> None:
    first = process(host="one")
    newer = process(host="two", session_id=first.session_id, set_hash="99352f53")
    note_process(database, first)
    note_process(database, newer)

    assert list_processes(database) == (newer,)


def test_a_process_that_ends_is_forgotten(database: Database) -> None:
    one, other = process(pid=1), process(pid=2)
    note_process(database, one)
    note_process(database, other)

    forget_process(database, one.session_id)

    assert list_processes(database) == (other,)


def test_a_process_that_is_silent_is_not_listed_and_then_deleted(database: Database) -> None:
    silent, other = process(pid=1), process(pid=2)
    note_process(database, silent)
    with database.engine.begin() as conn:
        past = database.sql.now(conn) - SILENT - timedelta(seconds=1)
        conn.execute(update(processes).values(seen_at=past))

    assert list_processes(database) == ()

    note_process(database, other)
    assert [row["pid"] for row in rows(database, processes)] == [2]

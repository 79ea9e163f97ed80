"""Changing a table of a filled SQLite database: it is made anew, and no row may be lost with it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import insert, inspect, text
from sqlalchemy.exc import IntegrityError

from retrier.domain.archive_operation import Act
from retrier.domain.breakers import BreakerKey, BreakerState, Per
from retrier.domain.identity import md5_guid
from retrier.domain.retry_operation import Canary, RetryTerms
from retrier.domain.selection import Selection
from retrier.domain.views import View, ViewList
from retrier.store.archive import Action
from retrier.store.breakers import set_breaker
from retrier.store.comments import write_comment
from retrier.store.engine.database import Database
from retrier.store.engine.transaction import Transaction
from retrier.store.error_queue_reads import note_reads
from retrier.store.import_acts import stamp_import
from retrier.store.lease import Holder
from retrier.store.policies import ToldSet, tell_set
from retrier.store.processes import note_process
from retrier.store.recording import record_received
from retrier.store.recovery import begin_recovery
from retrier.store.redirects import create_redirect
from retrier.store.schema import (
    VIEWS,
    breaker_counts,
    breakers,
    cause_groups,
    causes,
    failed_imports,
    failed_message_retries,
    failed_messages,
    metadata,
    processor_lease,
    retry_operation_messages,
    retry_operations,
)
from retrier.store.upgrade import (
    StrayRows,
    become_current,
    find_revision,
    take_views_away,
    upgrade_schema,
)
from retrier.store.views import save_view
from tests.contract.store_retries import SENT, STAGED, bring_to
from tests.contract.store_rows import everything_but, rows, select_rows
from tests.contract.store_shape import particulars_of
from tests.support.acting import apply_action
from tests.support.archiving import make_archives, request_for
from tests.support.bench import QUEUE, READER, Bench
from tests.support.databases import open_upgraded, sqlite_url
from tests.support.editing import asked
from tests.support.factories import FAILED_AT, failed_import, failure
from tests.support.lived_in import write_who_may
from tests.support.processes import process
from tests.support.revisions import migrations_up_to, newest_revision
from tests.support.words import fill

Changes = Callable[[str], Path]

NEXT = "9001"
ONE_MORE = """
from alembic import op

revision = "{number}"
down_revision = "{before}"
branch_labels = None
depends_on = None


def upgrade():
    {changes}
"""
CHANGE_CHECK = """
    with op.batch_alter_table("{table}") as table:
        table.drop_constraint(op.f("ck_{table}_{check}"), type_="check")
        table.create_check_constraint(op.f("ck_{table}_{check}"), "{condition}")
"""
ADD_COLUMN = """
    import sqlalchemy as sa
    # Left out, an id of a cause that is gone would be given to another one.
    numbered = {"sqlite_autoincrement": True}
    with op.batch_alter_table("causes", recreate="always", table_kwargs=numbered) as table:
        table.add_column(sa.Column("seen", sa.Integer(), nullable=True))
"""
OTHER_CHECKS = {
    "failed_messages": CHANGE_CHECK.format(
        table="failed_messages", check="attempts_counted", condition="attempts >= 0"
    ),
    "retry_operations": CHANGE_CHECK.format(
        table="retry_operations", check="state_known", condition="state <> 'none'"
    ),
    "retry_batches": CHANGE_CHECK.format(
        table="retry_batches", check="at_most_1000", condition="initial_size <= 2000"
    ),
    "causes": ADD_COLUMN,
}
"""What a revision may do to a table; other tables refer to each of these, or it to them."""
LEAVE_STRAYS = 'op.execute("DELETE FROM causes")'


TOLD = ToldSet(
    session_id="5e551011-0000-4000-8000-000000000001",
    instance="here",
    host="here",
    pid=7,
    set_hash="0" * 64,
    file_time=None,
    loaded_at=FAILED_AT,
)


def add_breaker(db: Database) -> None:
    """Open a breaker that has counted something."""
    key = BreakerKey(per=Per.DESTINATION, name="orders")
    set_breaker(db, key, BreakerState.OPEN, lasts=None, who="ada", why=None)
    (breaker,) = rows(db, breakers)
    with db.engine.begin() as conn:
        counted = dict.fromkeys(("sent", "returned", "came_back", "confirmed"), 1)
        conn.execute(
            insert(breaker_counts).values(
                breaker_id=breaker["breaker_id"],
                since=FAILED_AT,
                counted_by=TOLD.session_id,
                outcomes="",
                **counted,
            )
        )


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Database]:
    """Give an SQLite database in the middle of its work, with rows in nearly every table."""
    db = open_upgraded(sqlite_url(tmp_path))
    bench = Bench(db)
    confirmed, sent = bring_to(bench, SENT), bring_to(bench, SENT)
    confirmed.confirm()
    bench.receive(failed_import())
    (kept,) = rows(db, failed_imports)
    stamp_import(db, kept["import_id"], "orders", again=False, who="ada")
    bring_to(bench, STAGED)
    bench.ask([*bench.fail(2), sent.key])
    (archived,) = bench.fail(exception_type="Other", fields={"order": "7"})
    apply_action(db, Action(act=Act.ARCHIVE, who="ada"), [archived])
    asked(bench, bench.fail()[0])
    bench.ask_all(RetryTerms(canary=Canary(size=1)))
    many = Selection(ids=tuple(bench.fail(2)))
    make_archives(db, at_once=1).ask(request_for(Act.RESOLVE, many))
    create_redirect(db, "here", "there", own_queues=frozenset(), who="ada")
    record_received(db, [failure()], instance="here", forward_to="log")
    tell_set(db, TOLD)
    write_comment(db, md5_guid(f"Endpoint Address{QUEUE}"), "known", "ada")
    save_view(db, View(name="night", page=ViewList.MESSAGES, query="queue=orders"), "ada", None)
    add_breaker(db)
    begin_recovery(db, FAILED_AT, "ada")
    write_who_may(db)
    reader = Holder(session_id=READER, host="here", pid=1, process_started="now")
    note_process(db, process(session_id=READER))
    note_reads(db, reader, {"error": {"ready": 0, "level_at": FAILED_AT}}, lambda _: False)
    fill(db)
    yield db
    db.dispose()


@pytest.fixture
def with_one_more(tmp_path: Path) -> Changes:
    """Give a function that makes a folder of migrations: all there are, and one more."""

    def make(changes: str) -> Path:
        before = newest_revision()
        folder = migrations_up_to(tmp_path, before)
        one_more = ONE_MORE.format(changes=changes.strip(), number=NEXT, before=before)
        (folder / "versions" / f"{NEXT}_one_more.py").write_text(one_more)
        return folder

    return make


def checks_of(db: Database, table: str) -> set[Any]:
    return {each["name"] for each in inspect(db.engine).get_check_constraints(table)}


def indexes_of(db: Database, table: str) -> list[dict[str, Any]]:
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = :name"
    return select_rows(db, text(query + " ORDER BY name").bindparams(name=table))


def refuses(db: Database, statement: str) -> bool:
    """Say whether a foreign key forbids it, on each of the connections that are open."""
    with db.engine.connect() as one, db.engine.connect() as other:
        refusals = []
        for conn in (one, other):
            with pytest.raises(IntegrityError, match="FOREIGN KEY") as refused:
                conn.execute(text(statement))
            refusals.append(refused.value)
            conn.rollback()
    return len(refusals) == 2


def test_the_database_that_is_changed_here_has_rows_that_could_be_lost(filled: Database) -> None:
    left = {table.name for table in metadata.sorted_tables if not rows(filled, table)}

    assert left <= {"staging_ids", "message_counts"}  # SQLite has no counts


@pytest.mark.parametrize("table", OTHER_CHECKS)
def test_a_revision_that_makes_a_table_anew_loses_no_row_of_any(
    filled: Database, with_one_more: Changes, table: str
) -> None:
    before = everything_but(filled, processor_lease)
    checks, indexes = checks_of(filled, table), indexes_of(filled, table)
    particulars = particulars_of(filled)

    found = upgrade_schema(filled, migrations=with_one_more(OTHER_CHECKS[table]))

    assert (found.current, found.wanted) == (newest_revision(), NEXT)
    assert everything_but(filled, processor_lease) == before
    assert (checks_of(filled, table), indexes_of(filled, table)) == (checks, indexes)
    assert particulars_of(filled) == particulars


def test_the_views_are_there_afterwards_and_show_every_row(
    filled: Database, with_one_more: Changes
) -> None:
    upgrade_schema(filled, migrations=with_one_more(OTHER_CHECKS["failed_messages"]))

    assert set(inspect(filled.engine).get_view_names()) == set(VIEWS)
    shown = select_rows(filled, text("SELECT number FROM v_failed_messages ORDER BY number"))
    claims = select_rows(filled, text("SELECT unique_message_id FROM v_failed_message_retries"))
    assert [row["number"] for row in shown] == [r["number"] for r in rows(filled, failed_messages)]
    assert len(claims) == len(rows(filled, failed_message_retries))


def test_foreign_keys_are_looked_at_again_on_every_later_connection(
    filled: Database, with_one_more: Changes
) -> None:
    upgrade_schema(filled, migrations=with_one_more(OTHER_CHECKS["causes"]))

    assert refuses(filled, "DELETE FROM causes")
    assert refuses(filled, "DELETE FROM retry_operations")


def to_what_is_known(tx: Transaction) -> None:
    """Let the database be at the newest revision that the code knows: it works on no other."""
    become_current(tx, newest_revision())


def test_the_work_goes_on_after_it(filled: Database, with_one_more: Changes) -> None:
    upgrade_schema(filled, migrations=with_one_more(OTHER_CHECKS["failed_messages"]))
    filled.transact(to_what_is_known)

    bench = Bench(filled)
    bench.restart()
    bench.work()

    assert bench.batches() == []
    assert {row["state"] for row in rows(filled, retry_operations)} == {"completed"}


def test_a_revision_that_leaves_strays_is_refused_and_undone(
    filled: Database, with_one_more: Changes
) -> None:
    before = everything_but(filled)

    with pytest.raises(StrayRows, match="cause_groups, failed_messages"):
        upgrade_schema(filled, migrations=with_one_more(LEAVE_STRAYS))

    assert everything_but(filled) == before
    assert find_revision(filled).is_current
    assert set(inspect(filled.engine).get_view_names()) == set(VIEWS)
    assert refuses(filled, "DELETE FROM causes")


def test_the_same_revision_would_lose_rows_without_any_error_if_foreign_keys_were_looked_at(
    filled: Database, with_one_more: Changes
) -> None:
    """This is what the tests above are about; it holds for whatever nothing else refers to."""
    config = Config()
    config.set_main_option("script_location", str(with_one_more(OTHER_CHECKS["retry_operations"])))
    with filled.engine.begin() as conn:
        conn.execute(text("DELETE FROM retry_batch_now_forwarding"))
        conn.execute(text("DELETE FROM retry_batches"))
    assert rows(filled, retry_operation_messages) != []

    with filled.engine.begin() as conn:
        take_views_away(Transaction(conn, filled.sql))
        config.attributes["connection"] = conn
        command.upgrade(config, "head")

    assert rows(filled, retry_operation_messages) == []
    assert rows(filled, causes) != []
    assert rows(filled, cause_groups) != []

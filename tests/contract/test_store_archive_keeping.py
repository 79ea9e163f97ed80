"""Archive operations as history: how long they are kept, and what `retrier verify` finds off."""

from datetime import timedelta

import pytest
from sqlalchemy import delete, update

from retrier.domain.archive_operation import Act
from retrier.domain.retention import SecondLook
from retrier.store.engine.database import Database
from retrier.store.schema import archive_operation_messages, archive_operations, failed_messages
from retrier.store.verification import verify_store
from tests.contract.store_rows import rows
from tests.support.archiving import ask, state_of, work_off_all
from tests.support.bench import QUEUE, Bench
from tests.support.old import ago, make_retention, sweep

LONG_AGO = 100
"""Days: operations are kept for 90."""


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def make_old(bench: Bench) -> None:
    with bench.db.engine.begin() as conn:
        conn.execute(update(archive_operations).values(completed_at=ago(LONG_AGO)))


def execute(bench: Bench, statement: object) -> None:
    with bench.db.engine.begin() as conn:
        conn.execute(statement)  # type: ignore[call-overload]


def broken_rules(bench: Bench) -> list[str]:
    return [rule.rule for rule in verify_store(bench.db).rules if rule.broken]


class TestAnOldOperation:
    def test_goes_when_no_message_names_it(self, bench: Bench) -> None:
        bench.fail()
        ask(bench, Act.RESOLVE, queue=QUEUE)
        make_old(bench)

        sweep(bench)

        assert rows(bench.db, archive_operations) == []

    def test_stays_if_it_was_not_due_at_the_look_before(self, bench: Bench) -> None:
        bench.fail()
        ask(bench, Act.RESOLVE, queue=QUEUE)
        execute(bench, update(archive_operations).values(completed_at=ago(91)))
        before = SecondLook(timedelta(0))
        before.note(0, ago(2))

        make_retention(bench, before).sweep()

        assert len(rows(bench.db, archive_operations)) == 1

    def test_goes_with_the_ids_that_it_named(self, bench: Bench) -> None:
        ask(bench, ids=("a", "b", "c"))
        work_off_all(bench)
        make_old(bench)

        sweep(bench)

        assert rows(bench.db, archive_operation_messages) == []

    def test_stays_while_a_message_is_archived_by_it(self, bench: Bench) -> None:
        bench.fail()
        asked = ask(bench, queue=QUEUE)
        make_old(bench)

        sweep(bench)

        assert state_of(bench, asked).done == 1
        assert broken_rules(bench) == []

    def test_stays_while_it_is_not_done(self, bench: Bench) -> None:
        bench.fail(5)
        ask(bench, queue=QUEUE)
        execute(bench, update(archive_operations).values(created_at=ago(LONG_AGO)))

        sweep(bench)

        assert len(rows(bench.db, archive_operations)) == 1


class TestVerify:
    def test_finds_a_message_whose_operation_is_gone(self, bench: Bench) -> None:
        bench.fail()
        ask(bench, queue=QUEUE)
        execute(bench, delete(archive_operations))

        assert broken_rules(bench) == [
            "a message that an operation archived names one that is there and archives"
        ]

    def test_finds_more_messages_than_were_counted(self, bench: Bench) -> None:
        first, second = bench.fail(2)
        asked = ask(bench, ids=(first,))
        mine = failed_messages.c.unique_message_id == second
        archived = {"status": "archived", "archive_operation_id": asked.operation_id}
        execute(bench, update(failed_messages).where(mine).values(archived))

        assert broken_rules(bench) == [
            "no more messages name an archive operation than it has changed"
        ]

    def test_finds_counts_that_do_not_add_up(self, bench: Bench) -> None:
        bench.fail()
        ask(bench, queue=QUEUE)
        execute(bench, update(archive_operations).values(total=2))

        assert broken_rules(bench) == [
            "the counts of an archive operation add up to its total when it is completed"
        ]

    def test_finds_one_that_has_begun_though_it_waits(self, bench: Bench) -> None:
        bench.fail(5)
        ask(bench, queue=QUEUE)
        execute(bench, update(archive_operations).values(cursor=3))

        assert broken_rules(bench) == ["an archive operation that waits has done nothing"]

"""Edits in the database: the first one wins, and whatever is bent is found."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from retrier.domain.edits import AskedEdit, EditRefusal, EditRefused
from retrier.store.edits import delete_of
from retrier.store.engine.database import Database
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import (
    failed_message_retries,
    failed_messages,
    message_edits,
    retry_operations,
)
from retrier.store.verification import verify_store
from retrier.store.verification_rules import EDIT_RULES
from tests.support.bench import Bench
from tests.support.editing import asked, edit

NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def change(bench: Bench, statement: Any) -> None:
    with bench.db.engine.begin() as conn:
        conn.execute(statement)


def broken(bench: Bench) -> list[str]:
    return [each.rule for each in verify_store(bench.db).rules if each.broken]


class TestTwoEditsAtOnce:
    def test_one_wins_and_the_other_is_told_who(self, bench: Bench) -> None:
        (key,) = bench.fail()
        ready = Barrier(2, timeout=10)

        def ask(who: str) -> AskedEdit | EditRefused:
            ready.wait()
            return edit(bench, key, who=who)

        with ThreadPoolExecutor(2) as pool:
            found = {who: pool.submit(ask, who) for who in ("ada", "bob")}
            answers = {who: each.result(30) for who, each in found.items()}

        (winner,) = [who for who, each in answers.items() if isinstance(each, AskedEdit)]
        (refused,) = [each for each in answers.values() if isinstance(each, EditRefused)]
        assert refused.why is EditRefusal.EDITED
        assert winner in refused.about

    def test_are_refused_by_the_database_itself(self, bench: Bench) -> None:
        asked(bench, bench.fail()[0])
        (row,) = bench.rows(select(message_edits))

        with pytest.raises(IntegrityError):
            change(
                bench,
                insert(message_edits).values({**row, "edit_id": NOBODY, "retry_id": NOBODY}),
            )


def test_an_edit_and_a_retry_at_once_send_one_of_both(bench: Bench) -> None:
    keys = bench.fail(8)
    ready = Barrier(2, timeout=10)

    def edit_all() -> list[AskedEdit | EditRefused]:
        ready.wait()
        return [edit(bench, key) for key in keys]

    def retry_all() -> None:
        ready.wait()
        bench.ask_all()
        bench.work()

    with ThreadPoolExecutor(2) as pool:
        edits, retries = pool.submit(edit_all), pool.submit(retry_all)
        taken = [isinstance(each, AskedEdit) for each in edits.result(30)]
        retries.result(30)
    bench.work()

    assert len(bench.transport.broker.holds("orders")) == len(keys)
    assert bench.sent().count("") == sum(taken)


def test_a_deleted_message_takes_its_edits_with_it(bench: Bench) -> None:
    (key,) = bench.fail()
    asked(bench, key)

    number = bench.message(key)["number"]

    def remove(tx: Transaction) -> None:
        delete_of(tx, [number])

    bench.db.transact(remove)

    assert bench.rows(select(message_edits)) == []


BENT: dict[str, Callable[[Bench], Any]] = {
    "an edit that waits has the claim of its message, or waits for approval": lambda _: update(
        message_edits
    ).values(retry_id=NOBODY),
    "a claim of an edit sends one that waits": lambda _: update(failed_message_retries).values(
        edit_id=None
    ),
    "a message resolved as edited has an edit that was sent": lambda _: update(
        failed_messages
    ).values(status="resolved", resolution="edited"),
    "an edit that was sent is recorded as forwarded": lambda bench: update(message_edits).values(
        state="sent", ended_at=bench.clock.now()
    ),
    "every edit is of a message that is there": lambda _: delete(failed_messages),
}


@pytest.mark.parametrize("rule", EDIT_RULES)
def test_what_is_bent_breaks_its_rule(bench: Bench, rule: str) -> None:
    asked(bench, bench.fail()[0])
    assert broken(bench) == []

    change(bench, BENT[rule](bench))

    assert rule in broken(bench)


def test_an_edit_is_an_operation_of_its_own_kind(bench: Bench) -> None:
    made = asked(bench, bench.fail()[0])

    (row,) = bench.rows(select(retry_operations))
    assert (row["operation_id"], row["retry_type"]) == (made.operation_id, "edit")

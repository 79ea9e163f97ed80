"""Ids that somebody writes in capitals: the same ids, on both databases and in every act."""

import pytest

from retrier.domain.archive_operation import Act
from retrier.store.archive import Action
from retrier.store.engine.database import Database
from retrier.store.schema import retry_operation_messages
from tests.contract.store_rows import rows
from tests.support.acting import apply_action
from tests.support.bench import Bench


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def test_a_retry_of_such_an_id_is_sent(bench: Bench) -> None:
    (unique_id,) = bench.fail()

    bench.ask([unique_id.upper()])
    bench.work()

    assert bench.sent() == [unique_id]


def test_a_message_is_archived_by_such_an_id(bench: Bench) -> None:
    (unique_id,) = bench.fail()

    acted = apply_action(bench.db, Action(act=Act.ARCHIVE, who="ada"), [unique_id.upper()])

    assert (acted.done, bench.statuses()) == ((unique_id,), {unique_id: "archived"})


def test_what_was_named_so_says_why_it_was_skipped(bench: Bench) -> None:
    (unique_id,) = bench.fail()
    bench.ask([unique_id.upper()])
    archive = Action(act=Act.ARCHIVE, who="ada")
    bench.at("marking.moved", lambda: apply_action(bench.db, archive, [unique_id]))

    bench.work()

    (named,) = rows(bench.db, retry_operation_messages)
    assert named["skipped_because"] == "it was archived before it was sent"

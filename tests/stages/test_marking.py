"""Marking: whose turn it is, what is cut, and that nothing is cut while a batch waits."""

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from retrier.domain.archive_operation import Act
from retrier.domain.retry_batch import BATCH_BYTES
from retrier.domain.wire import Refused
from retrier.store.archive import Action
from retrier.store.engine.database import Database
from retrier.store.operation_requests import CreatedOperation
from retrier.store.schema import (
    failed_messages,
    retry_batches,
    retry_operation_messages,
    retry_operations,
)
from tests.support.acting import apply_action
from tests.support.bench import QUEUE, Bench
from tests.support.factories import failure
from tests.support.flaky_database import FlakyDatabase
from tests.support.script import to_queue

MARKED_IN_STEPS = ["cut_batch", "claim_messages", "move_to_staging"]


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def change(bench: Bench, operation: CreatedOperation, **columns: object) -> None:
    key = retry_operations.c.operation_id == operation.operation_id
    with bench.db.engine.begin() as conn:
        conn.execute(update(retry_operations).where(key).values(**columns))


def pretend_bodies(bench: Bench, size: int) -> None:
    """Let every message count as so large, without its having to be."""
    with bench.db.engine.begin() as conn:
        conn.execute(update(failed_messages).values(body_size=size))


def skipped(bench: Bench, operation: CreatedOperation) -> dict[str, str | None]:
    named = retry_operation_messages.c
    query = select(retry_operation_messages).where(named.operation_id == operation.operation_id)
    return {row["unique_message_id"]: row["skipped_because"] for row in bench.rows(query)}


def adds_up(row: dict[str, Any]) -> bool:
    return bool(row["forwarded"] + row["failed"] + row["skipped"] == row["total"])


def test_a_batch_holds_no_more_bytes_than_it_may(bench: Bench) -> None:
    ids = bench.fail(5)
    pretend_bodies(bench, BATCH_BYTES // 2)

    operation = bench.ask_all()
    bench.work()

    assert bench.operation(operation)["batches"] == 3
    assert bench.sent() == ids


def test_a_message_larger_than_a_batch_is_a_batch_of_its_own(bench: Bench) -> None:
    ids = bench.fail(3)
    pretend_bodies(bench, BATCH_BYTES + 1)

    operation = bench.ask(ids)
    bench.work()

    assert bench.operation(operation)["batches"] == 3
    assert bench.sent() == ids


def test_a_short_list_goes_before_a_bulk_asked_for_earlier(bench: Bench) -> None:
    bulk = bench.fail(3)
    bench.ask_all()
    (single,) = bench.fail()

    bench.ask([single])
    bench.work()

    assert bench.sent() == [single, *bulk]


def steps_of_marking(bench: Bench) -> list[str]:
    """Let the work be done; return the steps of Marking that a process could be killed at."""
    reached: list[str] = []
    bench.crash_at = reached.append
    bench.work()
    return [name for name in reached if name.startswith("marking.")]


def test_one_named_message_is_marked_in_one_transaction_where_a_bulk_is(bench: Bench) -> None:
    in_steps = ["marking.opened", "marking.claimed", "marking.moved"]
    bench.ask(bench.fail())

    steps = steps_of_marking(bench)

    # An empty cut ends the operation afterwards: it is no step where marking takes one transaction.
    assert steps[:3] == (["marking.moved"] if bench.db.sql.marks_at_once else in_steps)


def test_a_single_retry_reads_and_commits_no_more_than_it_must_until_it_is_sent(
    database: Database,
) -> None:
    flaky = FlakyDatabase(database)
    bench = Bench(flaky)
    first, second = bench.fail(2)
    bench.ask([first])
    bench.work()  # what a process does once is done
    bench.ask([second])

    done: list[str] = []
    flaky.before = done.append
    bench.work()

    marked = ["cut_batch"] if database.sql.marks_at_once else [*MARKED_IN_STEPS, "read"]
    # What is next; after several steps the batch, too; its claims; its original
    sent = ["read", *marked, "read", "begin_forwarding", "read", "open_window"]
    assert done[: len(sent)] == sent


def test_several_named_messages_are_marked_in_steps(bench: Bench) -> None:
    bench.ask(bench.fail(2))

    assert steps_of_marking(bench)[:3] == ["marking.opened", "marking.claimed", "marking.moved"]


def test_one_named_message_that_may_not_be_retried_is_skipped_with_its_reason(
    bench: Bench,
) -> None:
    (archived,) = bench.fail()
    bench.set_status(archived, "archived")

    operation = bench.ask([archived])
    bench.work()

    row = bench.operation(operation)
    assert (row["state"], row["skipped"], row["batches"]) == ("completed", 1, 0)
    assert bench.sent() == []


def test_two_bulk_operations_take_turns(bench: Bench) -> None:
    north = bench.fail(4, endpoint="north")
    south = bench.fail(4, endpoint="south")
    pretend_bodies(bench, BATCH_BYTES // 2)
    bench.ask_all(endpoint="north")
    bench.ask_all(endpoint="south")

    bench.work()

    assert bench.sent() == [*north[:2], *south[:2], *north[2:], *south[2:]]


def test_an_operation_that_is_paused_does_not_hold_up_the_next(bench: Bench) -> None:
    paused = bench.fail(2, endpoint="north")
    others = bench.fail(2, endpoint="south")
    first = bench.ask_all(endpoint="north")
    bench.ask_all(endpoint="south")

    change(bench, first, state="paused")
    bench.work()
    assert bench.sent() == others

    change(bench, first, state="preparing")
    bench.work()
    assert bench.sent() == [*others, *paused]


def test_an_operation_whose_time_has_not_come_does_not_hold_up_the_next(bench: Bench) -> None:
    later = bench.fail(2, endpoint="north")
    others = bench.fail(2, endpoint="south")
    first = bench.ask_all(endpoint="north")
    bench.ask_all(endpoint="south")

    change(bench, first, not_before=datetime(2999, 1, 1, tzinfo=UTC))
    bench.work()
    assert bench.sent() == others

    change(bench, first, not_before=datetime(2001, 1, 1, tzinfo=UTC))
    bench.work()
    assert bench.sent() == [*others, *later]


def test_nothing_is_marked_while_a_batch_waits_for_the_broker(bench: Bench) -> None:
    bench.fail(1, endpoint="north")
    bench.fail(1, endpoint="south")
    bench.ask_all(endpoint="north")
    bench.ask_all(endpoint="south")
    bench.transport.go_down()

    for _ in range(10):
        bench.take_turn()

    assert len(bench.batches()) == 1
    assert len(bench.claims()) == 1


def test_a_reverted_message_is_not_cut_again_by_its_operation(bench: Bench) -> None:
    bench.fail(2)
    bench.transport.cue(Refused("no"), when=to_queue(QUEUE), times=None)

    operation = bench.ask_all()
    bench.work()

    row = bench.operation(operation)
    assert (row["state"], row["batches"], row["failed"]) == ("completed", 1, 2)


def test_a_message_claimed_by_one_operation_is_skipped_by_the_other(bench: Bench) -> None:
    ids = bench.fail(3)
    first, second = bench.ask_all(), bench.ask_all()

    bench.work()

    assert bench.sent() == ids
    assert bench.operation(first)["forwarded"] == 3
    assert bench.operation(second)["skipped"] == 3


def test_a_message_put_aside_before_its_cut_is_counted_as_skipped(bench: Bench) -> None:
    ids = bench.fail(3)
    operation = bench.ask_all()

    bench.set_status(ids[1], "archived")
    bench.work()

    row = bench.operation(operation)
    assert bench.sent() == [ids[0], ids[2]]
    assert (row["skipped"], adds_up(row)) == (1, True)


def test_a_named_message_that_failed_again_is_skipped_with_that_reason(bench: Bench) -> None:
    (unique_id,) = bench.fail(message_id="7")
    operation = bench.ask([unique_id])

    bench.receive(failure(queue=QUEUE, message_id="7"))
    bench.work()

    assert bench.sent() == []
    assert "failed again" in str(skipped(bench, operation)[unique_id])


def test_a_named_message_that_is_claimed_is_skipped_with_that_reason(bench: Bench) -> None:
    (unique_id,) = bench.fail()
    bench.ask([unique_id])
    second = bench.ask([unique_id])

    bench.work()

    assert "its retry was issued" in str(skipped(bench, second)[unique_id])


def test_the_same_id_twice_in_one_request_is_one_message(bench: Bench) -> None:
    (unique_id,) = bench.fail()

    operation = bench.ask([unique_id, unique_id])
    bench.work()

    row = bench.operation(operation)
    assert bench.sent() == [unique_id]
    assert (row["total"], row["forwarded"]) == (1, 1)


def test_a_message_put_aside_after_its_batch_was_opened_is_left_out(bench: Bench) -> None:
    ids = bench.fail(2)
    operation = bench.ask(ids)

    bench.at("marking.opened", lambda: bench.set_status(ids[0], "archived"))
    bench.work()

    assert bench.sent() == [ids[1]]
    assert bench.operation(operation)["skipped"] == 1


def test_a_retry_of_a_group_that_matches_nothing_completes_and_holds_up_nobody(
    bench: Bench,
) -> None:
    ids = bench.fail(2)

    of_nobody = bench.ask_all(group="nobody's")
    of_all = bench.ask_all()
    bench.work()

    row = bench.operation(of_nobody)
    assert (row["state"], row["total"]) == ("completed", 0)
    assert "nothing to retry" in row["reason"]
    assert (bench.sent(), bench.operation(of_all)["state"]) == (ids, "completed")


def test_each_cut_begins_behind_the_one_before(bench: Bench) -> None:
    ids = bench.fail(6)
    pretend_bodies(bench, BATCH_BYTES // 2)
    operation = bench.ask_all()
    floors: list[int] = []

    def look(point: str) -> None:
        if point == "marking.moved":
            floors.append(bench.operation(operation)["floor"])

    bench.crash_at = look
    bench.work()

    assert floors == [bench.message(unique_id)["failure_seq"] for unique_id in ids[1::2]]


@pytest.mark.parametrize("status", ["archived", "resolved"])
def test_what_a_person_has_dealt_with_is_in_no_retry_of_all(bench: Bench, status: str) -> None:
    kept, dealt_with = bench.fail(2)
    act = Act.ARCHIVE if status == "archived" else Act.RESOLVE
    apply_action(bench.db, Action(act=act, who="ada"), [dealt_with])

    operation = bench.ask_all()
    bench.work()

    assert operation.total == 1
    assert bench.sent() == [kept]
    assert bench.statuses()[dealt_with] == status


def test_a_claim_whose_batch_is_gone_can_be_ended_by_hand(bench: Bench) -> None:
    # Given a claim that nobody works off, as only a hand in the database could leave it
    (unique_id,) = bench.fail()
    bench.ask([unique_id])
    bench.turn()
    with bench.db.engine.begin() as conn:
        conn.execute(delete(retry_batches))

    # When it is put aside and taken back, and asked for again
    for act in (Act.ARCHIVE, Act.UNARCHIVE):
        apply_action(bench.db, Action(act=act, who="ada"), [unique_id])
    bench.ask([unique_id])
    bench.work()

    assert bench.sent() == [unique_id]


def test_a_cut_that_claims_nothing_reports_no_batch(bench: Bench) -> None:
    bench.ask(["no message has this id", "nor this"])

    assert "marking.moved" not in steps_of_marking(bench)

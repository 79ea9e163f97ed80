"""Messages that something else holds are left out of a cut, and the operation waits for them."""

import pytest

from retrier.store.engine.database import Database
from retrier.store.marking import OpenedBatch, claim_messages, cut_batch, move_to_staging
from retrier.store.operation_lists import find_operation
from retrier.store.operation_requests import CreatedOperation
from retrier.store.retry_ends import look_again
from retrier.store.schedule import LeftOut, WhatHolds
from retrier.store.schema import failed_messages
from tests.support.bench import Bench

WHY = "the breaker of orders is open"


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def held(*ids: str) -> WhatHolds:
    condition = failed_messages.c.unique_message_id.in_(ids)
    return lambda _tx, _operation: LeftOut(condition=condition, reason=WHY)


def cut(bench: Bench, left_out: WhatHolds) -> bool:
    """Take one turn of Marking with such a condition, and send what it has cut."""
    lease, session = bench.context.lease, bench.context.retries.session_id
    opened = cut_batch(bench.db, lease.fence, session, left_out)
    if isinstance(opened, OpenedBatch):
        marked = claim_messages(bench.db, lease.fence, opened, left_out)
        if marked.end is None:
            move_to_staging(bench.db, lease.fence, opened.batch_id)
    while bench.batches():
        bench.take_turn()
    return opened is not None


def cut_all(bench: Bench, left_out: WhatHolds) -> None:
    while cut(bench, left_out):
        pass


def standing(bench: Bench, created: CreatedOperation) -> tuple[str, int, bool, int]:
    row = bench.operation(created)
    return row["state"], row["forwarded"], row["passed_over"], row["left_out"]


def test_the_others_are_sent(bench: Bench) -> None:
    first, second, third = bench.fail(3)
    bench.ask_all()

    cut_all(bench, held(second))

    assert bench.sent() == [first, third]


def test_the_operation_is_not_completed_but_passed_over(bench: Bench) -> None:
    _, second, _ = bench.fail(3)
    created = bench.ask_all()

    cut_all(bench, held(second))

    assert standing(bench, created) == ("forwarding", 2, True, 1)
    assert bench.operation(created)["reason"] == WHY


def test_it_is_passed_over_though_all_of_it_is_held(bench: Bench) -> None:
    ids = bench.fail(2)
    created = bench.ask_all()

    cut_all(bench, held(*ids))

    assert standing(bench, created) == ("preparing", 0, True, 2)


def test_they_are_sent_when_somebody_says_that_it_changed(bench: Bench) -> None:
    first, second, third = bench.fail(3)
    created = bench.ask_all()
    cut_all(bench, held(second))

    assert look_again(bench.db) == 1
    bench.work()

    assert bench.sent() == [first, third, second]
    assert standing(bench, created) == ("completed", 3, False, 0)
    assert bench.operation(created)["reason"] is None


def test_the_operation_begins_anew_if_nothing_holds_them_at_its_end(bench: Bench) -> None:
    # Given that a cut has left one out, and it is free before the operation ends
    first, second, third = bench.fail(3)
    created = bench.ask_all()
    assert cut(bench, held(second))

    bench.work()

    assert sorted(bench.sent()) == sorted([first, second, third])
    assert standing(bench, created) == ("completed", 3, False, 0)


def test_nothing_is_sent_twice_by_looking_again(bench: Bench) -> None:
    ids = bench.fail(3)
    bench.ask_all()
    cut_all(bench, held(ids[1]))

    look_again(bench.db)
    cut_all(bench, held(ids[1]))
    look_again(bench.db)
    bench.work()

    assert sorted(bench.sent()) == sorted(ids)


def test_nobody_looks_again_for_an_operation_that_left_nothing_out(bench: Bench) -> None:
    bench.fail()
    bench.ask_all()

    assert look_again(bench.db) == 0


def test_who_looks_again_in_the_middle_of_a_cut_loses_nothing(bench: Bench) -> None:
    # Given an operation of which a cut has left one out
    first, second = bench.fail(2)
    created = bench.ask_all()
    assert cut(bench, held(first))
    assert standing(bench, created)[3] == 1

    # When somebody looks again between the two transactions of the next cut
    bench.at("marking.opened", lambda: look_again(bench.db))
    bench.work()

    assert sorted(bench.sent()) == sorted([first, second])


def test_a_message_that_is_named_is_never_left_out(bench: Bench) -> None:
    ids = bench.fail(2)
    bench.ask(ids)

    cut_all(bench, held(*ids))

    assert bench.sent() == ids


def test_a_person_is_told_why_it_waits(bench: Bench) -> None:
    ids = bench.fail(2)
    created = bench.ask_all()
    cut_all(bench, held(*ids))

    found = find_operation(bench.db, created.operation_id)

    assert found is not None
    assert (found.operation.passed_over, found.operation.reason) == (True, WHY)

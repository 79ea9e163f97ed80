"""Pending retries of one queue: the same list and the same total, whichever way it is read."""

import pytest

from retrier.store.engine.database import Database
from retrier.store.message_lists import PageRequest
from retrier.store.pending import Waiting, list_pending
from tests.support.bench import QUEUE, Bench
from tests.support.understood import CODEC

OTHER = "other"


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


EACH_WAY = pytest.mark.parametrize("wide", [1, 1000], ids=["of many", "of few"])


def listed(bench: Bench, wide: int, size: int = 50, **wanted: object) -> tuple[list[str], int]:
    """Return the ids on the first page of pending retries, and how many there are."""
    page = PageRequest(size=size)
    found = list_pending(bench.db, Waiting(**wanted), page, CODEC, wide=wide)
    return [each.message.unique_message_id for each in found.items], found.total


def send(bench: Bench, count: int, **changes: object) -> list[str]:
    """Let so many messages have failed, and their retries have been sent; return their ids."""
    keys = bench.fail(count, **changes)
    bench.ask(keys)
    bench.work()
    return keys


@EACH_WAY
def test_those_of_a_queue_are_listed_and_counted(bench: Bench, wide: int) -> None:
    here = send(bench, 3)
    send(bench, 2, queue=OTHER)

    ids, total = listed(bench, wide, queue=QUEUE)

    assert (sorted(ids), total) == (sorted(here), 3)


@EACH_WAY
def test_one_that_is_not_sent_yet_is_not_counted(bench: Bench, wide: int) -> None:
    (sent,) = send(bench, 1)
    seen = []
    bench.at("forwarding.published", lambda: seen.append(listed(bench, wide, queue=QUEUE)))

    send(bench, 1)

    assert seen == [([sent], 1)]


@EACH_WAY
def test_one_that_has_an_outcome_is_not_counted(bench: Bench, wide: int) -> None:
    handled, waits = send(bench, 2)

    bench.confirm(handled)

    assert listed(bench, wide, queue=QUEUE) == ([waits], 1)


@EACH_WAY
def test_a_page_has_the_total_of_all(bench: Bench, wide: int) -> None:
    send(bench, 3)

    ids, total = listed(bench, wide, size=1, queue=QUEUE)

    assert (len(ids), total) == (1, 3)


@EACH_WAY
def test_those_of_an_operation_and_a_queue_are_both(bench: Bench, wide: int) -> None:
    send(bench, 1)
    both = [*bench.fail(), *bench.fail(queue=OTHER)]
    asked = bench.ask(both)
    bench.work()

    found = listed(bench, wide, queue=QUEUE, operation_id=asked.operation_id)

    assert found == ([both[0]], 1)

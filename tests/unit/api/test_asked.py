"""How many messages were asked for is counted once for each operation."""

import pytest

from tests.support.api import Api
from tests.support.bench import QUEUE, Bench
from tests.support.factories import failure

# What a database does here is the same on each: the counting is what is tested.
pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


def test_the_messages_of_a_retry_are_counted(api: Api) -> None:
    api.receive(failure(), failure())

    api.http.post("/api/errors/retry/all")

    assert api.asked == [2]


def test_a_request_that_is_repeated_is_counted_once(api: Api) -> None:
    api.receive(failure())

    for _ in range(2):
        api.http.post("/api/errors/retry/all", headers={"Idempotency-Key": "k"})

    assert api.asked == [1]


def test_pending_retries_that_are_retried_again_are_counted(api: Api) -> None:
    bench = Bench(api.db)
    ids = bench.fail(2)
    bench.ask_all()
    bench.work()

    for _ in range(2):
        api.http.post("/api/pendingretries/retry", json=ids, headers={"Idempotency-Key": "k"})

    assert api.asked == [2]


def test_a_request_that_finds_nothing_is_no_message(api: Api) -> None:
    api.http.post(f"/api/errors/queues/{QUEUE}/retry")

    assert sum(api.asked) == 0

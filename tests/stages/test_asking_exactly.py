"""Asking for exactly what is meant: what the preview said is what is sent, and nothing else."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from retrier.store.engine.database import Database
from tests.support.api import Api
from tests.support.bench import QUEUE, Bench
from tests.support.disposing import make_dead
from tests.support.factories import FAILED_AT

OTHER, REPLAY = "bills", "replay"
EXCEPTIONS = ("Shop.OutOfStock", "Shop.NoFunds", "Shop.Timeout")
EARLY, LATE = FAILED_AT, FAILED_AT + timedelta(hours=2)


@pytest.fixture
def bench(database: Database) -> Bench:
    """Give a processor, and the queues that it sends to."""
    made = Bench(database)
    for queue in (OTHER, REPLAY):
        made.transport.broker.declare(queue)
    return made


@pytest.fixture
def api(bench: Bench) -> Iterator[Api]:
    """Give the API on the same database."""
    made = Api(bench.db)
    yield made
    made.http.close()


def post(api: Api, path: str, body: Any) -> Any:
    answer = api.http.post(f"/api/{path}", json=body)
    assert answer.is_success, answer.text
    return answer.json()


def test_an_operation_sends_what_its_preview_counted_and_no_more(api: Api, bench: Bench) -> None:
    # Given 3,000 failures of three exceptions on two queues, early and late
    wanted: list[str] = []
    for number in range(60):
        exception = EXCEPTIONS[number % 3]
        queue = (QUEUE, OTHER)[number // 3 % 2]
        time = (EARLY, LATE)[number // 6 % 2]
        ids = bench.fail(50, queue=queue, exception_type=exception, time_of_failure=time)
        wanted += ids if exception == EXCEPTIONS[0] and time == LATE else []
    assert len(wanted) == 500
    more = bench.fail(50, exception_type=EXCEPTIONS[0], time_of_failure=LATE)

    # When some of one exception are asked for, with a limit, to another queue
    body: dict[str, Any] = {
        "selection": {"exception_type": EXCEPTIONS[0], "failed_from": LATE.isoformat()},
        "limit": 500,
        "destination": REPLAY,
    }
    preview = post(api, "operations/preview", body)
    created = post(api, "operations", body | {"plan": preview["plan"]})
    bench.work()

    # Then exactly the oldest of them are there, as the preview said
    assert preview["total"] == preview["would_retry"] == created["total"] == 500
    assert preview["destinations"] == {"lines": [{"name": REPLAY, "count": 500}], "others": 0}
    assert [each["id"] for each in preview["samples"]] == wanted[:5]
    assert bench.sent(REPLAY) == wanted
    assert bench.sent(QUEUE) == bench.sent(OTHER) == []
    left = {key for key, status in bench.statuses().items() if status == "unresolved"}
    assert len(left) == 2550
    assert left >= set(more)
    operation = api.get(f"operations/{created['operation_id']}")
    assert (operation["state"], operation["forwarded"]) == ("completed", 500)


@pytest.mark.parametrize("name", ["host", "process", "node"])
def test_what_failed_at_one_place_is_sent_and_nothing_else(
    api: Api, bench: Bench, name: str
) -> None:
    wanted = bench.fail(2, **{name: "7"})
    bench.fail(1, **{name: "70"})
    bench.fail(1)
    body = {"selection": {name: "7"}}
    preview = post(api, "operations/preview", body)
    post(api, "operations", body)

    bench.work()

    assert preview["would_retry"] == 2
    assert bench.sent() == wanted


def test_what_is_claimed_does_not_use_up_the_limit(api: Api, bench: Bench) -> None:
    first, *rest = bench.fail(4)
    bench.ask([first])
    while not bench.claims():
        bench.turn()
    body = {"selection": {"all": True}, "limit": 3}
    preview = post(api, "operations/preview", body)
    post(api, "operations", body)

    bench.work()

    assert preview["would_retry"] == 3
    assert bench.sent() == [first, *rest]


@pytest.mark.parametrize(("disposition", "sends"), [(None, 90), ("any", 100), ("dead", 10)])
def test_a_group_sends_its_dead_messages_only_if_they_are_asked_for(
    api: Api, bench: Bench, disposition: str | None, sends: int
) -> None:
    # Given a group with 10 dead and 90 manual messages
    make_dead(bench.db, *bench.fail(100)[:10])
    (group,) = api.get("recoverability/groups")
    wanted = {"group": group["id"]} | ({"disposition": disposition} if disposition else {})

    # When it is asked for
    created = post(api, "operations", {"selection": wanted})
    bench.work()

    # Then it sends those, and says how many it has left out, at once and later
    assert len(bench.sent()) == created["total"] == sends
    left = 0 if disposition else 10
    assert created.get("dead_left_out", 0) == left
    assert api.get(f"operations/{created['operation_id']}")["dead_left_out"] == left


def test_what_dies_after_the_request_is_not_sent(api: Api, bench: Bench) -> None:
    dead, manual = bench.fail(2)
    created = post(api, "operations", {"selection": {"all": True}})
    give_up(bench, dead)

    bench.work()

    assert bench.sent() == [manual]
    operation = api.get(f"operations/{created['operation_id']}")
    assert (operation["state"], operation["skipped"]) == ("completed", 1)


def test_what_is_dead_is_neither_counted_nor_sent(api: Api, bench: Bench) -> None:
    dead, manual = bench.fail(2)
    give_up(bench, dead)

    preview = post(api, "operations/preview", {"selection": {"all": True}})
    post(api, "operations", {"selection": {"all": True}})
    bench.work()

    assert preview["would_retry"] == 1
    assert bench.sent() == [manual]


@pytest.mark.parametrize("disposition", ["dead", "manual"])
def test_what_is_asked_for_by_its_disposition_is_counted_and_sent(
    api: Api, bench: Bench, disposition: str
) -> None:
    dead, manual = bench.fail(2)
    give_up(bench, dead)
    body = {"selection": {"disposition": disposition}}

    preview = post(api, "operations/preview", body)
    post(api, "operations", body)
    bench.work()

    assert preview["would_retry"] == 1
    assert bench.sent() == [{"dead": dead, "manual": manual}[disposition]]


def give_up(bench: Bench, unique_id: str) -> None:
    """Let a policy have given up a message."""
    make_dead(bench.db, unique_id)

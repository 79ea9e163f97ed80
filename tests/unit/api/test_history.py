"""Finished retries: the history, and what a group shows until somebody has seen its end."""

from collections.abc import Iterator
from typing import Any

import pytest

from retrier.domain.wire import Refused
from retrier.store.engine.database import Database
from tests.contract.store_rows import again
from tests.support.api import Api
from tests.support.bench import QUEUE, Bench
from tests.support.factories import failure, unique_id
from tests.support.script import to_queue

UNKNOWN = "12345678-1234-1234-1234-123456789abc"


@pytest.fixture
def bench(database: Database) -> Bench:
    """Give a processor on the same database."""
    return Bench(database)


@pytest.fixture
def api(bench: Bench) -> Iterator[Api]:
    """Give the API."""
    made = Api(bench.db)
    yield made
    made.http.close()


def ask(api: Api, selection: dict[str, Any], **terms: Any) -> str:
    answer = api.http.post("/api/operations", json={"selection": selection, **terms})
    return str(answer.json()["operation_id"])


def group_of(api: Api) -> str:
    (group,) = api.get("recoverability/groups")
    return str(group["id"])


def historic(api: Api) -> list[str]:
    found = api.get("recoverability/history")["historic_operations"]
    return [each["operation_id"] for each in found]


def unacknowledged(api: Api) -> list[str]:
    found = api.get("recoverability/history")["unacknowledged_operations"]
    return [each["request_id"] for each in found]


def acknowledge(api: Api, group: str) -> int:
    return int(api.http.delete(f"/api/recoverability/unacknowledgedgroups/{group}").status_code)


def test_there_is_none_at_first(api: Api) -> None:
    empty = {"historic_operations": [], "unacknowledged_operations": []}

    assert api.get("recoverability/history") == empty


def test_an_operation_is_in_it_when_it_is_over(api: Api, bench: Bench) -> None:
    bench.fail(2)
    operation = ask(api, {"queue": QUEUE}, why="the gateway is back")
    assert historic(api) == []

    bench.work()

    (found,) = api.get("recoverability/history")["historic_operations"]
    shown = api.get(f"operations/{operation}")
    assert found == {
        "operation_id": operation,
        "request_id": QUEUE,
        "retry_type": "byQueueAddress",
        "originator": f"retry of queue {QUEUE}",
        "why": "the gateway is back",
        "start_time": shown["started_at"],
        "completion_time": shown["completed_at"],
        "failed": False,
        "number_of_messages_processed": 2,
        "outcomes": shown["outcomes"],
    }
    assert shown["outcomes"]["waiting"] == 2


def test_an_operation_is_not_well_if_one_of_its_messages_came_back(api: Api, bench: Bench) -> None:
    failed = failure(queue=QUEUE)
    bench.receive(failed)
    (other,) = bench.fail(1)
    ask(api, {"queue": QUEUE})
    bench.work()
    (waiting,) = api.get("recoverability/history")["historic_operations"]
    assert "is_well" not in waiting

    bench.confirm(other)
    retry_id = bench.message(unique_id(failed))["last_retry_id"]
    bench.receive(again(failed, queue=QUEUE, retry_id=retry_id, stamped_id=unique_id(failed)))

    (found,) = api.get("recoverability/history")["historic_operations"]
    assert found["is_well"] is False
    assert found["outcomes"]["came_back"] == found["outcomes"]["confirmed"] == 1
    assert found["failed"] is False


def test_the_last_ten_are_shown_the_newest_first(api: Api, bench: Bench) -> None:
    asked = []
    for _ in range(12):
        asked.append(ask(api, {"all": True}))
        bench.work()

    assert historic(api) == asked[:1:-1]


def test_what_named_messages_needs_no_acknowledging(api: Api, bench: Bench) -> None:
    first, second, _ = bench.fail(3)
    ask(api, {"ids": [first]})
    ask(api, {"ids": [first, second]})
    ask(api, {"queue": QUEUE, "attempts_at_least": 1})
    ask(api, {"endpoint": "Sales"})
    ask(api, {"all": True})

    bench.work()

    assert sorted(unacknowledged(api)) == ["All", "Sales"]


def test_of_a_request_the_last_one_is_to_be_acknowledged(api: Api, bench: Bench) -> None:
    for _ in range(2):
        ask(api, {"all": True})
        bench.work()

    assert unacknowledged(api) == ["All"]


def test_one_that_did_not_send_all_is_marked(api: Api, bench: Bench) -> None:
    bench.fail()
    bench.transport.cue(Refused("queue is full"), when=to_queue(QUEUE), times=None)
    ask(api, {"all": True})

    bench.work()

    (found,) = api.get("recoverability/history")["historic_operations"]
    assert (found["failed"], found["number_of_messages_processed"]) == (True, 0)


class TestAGroupWhoseRetryIsOver:
    """Its end is shown until somebody acknowledges it."""

    @pytest.fixture
    def group(self, api: Api, bench: Bench) -> str:
        bench.fail(2)
        group = group_of(api)
        ask(api, {"group": group})
        bench.work()
        return group

    def test_is_listed_with_how_many_were_sent(self, api: Api, group: str) -> None:
        (shown,) = api.get("recoverability/groups")

        assert (shown["id"], shown["count"]) == (group, 2)
        assert (shown["manual"], shown["scheduled"], shown["dead"]) == (0, 0, 0)
        assert shown["last"] <= shown["operation_start_time"]
        assert shown["operation_status"] == "Completed"
        assert shown["operation_progress"] == 1.0
        assert shown["operation_failed"] is False
        assert shown["need_user_acknowledgement"] is True
        assert shown["operation_start_time"] <= shown["operation_completion_time"]

    def test_counts_of_a_cancelled_retry_only_what_was_sent(self, api: Api, bench: Bench) -> None:
        bench.fail(2)
        operation = ask(api, {"group": group_of(api)})
        api.http.delete(f"/api/operations/{operation}")
        bench.work()

        (shown,) = api.get("recoverability/groups")

        assert shown["count"] == 2
        assert shown["operation_messages_completed_count"] == 0
        assert shown["operation_progress"] == 0.0

    def test_is_gone_once_it_is_acknowledged(self, api: Api, group: str) -> None:
        assert unacknowledged(api) == [group]

        assert acknowledge(api, group.upper()) == 200

        assert unacknowledged(api) == []
        assert api.get("recoverability/groups") == []

    def test_shows_when_it_was_retried_if_a_message_fails_later(
        self, api: Api, bench: Bench, group: str
    ) -> None:
        acknowledge(api, group)
        bench.fail()

        (shown,) = api.get("recoverability/groups")

        assert shown["operation_status"] == "None"
        assert shown["need_user_acknowledgement"] is False
        assert "operation_completion_time" in shown

    def test_shows_the_next_retry_instead(self, api: Api, bench: Bench, group: str) -> None:
        bench.fail()
        ask(api, {"group": group})

        (shown,) = api.get("recoverability/groups")

        assert shown["operation_status"] == "Waiting"
        assert shown["need_user_acknowledgement"] is False

    def test_is_acknowledged_with_all_its_retries(self, api: Api, bench: Bench, group: str) -> None:
        bench.fail()
        ask(api, {"group": group})
        bench.work()

        acknowledge(api, group)

        assert api.get("recoverability/groups") == []

    def test_is_acknowledged_once(self, api: Api, group: str) -> None:
        assert [acknowledge(api, group) for _ in range(2)] == [200, 404]

    def test_says_in_the_event_log_who_saw_it(self, api: Api, group: str) -> None:
        acknowledge(api, group)

        newest = api.get("eventlogitems")[0]

        assert (newest["event_type"], newest["who"]) == ("Acknowledged", "anonymous (testclient)")


@pytest.mark.parametrize("group", [UNKNOWN, "nonsense"])
def test_an_unknown_group_cannot_be_acknowledged(api: Api, group: str) -> None:
    assert acknowledge(api, group) == 404


def test_a_group_whose_retry_is_not_over_cannot_be_acknowledged(api: Api, bench: Bench) -> None:
    bench.fail()
    group = group_of(api)
    ask(api, {"group": group})

    assert acknowledge(api, group) == 404

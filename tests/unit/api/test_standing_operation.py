"""The operation that sends what is due by policy, over HTTP: listed first, paused, never cancelled."""

from datetime import timedelta
from typing import Any

import pytest

from retrier.api.answers import time
from retrier.domain.retry_operation import STANDING_OPERATION
from retrier.domain.times import show_time
from retrier.store.engine.database import Database
from retrier.store.figures import read_figures
from tests.support.api import Api
from tests.support.bench import Bench, Killed
from tests.support.scheduling import LATER, schedule

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

PATH = f"/api/operations/{STANDING_OPERATION}"


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def shown(api: Api) -> Any:
    return api.http.get(PATH).json()


def processor(api: Api, *names: str) -> list[Any]:
    found = api.get("processor")
    return [found.get(name) for name in names]


class TestAList:
    def test_has_it_before_everything_newer(self, api: Api, bench: Bench) -> None:
        schedule(api.db, bench.fail(2), within=LATER)
        bench.ask_all()

        first, second = api.get("operations")

        assert (first["id"], first["scheduled"]) == (STANDING_OPERATION, 2)
        assert "scheduled" not in second

    def test_has_it_first_once_on_all_pages(self, api: Api, bench: Bench) -> None:
        schedule(api.db, bench.fail(1), within=LATER)
        bench.ask_all()

        pages = [
            api.http.get(f"/api/operations?page={page}&per_page=1").json()[0]["id"]
            for page in (1, 2)
        ]

        assert pages[0] == STANDING_OPERATION
        assert pages[1] != STANDING_OPERATION

    def test_has_nothing_of_it_before_anything_is_scheduled(self, api: Api, bench: Bench) -> None:
        bench.fail(1)

        assert api.get("operations") == []


class TestTheOperation:
    def test_says_how_much_is_scheduled_and_when_the_next_is_due(
        self, api: Api, bench: Bench
    ) -> None:
        (only,) = bench.fail(1)
        schedule(api.db, [only], within=LATER)

        found = shown(api)

        at = bench.message(only)["retry_at"]
        assert (found["scheduled"], found["next_due"]) == (1, time(at))
        assert (found["state"], found["retry_type"]) == ("waiting", "byPolicy")
        assert found["waits_because"] == f"the next is due at {show_time(at)}"

    def test_says_that_nothing_is_scheduled(self, api: Api, bench: Bench) -> None:
        schedule(api.db, bench.fail(1))
        bench.work()

        found = shown(api)

        assert found["scheduled"] == 0
        assert "next_due" not in found
        assert found["waits_because"] == "no message is scheduled"

    def test_says_how_many_are_on_their_way_and_no_end(self, api: Api, bench: Bench) -> None:
        schedule(api.db, bench.fail(3))
        bench.kill_at("forwarding.stamped")
        with pytest.raises(Killed):
            bench.work()

        found = shown(api)

        assert (found["state"], found["total"], found["remaining"]) == ("forwarding", 3, 3)
        assert "estimated_end" not in found

    def test_says_that_the_policies_bound_it(self, api: Api, bench: Bench) -> None:
        schedule(api.db, bench.fail(2))
        bench.per_second = 1
        while not bench.sent() or bench.batches():
            bench.turn()

        assert shown(api)["waits_because"] == "the policies allow only so many a second"


class TestPausing:
    def test_answers_with_the_operation(self, api: Api, bench: Bench) -> None:
        schedule(api.db, bench.fail(1))

        answer = api.http.patch(PATH, json={"paused": True})
        bench.work()

        assert (answer.status_code, answer.json()["state"]) == (200, "paused")
        assert bench.sent() == []

    def test_is_taken_back(self, api: Api, bench: Bench) -> None:
        ids = bench.fail(1)
        schedule(api.db, ids)
        api.http.patch(PATH, json={"paused": True})

        answer = api.http.patch(PATH, json={"paused": False})
        bench.work()

        assert answer.status_code == 200
        assert bench.sent() == ids


def test_it_cannot_be_cancelled(api: Api, bench: Bench) -> None:
    schedule(api.db, bench.fail(1))

    answer = api.http.delete(PATH)

    assert answer.status_code == 409
    assert "it sends what is due by policy, and never ends" in answer.json()["detail"]
    assert '{"paused": true}' in answer.json()["advice"]
    assert shown(api)["cancel_asked"] is False


def test_it_is_nothing_to_be_acknowledged(api: Api, bench: Bench) -> None:
    schedule(api.db, bench.fail(1))
    bench.work()

    answer = api.http.delete(f"/api/recoverability/unacknowledgedgroups/{STANDING_OPERATION}")

    history = api.get("recoverability/history")
    assert answer.status_code == 404
    assert [history["historic_operations"], history["unacknowledged_operations"]] == [[], []]


class TestTheProcessor:
    def test_waits_for_the_next_that_is_due(self, api: Api, bench: Bench) -> None:
        (only,) = bench.fail(1)
        schedule(api.db, [only], within=LATER)

        waits_for, until = processor(api, "waits_for", "until")

        assert (waits_for, until) == ("time", time(bench.message(only)["retry_at"]))

    def test_waits_for_a_request_while_nothing_is_scheduled(self, api: Api, bench: Bench) -> None:
        schedule(api.db, bench.fail(1))
        bench.work()

        assert processor(api, "waits_for") == ["request"]

    def test_is_about_to_cut_what_is_due(self, api: Api, bench: Bench) -> None:
        schedule(api.db, bench.fail(1))

        assert processor(api, "stage", "operation_id") == ["marking", STANDING_OPERATION]

    def test_names_what_can_be_cut_before_what_is_not_due(self, api: Api, bench: Bench) -> None:
        schedule(api.db, bench.fail(1), within=LATER)
        created = bench.ask_all()

        assert processor(api, "stage", "operation_id") == ["marking", created.operation_id]

    def test_waits_for_whoever_resumes_it(self, api: Api, bench: Bench) -> None:
        schedule(api.db, bench.fail(1), within=timedelta(0))
        api.http.patch(PATH, json={"paused": True})

        assert processor(api, "waits_for", "why") == ["person", "it is paused"]


class TestTheFigures:
    def test_leave_it_out_while_nothing_is_due(self, api: Api, bench: Bench) -> None:
        schedule(api.db, bench.fail(1))
        bench.work()

        assert read_figures(api.db).operations == {}

    def test_have_it_while_it_is_paused(self, api: Api, bench: Bench) -> None:
        schedule(api.db, bench.fail(1))
        api.http.patch(PATH, json={"paused": True})

        assert read_figures(api.db).operations == {"paused": 1}

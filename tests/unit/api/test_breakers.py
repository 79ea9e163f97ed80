"""Breakers over HTTP: listed, opened and closed by hand, and bad requests."""

from typing import Any

import pytest

from retrier.domain.breakers import BreakerRules
from retrier.store.engine.database import Database
from tests.support.api import Api
from tests.support.breaking import Breakdown

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@pytest.fixture
def bench(database: Database) -> Breakdown:
    return Breakdown(database)


def act(api: Api, key: str, word: str, **body: Any) -> Any:
    return api.http.post(
        f"/api/breakers/{key}/{word}", json=body, headers={"X-Retrier-User": "ada"}
    )


class TestTheList:
    def test_is_empty_at_first(self, api: Api) -> None:
        assert api.get("breakers") == []

    def test_shows_why_messages_wait(self, bench: Breakdown, api: Api) -> None:
        bench.break_down()
        bench.work()

        (shown,) = api.get("breakers")

        assert (shown["key"], shown["state"], shown["rule"]) == ("orders", "open", "breakers")
        assert (shown["failed"], shown["sent"], shown["cooldown_seconds"]) == (4, 4, 60.0)
        assert shown["waits_because"].startswith("`orders` answers nothing since ")

    def test_has_those_first_that_are_not_closed(self, bench: Breakdown, api: Api) -> None:
        bench.ask(bench.fail(queue="orders"))
        bench.work()
        act(api, "z", "open")

        assert [each["key"] for each in api.get("breakers")] == ["z", "orders"]


class TestOpening:
    def test_says_until_when_by_whom_and_why(self, api: Api) -> None:
        found = act(api, "orders", "open", **{"for": "2h", "why": "it is moved"})

        assert found.status_code == 200
        shown = found.json()
        assert (shown["state"], shown["never_seen"]) == ("open", True)
        hand = shown["by_hand"]
        assert (hand["state"], hand["who"], hand["why"]) == (
            "open",
            "ada (testclient)",
            "it is moved",
        )

    def test_needs_no_body(self, api: Api) -> None:
        assert api.http.post("/api/breakers/orders/open").status_code == 200

    def test_wakes_the_processor(self, api: Api) -> None:
        act(api, "orders", "open")

        assert api.wakes == 1

    def test_knows_what_has_failed(self, bench: Breakdown, api: Api) -> None:
        bench.fail(queue="orders")

        assert not act(api, "orders", "open").json()["never_seen"]
        assert not act(api, "message_type:Shop.PlaceOrder", "open").json()["never_seen"]

    @pytest.mark.parametrize("key", ["a/b", "a/open", "a%2Fb", "é", "message_type:A/B"])
    def test_takes_any_name(self, api: Api, key: str) -> None:
        found = act(api, key, "open")

        assert found.json()["key"] == key.replace("%2F", "/")

    @pytest.mark.parametrize("time", ["999ms", "0s", "8d", "2", "soon", 7, ""])
    def test_is_for_1_s_to_7_d(self, api: Api, time: object) -> None:
        assert act(api, "orders", "open", **{"for": time}).status_code == 422

    @pytest.mark.parametrize("time", ["1s", "7d", "1000ms"])
    def test_may_be_as_short_and_as_long(self, api: Api, time: object) -> None:
        assert act(api, "orders", "open", **{"for": time}).status_code == 200

    @pytest.mark.parametrize("body", [{"lasts": "1h"}, {"why": "w" * 1001}, {"why": 7}])
    def test_refuses_what_it_does_not_know(self, api: Api, body: dict[str, object]) -> None:
        assert act(api, "orders", "open", **body).status_code == 422

    @pytest.mark.parametrize("key", ["message_type:", "q" * 501, "a%00b"])
    def test_refuses_what_is_no_name(self, api: Api, key: str) -> None:
        assert act(api, key, "open").status_code == 400


class TestClosing:
    def test_ends_what_was_opened(self, api: Api) -> None:
        act(api, "orders", "open")

        shown = act(api, "orders", "close").json()

        assert (shown["state"], shown["never_seen"]) == ("closed", False)
        assert "by_hand" not in shown

    def test_may_be_for_a_time(self, api: Api) -> None:
        shown = act(api, "orders", "close", **{"for": "1h"}).json()

        assert shown["by_hand"]["state"] == "closed"

    def test_ends_one_that_opened_by_itself(self, bench: Breakdown, api: Api) -> None:
        bench.break_down()
        bench.work()

        assert act(api, "orders", "close").json()["state"] == "closed"


def test_it_is_in_the_event_log(api: Api) -> None:
    act(api, "orders", "open", why="it is moved")
    act(api, "orders", "close")

    told = api.get("eventlogitems")
    assert [each["kind"] for each in told] == ["breaker_closed", "breaker_opened"]
    assert "is held by ada (testclient) until" in told[1]["description"]


class TestWhatWaits:
    """Wherever something waits for a breaker, it is said."""

    @pytest.fixture
    def waiting(self, bench: Breakdown) -> Breakdown:
        bench.break_down()
        bench.work()
        return bench

    WORDS = "`orders` answers nothing since "

    def test_an_operation(self, waiting: Breakdown, api: Api) -> None:
        created = waiting.ask_all()
        waiting.work()

        shown = api.get(f"operations/{created.operation_id}")

        assert shown["waits_because"].startswith(self.WORDS)

    def test_a_message(self, waiting: Breakdown, api: Api) -> None:
        (key, *_) = waiting.statuses()

        assert api.get(f"errors/{key}")["waits_because"].startswith(self.WORDS)

    @pytest.mark.usefixtures("waiting")
    def test_a_group(self, api: Api) -> None:
        (shown, *_) = api.get("recoverability/groups")

        assert shown["waits_because"].startswith(self.WORDS)

    def test_nothing_waits_without_one(self, bench: Breakdown, api: Api) -> None:
        bench.breaker_rules = BreakerRules()
        (key,) = bench.fail()

        assert "waits_because" not in api.get(f"errors/{key}")
        assert "waits_because" not in api.get("recoverability/groups")[0]

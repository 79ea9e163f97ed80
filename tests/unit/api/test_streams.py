"""Streams over HTTP: listed, shown, released, and what is refused."""

import pytest

from retrier.store.engine.database import Database
from tests.support.api import Api
from tests.support.bench import QUEUE, Bench
from tests.support.disposing import make_dead
from tests.support.streams import ORDER, fail_in_stream

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def release(api: Api, body: object = None, stream: str = ORDER, **params: str):
    query = {"queue": QUEUE, **params}
    return api.http.post(f"/api/streams/{stream}/release", params=query, json=body)


class TestTheList:
    def test_has_each_stream_with_open_messages(self, api: Api, bench: Bench) -> None:
        head, *_ = fail_in_stream(bench, 3)

        (shown,) = api.get("streams")

        assert shown == {
            "id": ORDER,
            "queue": QUEUE,
            "open": 3,
            "held": 2,
            "released": 0,
            "head": {
                "id": head,
                "status": "unresolved",
                "disposition": "manual",
                "state": "a message which waits for a person",
            },
        }

    def test_begins_with_what_holds_most(self, api: Api, bench: Bench) -> None:
        fail_in_stream(bench, 2, stream_id="a")
        fail_in_stream(bench, 3, stream_id="b")

        assert [each["id"] for each in api.get("streams")] == ["b", "a"]

    def test_can_be_of_one_queue(self, api: Api, bench: Bench) -> None:
        fail_in_stream(bench, 1)
        fail_in_stream(bench, 1, queue="invoices")

        assert [each["queue"] for each in api.get("streams", queue="invoices")] == ["invoices"]

    def test_can_be_of_those_that_hold_something(self, api: Api, bench: Bench) -> None:
        fail_in_stream(bench, 1, stream_id="a")
        fail_in_stream(bench, 2, stream_id="b")

        assert [each["id"] for each in api.get("streams", held="true")] == ["b"]

    def test_is_empty_without_streams(self, api: Api, bench: Bench) -> None:
        bench.fail()

        assert api.get("streams") == []


class TestOneStream:
    def test_shows_its_messages_in_order_and_what_holds_them(self, api: Api, bench: Bench) -> None:
        ids = fail_in_stream(bench, 3)

        shown = api.get(f"streams/{ORDER}", queue=QUEUE)

        assert [each["id"] for each in shown["messages"]] == ids
        held = f"held behind {ids[0]} (stream {ORDER}), which waits for a person"
        assert [each.get("held_because") for each in shown["messages"]] == [None, held, held]
        assert {each["rule"] for each in shown["messages"]} == {"strict"}

    def test_is_found_though_its_id_has_slashes(self, api: Api, bench: Bench) -> None:
        fail_in_stream(bench, 2, stream_id="shop/42/release")

        assert api.get("streams/shop%2F42%2Frelease", queue=QUEUE)["open"] == 2
        assert release(api, stream="shop/42/release").json()["released"] == 1

    def test_that_is_unknown_is_404(self, api: Api, bench: Bench) -> None:
        fail_in_stream(bench, 1)

        assert api.http.get("/api/streams/other", params={"queue": QUEUE}).status_code == 404
        assert api.http.get(f"/api/streams/{ORDER}", params={"queue": "o"}).status_code == 404

    def test_needs_its_queue(self, api: Api, bench: Bench) -> None:
        fail_in_stream(bench, 1)

        assert api.http.get(f"/api/streams/{ORDER}").status_code == 400


class TestARelease:
    def test_lets_go_all_that_is_held(self, api: Api, bench: Bench) -> None:
        _, *rest = fail_in_stream(bench, 3)

        answer = release(api)

        assert answer.status_code == 202
        assert answer.json() == {"released": 2, "ids": rest, "not_held": []}
        assert api.wakes == 1

    def test_lets_go_only_what_is_named(self, api: Api, bench: Bench) -> None:
        head, _, third = fail_in_stream(bench, 3)

        answer = release(api, {"ids": [third, head]})

        assert answer.json() == {"released": 1, "ids": [third], "not_held": [head]}

    def test_is_told_in_the_event_log(self, api: Api, bench: Bench) -> None:
        _, second = fail_in_stream(bench, 2)
        release(api)

        told = {each["event_type"]: str(each["related_to"]) for each in events(api)}

        assert "StreamReleased" in told
        assert second in told["MessageReleased"]

    def test_of_an_unknown_stream_is_404(self, api: Api, bench: Bench) -> None:
        fail_in_stream(bench, 2)

        assert release(api, stream="other").status_code == 404

    def test_of_ids_that_are_not_in_it_is_409_and_says_which(self, api: Api, bench: Bench) -> None:
        _, second = fail_in_stream(bench, 2)
        stranger = bench.fail()[0]

        answer = release(api, {"ids": [second, stranger, "nonsense"]})

        assert answer.status_code == 409
        assert f"Not in this stream: {stranger}, nonsense." in answer.json()["detail"]
        assert not bench.message(second)["released"]

    @pytest.mark.parametrize("body", [{"ids": []}, {"id": "1"}, {"ids": "1"}, [1]])
    def test_with_another_body_is_422(self, api: Api, bench: Bench, body: object) -> None:
        fail_in_stream(bench, 2)

        assert release(api, body).status_code == 422


def events(api: Api) -> list[dict[str, str]]:
    found: list[dict[str, str]] = api.get("eventlogitems")
    return found


class TestAHeadThatWaitsForABreaker:
    """It says so: that it waits for a person would not be true."""

    @pytest.fixture
    def ids(self, api: Api, bench: Bench) -> list[str]:
        ids = fail_in_stream(bench, 2)
        api.http.post(f"/api/breakers/{QUEUE}/open", json={"why": "it is moved"})
        return ids

    WHY = f"which is not retried now: `{QUEUE}` is held by "

    @pytest.mark.usefixtures("ids")
    def test_in_the_list(self, api: Api) -> None:
        (shown,) = api.get("streams")

        assert shown["head"]["state"].startswith(f"a message {self.WHY}")

    def test_at_what_it_holds(self, api: Api, ids: list[str]) -> None:
        shown = api.get(f"streams/{ORDER}", queue=QUEUE)

        expected = f"held behind {ids[0]} (stream {ORDER}), {self.WHY}"
        assert shown["messages"][1]["held_because"].startswith(expected)

    def test_but_a_dead_one_waits_for_a_person(self, api: Api, ids: list[str]) -> None:
        make_dead(api.db, ids[0])

        (shown,) = api.get("streams")

        assert shown["head"]["state"].startswith("a message which is dead")


class TestARetryOfAMessageThatIsNamed:
    def test_is_answered_at_once_with_what_holds_it(self, api: Api, bench: Bench) -> None:
        first, second = fail_in_stream(bench, 2)

        answer = api.http.post(f"/api/errors/{second}/retry")

        assert answer.status_code == 202
        shown = answer.json()
        assert (shown["total"], shown["skipped"]) == (1, 1)
        (skipped,) = shown["skipped_messages"]
        assert skipped["id"] == second
        assert skipped["reason"].startswith(f"held behind {first} (stream {ORDER})")

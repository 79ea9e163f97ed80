"""GET /api/events: what happens is told as it happens, in order, to everybody who follows."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import httpx
import pytest

from retrier.api.live import LiveFeed, Relay
from retrier.store.event_log import Entry, append, list_events_after
from tests.support.api import Api
from tests.support.factories import failure
from tests.support.flaky_database import FlakyDatabase
from tests.support.plain_http import client_at
from tests.support.readers import IN_TIME, Reader, served
from tests.support.waiting import wait_until

Follow = Callable[..., Reader]

SOON = 1.0
"""Seconds within which an event is told after its commit."""


@pytest.fixture
def base(api: Api) -> Iterator[str]:
    """Give the address of a server with the API."""
    with served(api) as address:
        yield address


@pytest.fixture
def http(base: str) -> Iterator[httpx.Client]:
    """Give a client of it."""
    with client_at(base) as http:
        yield http


@pytest.fixture
def follow(base: str) -> Iterator[Follow]:
    """Give a function that begins to follow; all leave at the end."""
    with ExitStack() as stack:

        def begin(last_event_id: str | None = None, **params: Any) -> Reader:
            reader = Reader(base, last_event_id, **params)
            stack.callback(reader.leave)
            return reader

        yield begin


def ask(api: Api, queue: str = "orders") -> str:
    """Ask for a retry; return the id of its operation."""
    return str(api.http.post(f"/api/errors/queues/{queue}/retry").json()["operation_id"])


def test_an_act_is_told_within_a_second(api: Api, follow: Follow) -> None:
    reader = follow()

    operation = ask(api)

    told = reader.wait_for("retry_asked", SOON)
    assert told["related_to"] == [f"/operation/{operation}"]


def test_what_happened_before_is_not_told(api: Api, follow: Follow) -> None:
    ask(api)

    reader = follow()

    later = ask(api)
    assert reader.wait_for("retry_asked")["related_to"] == [f"/operation/{later}"]


def test_an_event_carries_the_id_under_which_to_go_on(api: Api, follow: Follow) -> None:
    reader = follow()
    ask(api)

    told = reader.wait_for("retry_asked")

    assert told["last_id"] == told["id"]


def test_who_connects_again_gets_what_came_meanwhile(api: Api, follow: Follow) -> None:
    first = follow()
    ask(api)
    first.wait_for("retry_asked")
    first.leave()
    missed = [ask(api), ask(api)]

    again = follow(first.last_id)

    wait_until(lambda: len(again.events) == 2, IN_TIME)
    assert [each["related_to"] for each in again.events] == [
        [f"/operation/{key}"] for key in missed
    ]


def test_who_cannot_set_headers_names_the_event_in_the_address(api: Api, follow: Follow) -> None:
    ask(api)

    reader = follow(None, place="0")

    reader.wait_for("retry_asked", IN_TIME)


def test_a_reader_who_had_no_event_yet_knows_where_to_go_on(api: Api, follow: Follow) -> None:
    reader = follow()
    wait_until(lambda: reader.last_id != "", IN_TIME)
    reader.leave()
    ask(api)

    follow(reader.last_id).wait_for("retry_asked", IN_TIME)


def test_an_id_that_was_never_given_means_from_now_on(api: Api, follow: Follow) -> None:
    reader = follow("999999999")

    ask(api)

    reader.wait_for("retry_asked", IN_TIME)


def test_a_reader_far_behind_gets_all_in_order(api: Api, follow: Follow) -> None:
    api.http.post("/api/errors/retry", json=[f"unknown-{number}" for number in range(3)])
    for _ in range(20):
        api.http.patch("/api/errors/archive", json=["unknown"])

    reader = follow("0")

    wait_until(lambda: len(reader.events) == 21, IN_TIME)
    ids = [int(each["id"]) for each in reader.events]
    assert ids == sorted(ids)


def test_a_reader_very_far_behind_gets_all_from_the_database(api: Api, follow: Follow) -> None:
    events = [Entry(kind="test", text=str(number)) for number in range(1200)]
    api.db.transact(lambda tx: append(tx, events))

    reader = follow("0")

    wait_until(lambda: len(reader.events) == 1200, IN_TIME)
    assert [each["description"] for each in reader.events] == [each.text for each in events]


@pytest.mark.parametrize("wanted", ["kind", "operation", "message"])
def test_only_what_is_wanted_is_told(api: Api, follow: Follow, wanted: str) -> None:
    key, other = api.receive(failure(), failure())
    operation = ask(api)
    values = {"kind": "message_archived,import_sent", "operation": operation, "message": key}
    live, behind = follow(**{wanted: values[wanted]}), follow("0", **{wanted: values[wanted]})
    api.http.patch("/api/errors/archive", json=[other])

    api.http.patch("/api/errors/archive", json=[key])

    expected = {
        "kind": ["message_archived", "message_archived"],
        "operation": ["retry_asked"],
        "message": ["message_archived"],
    }[wanted]
    wait_until(lambda: behind.kinds == expected, IN_TIME)
    if wanted != "operation":
        wait_until(lambda: live.kinds == expected, IN_TIME)


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "9" * 19, "\u0663"])
def test_what_is_no_event_is_refused(api: Api, text: str) -> None:
    answer = api.http.get("/api/events", params={"last_event_id": text})

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "query.last_event_id"


def test_an_operation_that_is_no_id_is_refused(api: Api) -> None:
    answer = api.http.get("/api/events", params={"operation": "8d07"})

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "query.operation")


class TestPlaces:
    @pytest.fixture
    def api(self, api: Api) -> Api:
        """Give an API with places for two readers."""
        feed = LiveFeed(api.db, most=2)
        api.app.state.parts = replace(api.app.state.parts, feed=feed)
        return api

    def test_who_finds_none_is_to_come_again_later(
        self, follow: Follow, http: httpx.Client
    ) -> None:
        follow()
        follow()

        refused = http.get("/api/events")

        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
        assert "2 readers" in refused.json()["detail"]

    def test_who_leaves_frees_one(self, follow: Follow, http: httpx.Client) -> None:
        first, _ = follow(), follow()

        first.leave()

        def is_free() -> bool:
            with http.stream("GET", "/api/events") as answer:
                return answer.status_code == 200

        wait_until(is_free, IN_TIME)


def test_everything_else_is_answered_while_readers_follow(
    follow: Follow, http: httpx.Client
) -> None:
    readers = [follow() for _ in range(60)]

    answers = {http.get(path).status_code for path in ("/health", "/api/errors")}

    assert answers == {200}
    assert not any(each.ended.is_set() for each in readers)


def test_a_stop_ends_every_answer_well(api: Api, follow: Follow) -> None:
    readers = [follow() for _ in range(10)]

    api.app.state.parts.feed.stop()

    for each in readers:
        assert each.ended.wait(IN_TIME)
    assert {each.answer.status_code for each in readers} == {200}


def test_nobody_begins_to_follow_after_a_stop(api: Api, http: httpx.Client) -> None:
    api.app.state.parts.feed.stop()

    assert http.get("/api/events").status_code == 503


def test_a_page_of_another_host_cannot_follow(http: httpx.Client) -> None:
    refused = http.get("/api/events", headers={"Host": "evil.example"})

    assert refused.status_code == 421


class TestADatabaseThatIsLost:
    @pytest.fixture
    def flaky(self, api: Api) -> FlakyDatabase:
        """Give the database as the feed sees it."""
        flaky = FlakyDatabase(api.db)
        feed = LiveFeed(flaky)
        api.app.state.parts = replace(api.app.state.parts, feed=feed)
        return flaky

    def test_leaves_nothing_out_when_it_is_back(
        self, api: Api, flaky: FlakyDatabase, follow: Follow
    ) -> None:
        reader = follow()
        flaky.refuse("read", times=2)
        operation = ask(api)

        told = reader.wait_for("retry_asked")

        assert told["related_to"] == [f"/operation/{operation}"]
        assert not reader.ended.is_set()

    def test_is_told_to_who_comes_then(self, flaky: FlakyDatabase, http: httpx.Client) -> None:
        flaky.refuse("read")

        refused = http.get("/api/events")

        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
        with http.stream("GET", "/api/events") as later:
            assert later.status_code == 200


def test_events_that_are_not_in_memory_any_more_are_not_looked_for_there(api: Api) -> None:
    api.db.transact(lambda tx: append(tx, [Entry(kind="t", text=each) for each in "abcd"]))
    events = list_events_after(api.db, 0, 4)
    first = events[0].event_id

    async def tell() -> list[int | None]:
        relay = Relay(kept=2)
        relay.begin(first - 1)
        relay.publish(events[-1].event_id, events)
        found = (relay.find_after(first + behind) for behind in (0, 1, 2, 3))
        return [None if each is None else len(each) for each in found]

    assert asyncio.run(tell()) == [None, 2, 1, 0]

"""Pending retries over HTTP: what waits, for how long, where it went, and how it is ended."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update

from retrier.store.redirects import create_redirect
from retrier.store.schema import failed_message_retries
from tests.support.api import Api
from tests.support.bench import QUEUE, Bench
from tests.support.factories import confirmation, failure

HOUR = 3600


@pytest.fixture
def bench(api: Api) -> Bench:
    return Bench(api.db)


def send(bench: Bench, *, waiting: float = 0, **changes: Any) -> str:
    """Let one retry have been sent, so many seconds ago; return the id of its message."""
    (key,) = bench.fail(**changes)
    bench.ask([key])
    bench.work()
    sent = bench.db.read(lambda tx: tx.now) - timedelta(seconds=waiting)
    mine = failed_message_retries.c.number == bench.message(key)["number"]
    values = {"sending_since": sent, "forwarded_at": sent}
    with bench.db.engine.begin() as conn:
        conn.execute(update(failed_message_retries).where(mine).values(**values))
    return key


def ids(api: Api, **params: Any) -> list[str]:
    return api.ids("pendingretries", **params)


class TestTheList:
    def test_has_the_longest_wait_first(self, api: Api, bench: Bench) -> None:
        young, old = send(bench), send(bench, waiting=HOUR)

        first, second = api.get("pendingretries")

        assert (first["id"], second["id"]) == (old, young)
        assert HOUR <= first["waiting_seconds"] < HOUR + 60
        assert first["claim"]["retry_id"] == bench.retry_id(old)
        assert not first["claim"]["in_doubt"]

    def test_says_how_many_there_are_on_all_pages(self, api: Api, bench: Bench) -> None:
        send(bench), send(bench)

        answer = api.http.get("/api/pendingretries", params={"per_page": 1})

        assert (len(answer.json()), answer.headers["Total-Count"]) == (1, "2")

    def test_has_nothing_that_has_its_outcome_or_was_not_sent(self, api: Api, bench: Bench) -> None:
        done = send(bench)
        bench.receive(confirmation(done))
        bench.fail()

        assert ids(api) == []

    def test_is_narrowed_by_queue_age_and_operation(self, api: Api, bench: Bench) -> None:
        old, young = send(bench, waiting=HOUR), send(bench)
        operation = api.get("operations")[0]["id"]

        assert ids(api, older_than=HOUR / 2) == [old]
        assert ids(api, operation=operation) == [young]
        assert ids(api, queue=QUEUE) == [old, young]
        assert ids(api, queue="other") == ids(api, operation="nobody's") == []

    def test_says_where_a_redirect_led(self, api: Api, bench: Bench) -> None:
        plain = send(bench)
        bench.transport.broker.declare("elsewhere")
        create_redirect(bench.db, QUEUE, "elsewhere", own_queues=frozenset(), who="ada")
        led = send(bench)

        sent_to = {each["id"]: each["sent_to"] for each in api.get("pendingretries")}

        assert sent_to == {plain: QUEUE, led: "elsewhere"}

    def test_is_told_by_its_message_too(self, api: Api, bench: Bench) -> None:
        bench.transport.broker.declare("elsewhere")
        create_redirect(bench.db, QUEUE, "elsewhere", own_queues=frozenset(), who="ada")
        led = send(bench)
        (waiting,) = bench.fail()

        assert api.get(f"errors/{led}")["sent_to"] == "elsewhere"
        assert "sent_to" not in api.get(f"errors/{waiting}")

    @pytest.mark.parametrize("age", ["0", "-1", "NaN", "inf", "2 days", "1e300"])
    def test_takes_no_age_that_is_none(self, api: Api, age: str) -> None:
        assert api.http.get("/api/pendingretries", params={"older_than": age}).status_code == 400

    @pytest.mark.parametrize("age", ["2d", "48h", str(2 * 86400)])
    def test_takes_an_age_as_a_duration_or_in_seconds(self, api: Api, age: str) -> None:
        assert api.http.get("/api/pendingretries", params={"older_than": age}).json() == []


class TestThoseThatMatch:
    @pytest.mark.parametrize(
        ("body", "left"),
        [({}, []), ({"queue": QUEUE}, []), ({"older_than": HOUR / 2}, ["young"])],
        ids=["all", "of a queue", "of an age"],
    )
    def test_are_resolved_by_hand(
        self, api: Api, bench: Bench, body: dict[str, Any], left: list[str]
    ) -> None:
        named = {send(bench, waiting=HOUR): "old", send(bench): "young"}

        answer = api.http.patch("/api/pendingretries/resolve/all", json=body)

        assert answer.status_code == 202
        assert (answer.json()["resolved"], answer.json()["skipped"]) == (2 - len(left), [])
        assert [named[each] for each in ids(api)] == left

    def test_are_retried_again(self, api: Api, bench: Bench) -> None:
        old, young = send(bench, waiting=HOUR), send(bench)

        answer = api.http.post("/api/pendingretries/retry/all", json={"older_than": HOUR / 2})
        bench.work()

        assert (answer.status_code, answer.json()["total"]) == (202, 1)
        assert sorted(bench.sent()) == sorted([old, old, young])

    def test_are_asked_for_once_under_one_key(self, api: Api, bench: Bench) -> None:
        send(bench)
        key, body = {"Idempotency-Key": "k"}, {"queue": QUEUE}

        first = api.http.post("/api/pendingretries/retry/all", json=body, headers=key)
        bench.work()
        second = api.http.post("/api/pendingretries/retry/all", json=body, headers=key)

        assert second.json() == first.json()

    @pytest.mark.parametrize(
        "body",
        [{"queueaddress": QUEUE}, {"queue": ""}, {"older_than": "2 days"}, {"older_than": 0}, []],
    )
    def test_are_not_all_of_them_where_the_condition_is_misspelled(
        self, api: Api, bench: Bench, body: Any
    ) -> None:
        waiting = send(bench)

        for method, act in (("POST", "retry"), ("PATCH", "resolve")):
            path = f"/api/pendingretries/{act}/all"
            assert api.http.request(method, path, json=body).status_code == 422

        assert ids(api) == [waiting]


EVER = {"from": "1970-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"}


@pytest.mark.parametrize("misread", ["queueaddress", "queue", "older_than", "uniquemessageid"])
def test_those_of_a_time_are_not_those_of_all_queues_where_a_condition_is_not_read(
    api: Api, bench: Bench, misread: str
) -> None:
    waiting = send(bench)

    answer = api.http.patch("/api/pendingretries/resolve", json={**EVER, misread: "nowhere"})

    assert (answer.status_code, ids(api)) == (422, [waiting])


@pytest.mark.parametrize(("method", "act"), [("POST", "retry"), ("PATCH", "resolve")])
def test_those_of_a_queue_are_not_all_of_it_where_a_condition_is_not_read(
    api: Api, bench: Bench, method: str, act: str
) -> None:
    waiting = send(bench)
    body = {**EVER, "queueaddress": QUEUE, "older_than": 172800}

    answer = api.http.request(method, f"/api/pendingretries/queues/{act}", json=body)

    assert (answer.status_code, ids(api)) == (422, [waiting])


def test_a_list_of_messages_says_on_what_evidence_they_are_resolved(api: Api, bench: Bench) -> None:
    first, second = send(bench), send(bench)
    bench.receive(confirmation(first))
    api.http.patch("/api/pendingretries/resolve/all", json={})
    bench.receive(failure())

    resolutions = {each["id"]: each.get("resolution") for each in api.get("errors")}

    assert sorted(map(str, resolutions.values())) == ["None", "byHand", "confirmed"]
    assert (resolutions[first], resolutions[second]) == ("confirmed", "byHand")


@pytest.mark.parametrize(
    ("count", "words"), [(1, "retry of 1 pending retry"), (2, "retry of 2 pending retries")]
)
def test_the_operation_of_named_ones_says_how_many(
    api: Api, bench: Bench, count: int, words: str
) -> None:
    keys = [send(bench) for _ in range(count)]

    api.http.post("/api/pendingretries/retry", json=keys)

    assert api.get("operations")[0]["originator"] == words

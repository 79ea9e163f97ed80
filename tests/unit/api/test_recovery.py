"""The recovery after a restore over HTTP: begun, shown, what is sent again, and ended."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from retrier.domain.recovery import SLACK
from retrier.store.schema import failed_message_retries
from tests.support.api import Api
from tests.support.bench import QUEUE, Bench

PATH = "/api/recovery"
NOT_HELD = {"held": False, "queues": []}


@pytest.fixture
def bench(api: Api) -> Bench:
    return Bench(api.db)


def now(api: Api) -> datetime:
    return api.db.read(lambda tx: tx.now)


def begin(api: Api, since: datetime | None = None) -> dict[str, Any]:
    body = {"since": (since or now(api)).isoformat()}
    answer = api.http.post(PATH, json=body, headers={"X-Retrier-User": "ada"})
    assert answer.status_code == 200
    shown: dict[str, Any] = answer.json()
    return shown


def send(bench: Bench, ago: timedelta = timedelta(0), **changes: Any) -> str:
    """Let one retry have been sent so long ago; return the id of its message."""
    (key,) = bench.fail(**changes)
    bench.ask([key])
    bench.work()
    sent = bench.db.read(lambda tx: tx.now) - ago
    mine = failed_message_retries.c.number == bench.message(key)["number"]
    with bench.db.engine.begin() as conn:
        values = {"sending_since": sent, "forwarded_at": sent}
        conn.execute(update(failed_message_retries).where(mine).values(**values))
    return key


def again(api: Api, **body: Any) -> Any:
    return api.http.post(f"{PATH}/retry", json=body)


def test_without_one_nothing_is_held(api: Api) -> None:
    assert api.get("recovery") == NOT_HELD


def test_one_that_is_begun_is_shown_with_what_was_on_its_way(api: Api, bench: Bench) -> None:
    send(bench)

    begun = begin(api)

    assert api.get("recovery") == begun
    assert begun["held"]
    assert begun["begun_by"].startswith("ada (")
    assert begun["queues"] == [
        {"queue": QUEUE, "sent": 1, "sent_before": 0, "in_doubt": 0, "not_sent": 0}
    ]
    assert {"since", "sent_from", "begun_at"} < set(begun)


def test_one_is_ended_once_or_twice(api: Api) -> None:
    begin(api)

    assert [api.http.delete(PATH).status_code for _ in range(2)] == [204, 204]

    assert api.get("recovery") == NOT_HELD


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"since": "monday"}, 422),
        ({"since": "9999-01-01T00:00:00Z"}, 400),
        ({"since": "2026-05-04T00:00:00Z", "until": "now"}, 422),
    ],
)
def test_one_needs_a_time_that_has_passed(api: Api, body: dict[str, str], status: int) -> None:
    answer = api.http.post(PATH, json=body)

    assert answer.status_code == status
    assert api.get("recovery") == NOT_HELD


class TestSendingAgain:
    def test_takes_what_was_sent_around_the_backup(self, api: Api, bench: Bench) -> None:
        near, late = send(bench, SLACK / 2), send(bench)
        send(bench, 2 * SLACK)
        begin(api)

        answer = again(api)

        assert (answer.status_code, answer.json()["total"]) == (202, 2)
        bench.work()
        assert sorted(bench.sent()[-2:]) == sorted([near, late])

    def test_takes_only_what_failed_on_a_queue(self, api: Api, bench: Bench) -> None:
        send(bench)
        of_billing = send(bench, queue="billing", destination=QUEUE)
        begin(api)

        assert again(api, queue="billing").json()["total"] == 1

        bench.work()
        assert bench.sent()[-1] == of_billing

    def test_takes_only_what_its_preview_has_counted(self, api: Api, bench: Bench) -> None:
        send(bench)
        begin(api)
        found = api.http.post(f"{PATH}/retry/preview", json={}).json()

        other = again(api, queue="billing", plan=found["plan"])
        taken = again(api, plan=found["plan"])

        assert (other.status_code, other.json()["preview"]["total"]) == (409, 0)
        assert (found["total"], taken.json()["total"]) == (1, 1)

    def test_takes_nothing_twice(self, api: Api, bench: Bench) -> None:
        send(bench)
        begin(api)
        again(api)
        bench.work()

        assert again(api).json()["total"] == 0

    def test_takes_nothing_without_a_recovery(self, api: Api, bench: Bench) -> None:
        send(bench)

        answer = again(api)

        assert answer.status_code == 409
        assert answer.json()["detail"] == "No recovery is under way."

    def test_takes_nothing_for_a_misspelled_queue(self, api: Api, bench: Bench) -> None:
        send(bench)
        begin(api)

        assert again(api, que="billing").status_code == 422

"""GET /api/processor: what the processor does, or what it waits for and why."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update

from retrier.store.schema import retry_batches, retry_operations
from tests.support.api import HOLDER, Api
from tests.support.bench import Bench, Killed

HOUR = timedelta(hours=1)


@pytest.fixture
def bench(api: Api) -> Bench:
    """Give a processor that has the lease, and a failed message."""
    bench = Bench(api.db)
    bench.fail()
    return bench


def change(api: Api, **columns: object) -> None:
    """Change all operations, however they would come to be so."""
    with api.db.engine.begin() as conn:
        conn.execute(update(retry_operations).values(**columns))


def shown(api: Api, *names: str) -> list[Any]:
    processor = api.get("processor")
    return [processor.get(name) for name in names]


def ask(api: Api) -> str:
    return str(api.http.post("/api/errors/retry/all").json()["operation_id"])


def in_an_hour(api: Api) -> Any:
    return api.db.read(lambda tx: tx.now) + HOUR


def test_without_a_request_it_waits_for_one(api: Api, bench: Bench) -> None:
    assert bench.context.lease.held
    assert shown(api, "waits_for", "why", "stage") == ["request", "no retry is asked for", None]


def test_without_a_process_everything_waits_for_one(api: Api) -> None:
    ask(api)

    assert shown(api, "waits_for", "is_held") == ["processor", False]


@pytest.mark.usefixtures("bench")
def test_what_is_asked_for_is_cut_next(api: Api) -> None:
    operation = ask(api)

    assert shown(api, "stage", "operation_id", "waits_for") == ["marking", operation, None]


@pytest.mark.parametrize(
    ("point", "stage"), [("marking.moved", "staging"), ("staging.committed", "forwarding")]
)
def test_a_batch_is_shown_with_its_stage(api: Api, bench: Bench, point: str, stage: str) -> None:
    operation = ask(api)
    bench.kill_at(point)
    with pytest.raises(Killed):
        bench.work()

    assert shown(api, "stage", "operation_id", "waits_for") == [stage, operation, None]
    assert shown(api, "batch_id") == api.ids("batches")


def test_a_batch_that_waits_for_the_broker_says_why_and_until_when(api: Api, bench: Bench) -> None:
    ask(api)
    bench.kill_at("marking.moved")
    with pytest.raises(Killed):
        bench.work()
    waits = {"not_before": in_an_hour(api), "reason": "connection refused"}
    with api.db.engine.begin() as conn:
        conn.execute(update(retry_batches).values(waits))

    processor = api.get("processor")

    assert (processor["stage"], processor["waits_for"]) == ("staging", "broker")
    assert (processor["why"], processor["until"] > processor["renewed_at"]) == (
        "connection refused",
        True,
    )


@pytest.mark.usefixtures("bench")
def test_an_operation_for_later_is_waited_for(api: Api) -> None:
    operation = ask(api)
    change(api, not_before=in_an_hour(api))

    waits_for, why, key, until = shown(api, "waits_for", "why", "operation_id", "until")

    assert (waits_for, key) == ("time", operation)
    assert why.startswith("it was asked for not before ")
    assert until is not None


@pytest.mark.usefixtures("bench")
def test_an_operation_with_a_rate_waits_for_its_next_cut(api: Api) -> None:
    ask(api)
    change(api, next_cut=in_an_hour(api), rate=50)

    assert shown(api, "waits_for", "why") == ["time", "its rate is 50 messages a second"]


@pytest.mark.usefixtures("bench")
def test_what_is_paused_waits_for_a_person(api: Api) -> None:
    ask(api)
    change(api, state="paused", reason="NO_ROUTE was said of the last that could not be sent")

    assert shown(api, "waits_for", "why") == ["person", "it is paused"]


@pytest.mark.usefixtures("bench")
def test_an_operation_that_is_passed_over_waits_for_what_holds_its_messages(api: Api) -> None:
    ask(api)
    change(api, passed_over=True, reason="12 messages are held")

    assert shown(api, "waits_for", "why") == ["release", "12 messages are held"]


@pytest.mark.usefixtures("bench")
def test_one_that_may_go_on_is_shown_before_those_that_wait(api: Api) -> None:
    ask(api)
    change(api, state="paused")
    ready = ask(api)

    processor = api.get("processor")

    assert (processor["stage"], processor["operation_id"]) == ("marking", ready)
    assert processor["operations"][0]["id"] == ready
    assert processor["operations"][1]["waits_because"] == "it is paused"


def test_the_process_itself_says_more_if_it_is_the_processor(api: Api) -> None:
    api.health["processor"] = (False, "the broker takes nothing")
    api.become_processor()

    assert shown(api, "here") == [{"ok": False, "reason": "the broker takes nothing"}]


def test_an_alarm_of_the_broker_is_what_its_operation_waits_for(api: Api) -> None:
    api.health["processor"] = (False, "the broker blocks publishers (alarm)")
    api.become_processor()
    Bench(api.db).fail()
    api.become_processor()
    ask(api)

    (operation,) = api.get("processor")["operations"]

    assert operation["waits_because"] == "the broker blocks publishers (alarm)"


@pytest.mark.usefixtures("bench")
def test_another_process_has_nothing_to_say(api: Api) -> None:
    api.health["processor"] = (True, "standing by")

    processor = api.get("processor")

    assert processor["session_id"] != HOLDER.session_id
    assert "here" not in processor

"""The root document, health, the event log, and what the API says of itself."""

from functools import partial

import pytest

from retrier.api.answers import SERVICECONTROL_VERSION
from retrier.store.engine.database import Database
from retrier.store.event_log import Entry, append
from tests.support.api import Api
from tests.support.bench import Bench, Killed
from tests.support.factories import failure

# What a database does here is the same on each: the routes are what is tested.
pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@pytest.mark.parametrize("path", ["/api", "/api/"])
def test_the_root_document_is_there_with_and_without_a_slash(api: Api, path: str) -> None:
    answer = api.http.get(path)

    assert answer.status_code == 200
    assert answer.json()["name"] == "Retrier"
    assert answer.json()["version"] == "1.2.3"
    assert answer.headers["X-Particular-Version"] == SERVICECONTROL_VERSION


def test_the_urls_of_the_root_document_are_absolute(api: Api) -> None:
    urls = [value for name, value in api.get("").items() if name.endswith("_url")]

    assert urls != []
    assert [url for url in urls if not url.startswith("http://localhost/api/")] == []


@pytest.mark.parametrize("name", ["operations_url", "batches_url", "processor_url"])
def test_the_urls_of_the_root_document_lead_somewhere(api: Api, name: str) -> None:
    assert api.http.get(api.get("")[name]).status_code == 200


def test_a_trailing_slash_is_no_redirect(api: Api) -> None:
    (unique_id,) = api.receive(failure())

    for path in ("errors/", f"errors/{unique_id}/", "operations/", "recoverability/classifiers/"):
        assert api.http.get(f"/api/{path}").status_code == 200


def test_the_service_is_alive_whatever_its_parts(api: Api) -> None:
    api.health = {"broker": (False, "connection refused")}

    assert api.http.get("/health").status_code == 200


def test_a_service_is_ready_when_every_part_is(api: Api) -> None:
    answer = api.http.get("/health/ready")

    assert answer.status_code == 200
    assert answer.json() == {
        "status": "ready",
        "parts": {"database": {"ok": True, "reason": "reached"}},
    }


def test_a_service_is_not_ready_for_a_reason(api: Api) -> None:
    api.health = {"database": (True, "reached"), "broker": (False, "connection refused")}

    answer = api.http.get("/health/ready")

    assert answer.status_code == 503
    assert answer.json()["status"] == "not ready"
    assert answer.json()["parts"]["broker"] == {"ok": False, "reason": "connection refused"}
    assert answer.json()["parts"]["database"]["ok"]


def test_the_event_log_is_newest_first_and_in_pages(api: Api) -> None:
    for queue in ("a", "b", "c"):
        api.http.post(f"/api/errors/queues/{queue}/retry")

    answer = api.http.get("/api/eventlogitems", params={"page": 1, "per_page": 2})

    assert answer.headers["Total-Count"] == "3"
    described = [item["description"] for item in answer.json()]
    assert ["queue c" in described[0], "queue b" in described[1]] == [True, True]


def test_what_is_routine_is_neither_listed_nor_counted_unless_it_is_asked_for(api: Api) -> None:
    bench = Bench(api.db)
    bench.fail()
    bench.ask_all()
    bench.work()

    usual = api.http.get("/api/eventlogitems")
    whole = api.http.get("/api/eventlogitems", params={"routine": "yes"})

    assert [each["kind"] for each in usual.json()] == ["operation_completed", "retry_asked"]
    assert usual.headers["Total-Count"] == "2"
    assert {"batch_staged", "batch_forwarded"} < {each["kind"] for each in whole.json()}
    assert whole.headers["Total-Count"] == str(len(whole.json()))


def test_a_kind_that_does_not_exist_is_refused_with_the_nearest(api: Api) -> None:
    answer = api.http.get("/api/eventlogitems", params={"kind": "retry_asked,batch_stagd"})

    assert answer.status_code == 400
    assert "perhaps batch_staged is meant" in answer.json()["detail"]


def test_the_beginning_of_several_ids_is_refused(api: Api) -> None:
    for key in ("3f2b91c0-0000-4000-8000-000000000001", "3f2b91c0-0000-4000-8000-000000000002"):
        Bench(api.db).db.transact(
            partial(append, events=[Entry(kind="message_dead", text=".", unique_message_id=key)])
        )

    answer = api.http.get("/api/eventlogitems", params={"message": "3F2B91C0"})

    assert answer.status_code == 400
    assert "3f2b91c0-0000-4000-8000-000000000002" in answer.json()["detail"]


def test_an_event_has_what_clients_of_servicecontrol_read(api: Api) -> None:
    api.http.post("/api/errors/retry/all")

    (item,) = api.get("eventlogitems")

    assert {name: item[name] for name in ("severity", "category", "event_type")} == {
        "severity": "info",
        "category": "Recoverability",
        "event_type": "MessagesSubmittedForRetry",
    }
    assert item["raised_at"].endswith("Z")
    assert isinstance(item["id"], str)


@pytest.mark.parametrize(
    ("point", "kind"),
    [("marking.claimed", "batch_adopted"), ("forwarding.published", "sent_again")],
)
def test_what_a_crash_left_behind_is_a_warning(
    api: Api, database: Database, point: str, kind: str
) -> None:
    bench = Bench(database)
    bench.ask(bench.fail(2))
    bench.kill_at(point)
    with pytest.raises(Killed):
        bench.work()
    bench.restart()

    bench.work()

    severities = {item["kind"]: item["severity"] for item in api.get("eventlogitems")}
    assert severities[kind] == "warning"


def test_openapi_describes_every_route(api: Api) -> None:
    described = api.http.get("/openapi.json").json()["paths"]

    assert "/api/errors/queues/{queue}/retry" in described
    assert set(described["/api/errors"]) == {"get", "head"}


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
def test_no_page_loads_scripts_from_elsewhere(api: Api, path: str) -> None:
    assert api.http.get(path).status_code == 404


def test_metrics_are_told_as_they_are(api: Api) -> None:
    api.metrics = ("text/plain; version=0.0.4", b"retrier_leader 1.0\n")

    answer = api.http.get("/metrics")

    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.content == b"retrier_leader 1.0\n"

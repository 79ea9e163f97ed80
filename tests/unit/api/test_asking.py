"""POST operations: what a selection and its terms become, and how bad input is answered."""

from datetime import datetime, timedelta
from typing import Any, ClassVar

import pytest
from sqlalchemy import select, update

from retrier.domain.failed_message import Disposition
from retrier.store.schema import failed_messages, retry_operation_canaries, retry_operations
from tests.support.api import Api
from tests.support.bench import STAGING
from tests.support.factories import ERROR_QUEUE, FAILED_AT, failure

# What a database does here is the same on each: the routes are what is tested.
pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

UNKNOWN = "12345678-1234-1234-1234-123456789abc"


def post(api: Api, selection: Any, /, key: str = "", **terms: Any) -> Any:
    headers = {"Idempotency-Key": key} if key else {}
    body = {"selection": selection, **terms}
    return api.http.post("/api/operations", json=body, headers=headers)


def ask(api: Api, selection: Any, /, **terms: Any) -> Any:
    """Ask for a retry; return the operation as it is shown."""
    answer = post(api, selection, **terms)
    assert answer.status_code == 202, answer.text
    return api.get(f"operations/{answer.json()['operation_id']}")


def stored(api: Api, column: Any) -> Any:
    with api.db.engine.connect() as conn:
        return conn.execute(select(column)).scalar_one()


def refused_fields(answer: Any) -> list[str]:
    return [each["field"] for each in answer.json()["errors"]]


def test_the_answer_names_the_operation(api: Api) -> None:
    api.receive(failure(), failure())

    answer = post(api, {"all": True})

    assert answer.status_code == 202
    operation_id = answer.json()["operation_id"]
    assert answer.json() == {"operation_id": operation_id, "total": 2}
    assert answer.headers["Location"] == f"/api/operations/{operation_id}"
    assert api.wakes == 1


def test_parts_are_joined_by_and(api: Api) -> None:
    later = FAILED_AT + timedelta(hours=1)
    api.receive(
        failure(exception_type="A", queue="orders", time_of_failure=later),
        failure(exception_type="A", queue="orders"),
        failure(exception_type="A", queue="bills", time_of_failure=later),
        failure(exception_type="B", queue="orders", time_of_failure=later),
    )

    selection = {"exception_type": "A", "queue": "orders", "failed_from": later.isoformat()}
    operation = ask(api, selection)

    assert operation["total"] == 1
    assert operation["selection"] == selection
    assert operation["retry_type"] == "multipleMessages"


@pytest.mark.parametrize(
    ("selection", "retry_type", "originator"),
    [
        ({"all": True}, "all", "retry of all messages"),
        ({"ids": [UNKNOWN]}, "singleMessage", f"retry of message {UNKNOWN}"),
        ({"ids": [UNKNOWN, "b"]}, "multipleMessages", "retry of 2 messages"),
        ({"group": UNKNOWN}, "failureGroup", f"retry of group {UNKNOWN}"),
        ({"queue": "orders"}, "byQueueAddress", "retry of queue orders"),
        ({"endpoint": "Sales"}, "allForEndpoint", "retry of endpoint Sales"),
        ({"reason": "rejected"}, "multipleMessages", "retry of reason rejected"),
        ({"stream": "order 42"}, "multipleMessages", "retry of stream order 42"),
        (
            {"queue": "orders", "attempts_at_least": 3},
            "multipleMessages",
            "retry of queue orders, attempts at least 3",
        ),
    ],
)
def test_what_is_asked_for_has_a_type_and_words(
    api: Api, selection: Any, retry_type: str, originator: str
) -> None:
    operation = ask(api, selection)

    assert (operation["retry_type"], operation["originator"]) == (retry_type, originator)


def test_a_group_is_retried_under_its_title(api: Api) -> None:
    api.receive(failure(message_type="A"))
    (group,) = api.get("recoverability/groups/Message Type")

    assert ask(api, {"group": group["id"]})["originator"] == "retry of group A"


def test_a_stream_is_retried_and_nothing_else(api: Api) -> None:
    api.receive(failure(stream_id="order 42"), failure(stream_id="order 4"), failure())

    operation = ask(api, {"stream": "order 42"})

    assert (operation["total"], operation["selection"]) == (1, {"stream": "order 42"})


@pytest.mark.parametrize(("limit", "total"), [(1, 1), (2, 2), (3, 3), (4, 3), (10_000_000, 3)])
def test_a_limit_bounds_the_total(api: Api, limit: int, total: int) -> None:
    ids = api.receive(failure(), failure(), failure())

    assert ask(api, {"all": True}, limit=limit)["total"] == total
    assert ask(api, {"ids": ids}, limit=limit)["total"] == total


def test_a_bulk_takes_what_is_dead_only_if_it_is_asked_for(api: Api) -> None:
    dead, _scheduled, _manual = api.receive(failure(), failure(), failure())
    dispose(api, dead, disposition=Disposition.DEAD)

    assert ask(api, {"all": True})["total"] == 2
    assert ask(api, {"disposition": "dead"})["total"] == 1
    assert ask(api, {"disposition": "manual"})["total"] == 2


def test_a_bulk_takes_what_is_scheduled(api: Api) -> None:
    scheduled, _manual = api.receive(failure(), failure())
    dispose(api, scheduled, disposition=Disposition.SCHEDULED, retry_at=FAILED_AT)

    assert ask(api, {"all": True})["total"] == 2


def dispose(api: Api, unique_id: str, **values: Any) -> None:
    row = failed_messages.c.unique_message_id == unique_id
    with api.db.engine.begin() as conn:
        conn.execute(update(failed_messages).where(row).values(values))


def test_every_term_is_written_down(api: Api) -> None:
    moment = api.db.read(lambda tx: tx.now) + timedelta(days=1)

    ask(
        api,
        {"all": True},
        limit=500,
        destination="replay",
        not_before=moment.isoformat(),
        why="the gateway was down",
        rate=50,
        canary=20,
        canary_wait="90s",
        canary_limit=2,
    )

    columns = retry_operations.c
    assert stored(api, columns.message_limit) == 500
    assert stored(api, columns.destination) == "replay"
    assert stored(api, columns.not_before) == moment
    assert stored(api, columns.why) == "the gateway was down"
    assert stored(api, columns.rate) == 50
    canary = retry_operation_canaries.c
    assert [stored(api, each) for each in (canary.size, canary.wait_ms, canary.most_back)] == [
        20,
        90_000,
        2,
    ]


def test_a_delay_is_counted_by_the_clock_of_the_database(api: Api) -> None:
    operation = ask(api, {"all": True}, **{"in": "2h"})

    begins = datetime.fromisoformat(operation["not_before"])
    assert begins - datetime.fromisoformat(operation["created_at"]) == timedelta(hours=2)


def test_a_time_that_is_over_means_now(api: Api) -> None:
    assert ask(api, {"all": True}, not_before="2020-01-01T00:00:00Z")["state"] == "waiting"


def test_why_is_kept_and_shown(api: Api) -> None:
    assert ask(api, {"all": True}, why="x" * 1000)["why"] == "x" * 1000


@pytest.mark.parametrize("destination", ["", ERROR_QUEUE, STAGING, "x" * 256, "\u00e4" * 128])
def test_a_destination_to_which_nothing_can_be_sent_is_400(api: Api, destination: str) -> None:
    for path in ("operations", "operations/preview"):
        body = {"selection": {"all": True}, "destination": destination}
        answer = api.http.post(f"/api/{path}", json=body)

        assert answer.status_code == 400
        assert refused_fields(answer) == ["body.destination"]
    assert api.get("operations") == []


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        ({"limit": 0}, "body.limit"),
        ({"limit": 10_000_001}, "body.limit"),
        ({"limit": "500"}, "body.limit"),
        ({"limit": None}, "body.limit"),
        ({"rate": 0}, "body.rate"),
        ({"why": "x" * 1001}, "body.why"),
        ({"destination": "a\0b"}, "body.destination"),
        ({"destination": 5}, "body.destination"),
        ({"not_before": "soon"}, "body.not_before"),
        ({"not_before": "2999-01-01T00:00:00Z"}, "body.not_before"),
        ({"in": "367d"}, "body.in"),
        ({"in": "2 hours"}, "body.in"),
        ({"in": 7200}, "body.in"),
        ({"in": "1h", "not_before": "2026-05-04T00:00:00Z"}, "body"),
        ({"canary": 0}, "body.canary"),
        ({"canary": 1001}, "body.canary"),
        ({"canary_wait": "5s"}, "body.canary_wait"),
        ({"canary_limit": 1}, "body.canary_limit"),
        ({"canary": 5, "canary_limit": -1}, "body.canary_limit"),
        ({"plan": "nonsense"}, "body.plan"),
        ({"speed": 5}, "body.speed"),
    ],
)
def test_bad_terms_are_422_with_their_field(api: Api, terms: dict[str, Any], field: str) -> None:
    answer = post(api, {"all": True}, **terms)

    assert (answer.status_code, refused_fields(answer)) == (422, [field])
    assert api.get("operations") == []


@pytest.mark.parametrize(
    ("selection", "field"),
    [
        ({}, "body.selection"),
        ({"que": "orders"}, "body.selection.que"),
        ({"stream": 7}, "body.selection.stream"),
        ({"ids": ["a"], "queue": "orders"}, "body.selection"),
        (None, "body.selection"),
    ],
)
def test_a_bad_selection_is_422_with_its_field(api: Api, selection: Any, field: str) -> None:
    answer = post(api, selection)

    assert (answer.status_code, refused_fields(answer)) == (422, [field])


def test_a_body_without_a_selection_is_422(api: Api) -> None:
    answer = api.http.post("/api/operations", json={"limit": 5})

    assert (answer.status_code, refused_fields(answer)) == (422, ["body.selection"])


def test_named_ids_that_would_be_skipped_are_told_at_once(api: Api) -> None:
    (known,) = api.receive(failure())

    answer = post(api, {"ids": [known, UNKNOWN]}).json()

    assert (answer["total"], answer["skipped"]) == (2, 1)
    assert answer["skipped_messages"] == [
        {"id": UNKNOWN, "reason": "no failed message has this id"}
    ]


class TestAKey:
    """An idempotency key stands for the whole body."""

    body: ClassVar[dict[str, Any]] = {
        "limit": 5,
        "why": "monday",
        "rate": 50,
        "in": "1h",
        "canary": 2,
    }

    def test_gives_the_same_operation_for_the_same_body(self, api: Api) -> None:
        first = post(api, {"queue": "orders"}, key="k", **self.body)

        again = post(api, {"queue": "orders"}, key="k", **self.body)

        assert (again.status_code, again.json()) == (202, first.json())
        assert len(api.get("operations")) == 1

    @pytest.mark.parametrize(
        "change",
        [
            {"limit": 6},
            {"why": "tuesday"},
            {"rate": 51},
            {"in": "2h"},
            {"canary": 3},
            {"canary_limit": 1},
            {"canary_wait": "61s"},
            {"destination": "replay"},
        ],
        ids=str,
    )
    def test_is_refused_with_other_terms(self, api: Api, change: dict[str, Any]) -> None:
        post(api, {"queue": "orders"}, key="k", **self.body)

        answer = post(api, {"queue": "orders"}, key="k", **{**self.body, **change})

        assert answer.status_code == 422
        assert len(api.get("operations")) == 1

    def test_is_refused_with_another_selection(self, api: Api) -> None:
        post(api, {"ids": [UNKNOWN, "b"]}, key="k")

        assert post(api, {"ids": [UNKNOWN, "c"]}, key="k").status_code == 422
        assert post(api, {"ids": ["b", UNKNOWN]}, key="k").status_code == 202


def test_headers_to_drop_are_kept_and_shown(api: Api) -> None:
    api.receive(failure())

    shown = ask(api, {"all": True}, drop_headers=["x-trace", "x-exception-*"])

    assert shown["drop_headers"] == ["x-trace", "x-exception-*"]


def test_an_operation_that_drops_no_headers_names_none(api: Api) -> None:
    api.receive(failure())

    assert "drop_headers" not in ask(api, {"all": True})
    assert stored(api, retry_operations.c.drop_headers.is_(None)) is True


@pytest.mark.parametrize("path", ["operations", "operations/preview"])
@pytest.mark.parametrize("name", ["Retrier.RetryId", "*", "servicecontrol.retry.*"])
def test_a_header_that_a_retry_needs_is_not_dropped(api: Api, path: str, name: str) -> None:
    body = {"selection": {"all": True}, "drop_headers": ["x-trace", name]}

    answer = api.http.post(f"/api/{path}", json=body)

    assert answer.status_code == 400
    assert refused_fields(answer) == ["body.drop_headers.1"]


@pytest.mark.parametrize("headers", [[""], ["h" * 256], ["a\0"], ["x"] * 51, "x", [1]], ids=repr)
def test_what_names_no_header_is_refused(api: Api, headers: Any) -> None:
    assert post(api, {"all": True}, drop_headers=headers).status_code == 422


def test_the_same_key_with_other_headers_is_another_request(api: Api) -> None:
    api.receive(failure())
    post(api, {"all": True}, key="k", drop_headers=["x-trace"])

    assert post(api, {"all": True}, key="k", drop_headers=["x-trace"]).status_code == 202
    assert post(api, {"all": True}, key="k").status_code == 422


def test_an_outcome_without_its_operation_is_refused(api: Api) -> None:
    answer = api.http.post("/api/operations", json={"selection": {"outcome": "came_back"}})

    assert answer.status_code == 422
    assert "name the operation, too" in answer.text

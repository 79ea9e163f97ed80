"""GET /api/errors by every part of a selection, and the lists of a group and an endpoint."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import update

from retrier.clock import SystemClock
from retrier.store.schema import failed_messages
from tests.support.api import Api
from tests.support.factories import FAILED_AT, failure

HOUR = timedelta(hours=1)


def change(api: Api, unique_id: str, **values: Any) -> None:
    row = failed_messages.c.unique_message_id == unique_id
    with api.db.engine.begin() as conn:
        conn.execute(update(failed_messages).where(row).values(values))


def refused_field(api: Api, **params: str) -> str:
    answer = api.http.get("/api/errors", params=params)
    assert answer.status_code == 400
    return str(answer.json()["errors"][0]["field"])


def test_by_the_reason(api: Api) -> None:
    rejected, _ = api.receive(failure(failure_reason="rejected"), failure(failure_reason="expired"))

    assert api.ids(reason="rejected") == [rejected]


def test_by_the_stream_of_whichever_queue(api: Api) -> None:
    one, other, _, _ = api.receive(
        failure(stream_id="order 42"),
        failure(stream_id="order 42", queue="bills"),
        failure(stream_id="order 4"),
        failure(),
    )

    assert sorted(api.ids(stream="order 42")) == sorted([one, other])
    assert api.ids(stream="ORDER 42") == []
    assert api.ids(stream="order 42", queue="bills") == [other]


def test_by_where_it_failed_last(api: Api) -> None:
    """One test of all conditions: each is a column that is compared as a whole."""
    places = [
        {"host": "box-1", "process": "7", "node": "w1@box-1"},
        {"host": "box-1", "process": "8", "node": "w2@box-1"},
        {"host": "box-10", "process": "7", "node": "w1@box-10"},
        {},
    ]
    ids = api.receive(*(failure(**place) for place in places))

    assert sorted(api.ids(host="box-1")) == sorted(ids[:2])
    assert sorted(api.ids(process="7")) == sorted([ids[0], ids[2]])
    assert api.ids(host="box-1", process="7") == ids[:1]
    assert api.ids(node="w2@box-1") == ids[1:2]
    assert api.ids(host="BOX-1") == []


def test_by_the_time_of_the_last_failure_both_ends_included(api: Api) -> None:
    times = [FAILED_AT + hours * HOUR for hours in range(4)]
    ids = api.receive(*(failure(time_of_failure=time) for time in times))

    listed = api.ids(failed_from=times[1].isoformat(), failed_to=times[2].isoformat())

    assert sorted(listed) == sorted(ids[1:3])
    assert api.ids(failed_from=times[3].isoformat()) == ids[3:]
    assert api.ids(failed_to=times[0].isoformat()) == ids[:1]


def test_by_how_often_it_failed(api: Api) -> None:
    _once, often = api.receive(failure(), failure())
    change(api, often, attempts=3)

    assert api.ids(attempts_at_least="3") == [often]
    assert api.ids(attempts_at_least="4") == []
    assert api.ids(attempts_at_least="9" * 50) == []


def test_by_what_was_decided(api: Api) -> None:
    _manual, dead = api.receive(failure(), failure())
    change(api, dead, disposition="dead")

    assert api.ids(disposition="dead") == [dead]


@pytest.mark.parametrize("text", ["billing", "Invoice", "no FUNDS", "100%", "card_"])
def test_by_a_text_in_any_case(api: Api, text: str) -> None:
    found, _ = api.receive(
        failure(
            queue="Billing", message_type="Shop.Invoice", exception_message="No funds: 100% card_7"
        ),
        failure(exception_message="100 cards"),
    )

    assert api.ids(text=text) == [found]


@pytest.mark.parametrize("member", ["id", "message_id"])
def test_by_an_id_as_a_text(api: Api, member: str) -> None:
    api.receive(failure(), failure())
    item = api.get("errors")[0]

    assert api.ids(text=item[member]) == [item["id"]]


def test_by_the_message_id_of_its_sender(api: Api) -> None:
    wanted, _other = api.receive(failure(message_id="order-42"), failure(message_id="order-4"))

    assert api.ids(message_id="order-42") == [wanted]


def test_by_who_archived_it(api: Api) -> None:
    _other, archived = api.receive(failure(), failure())
    operation = str(uuid4())
    change(api, archived, status="archived", archive_operation_id=operation)

    assert api.ids(archived_by=operation) == [archived]
    assert api.ids(archived_by=operation.upper()) == [archived]
    assert api.ids(archived_by="nobody") == []


def test_all_parts_are_joined_by_and(api: Api) -> None:
    wanted, *_ = api.receive(
        failure(queue="orders", failure_reason="rejected"),
        failure(queue="bills", failure_reason="rejected"),
        failure(queue="orders", failure_reason="expired"),
    )

    parts = {"queue": "orders", "reason": "rejected", "text": "OutOfStock"}

    assert api.ids(**parts) == [wanted]
    assert api.ids("endpoints/Sales/errors", **parts) == [wanted]
    (group,) = api.get("recoverability/groups")
    assert api.ids(f"recoverability/groups/{group['id']}/errors", **parts) == [wanted]
    assert api.get(f"recoverability/groups/id/{group['id']}", **parts)["count"] == 1


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"failed_from": "soon"}, "query.failed_from"),
        ({"failed_to": "9999-12-31T23:59:59-23:59"}, "query.failed_to"),
        ({"failed_from": "2026-05-05", "failed_to": "2026-05-04"}, "query.failed_to"),
        ({"attempts_at_least": "often"}, "query.attempts_at_least"),
        ({"attempts_at_least": "-1"}, "query.attempts_at_least"),
        ({"disposition": "held"}, "query.disposition"),
    ],
)
def test_what_is_no_condition_is_refused_with_its_field(
    api: Api, params: dict[str, str], field: str
) -> None:
    # Left out, it would list more than was meant.
    assert refused_field(api, **params) == field


def test_by_how_long_ago_it_failed(api: Api) -> None:
    now = SystemClock().now()
    _, late = api.receive(
        failure(time_of_failure=now - timedelta(hours=3)),
        failure(time_of_failure=now - timedelta(hours=1)),
    )

    assert api.ids(failed_from="2h") == [late]
    refused = api.http.get("/api/errors", params={"failed_from": "2 hours"})
    assert refused.status_code == 400
    assert "did you mean 2h?" in refused.json()["detail"]


def test_an_outcome_is_that_of_an_operation(api: Api) -> None:
    alone = api.http.get("/api/errors?outcome=came_back")
    unknown = api.http.get(f"/api/errors?operation={uuid4()}&outcome=lost")

    assert alone.status_code == unknown.status_code == 400
    assert "name the operation, too" in alone.text
    assert "confirmed, came_back" in unknown.text
    assert api.ids(operation=str(uuid4()), outcome="came_back") == []
    assert api.ids(operation="nobody") == []

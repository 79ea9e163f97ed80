"""Message views: how ServicePulse opens one message, its conversation, and its list of all messages."""

from datetime import timedelta
from urllib.parse import quote

import pytest

from retrier.domain.failed_message import FailedMessageStatus, Failure
from tests.support.api import Api
from tests.support.factories import FAILED_AT, failure

SENT_BY = {
    "NServiceBus.OriginatingEndpoint": "Shop",
    "NServiceBus.OriginatingMachine": "shop-1",
    "$.diagnostics.originating.hostid": "0123456789abcdef0123456789abcdef",
    "NServiceBus.ConversationId": "talk-1",
    "NServiceBus.MessageIntent": "Publish",
}
LISTS = (
    "messages",
    "messages2",
    "messages2/",
    "messages/search",
    "messages/search/Shop.PlaceOrder",
    "endpoints/Sales/messages",
    "endpoints/Sales/messages/search",
    "endpoints/Sales/messages/search/Shop.PlaceOrder",
    "conversations/talk-1",
)


def in_conversation(**changes: object) -> Failure:
    return failure(headers={**SENT_BY}, **changes)


def test_a_view_has_what_servicepulse_reads(api: Api) -> None:
    made = in_conversation(message_id="orders/7", body=b"{}")
    (unique_id,) = api.receive(made)

    (view,) = api.get("messages/search/orders%2F7")

    headers = view.pop("headers")
    assert {"key": "NServiceBus.OriginatingEndpoint", "value": "Shop"} in headers
    assert view == {
        "id": unique_id,
        "message_id": "orders/7",
        "message_type": "Shop.PlaceOrder",
        "sending_endpoint": {
            "name": "Shop",
            "host": "shop-1",
            "host_id": "01234567-89ab-cdef-0123-456789abcdef",
        },
        "receiving_endpoint": {
            "name": "Sales",
            "host": "",
            "host_id": "00000000-0000-0000-0000-000000000000",
        },
        "time_sent": "2026-05-04T11:59:50.000000Z",
        "processed_at": "2026-05-04T12:00:00.000000Z",
        "critical_time": "00:00:00",
        "processing_time": "00:00:00",
        "delivery_time": "00:00:00",
        "is_system_message": False,
        "conversation_id": "talk-1",
        "status": "failed",
        "message_intent": "publish",
        "body_url": f"/messages/{unique_id}/body",
        "body_size": 2,
        "instance_id": "retrier",
    }


def test_a_message_without_type_and_times_has_a_view_all_the_same(api: Api) -> None:
    made = failure(message_type=None, time_sent=None, headers={})
    (unique_id,) = api.receive(made)

    (view,) = api.get(f"messages/search/{unique_id}")

    assert view["message_type"] == ""
    assert "time_sent" not in view
    assert "sending_endpoint" not in view
    assert view["message_intent"] == "send"


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        (FailedMessageStatus.UNRESOLVED, "failed"),
        (FailedMessageStatus.RETRY_ISSUED, "retryIssued"),
        (FailedMessageStatus.ARCHIVED, "archivedFailure"),
        (FailedMessageStatus.RESOLVED, "resolvedSuccessfully"),
    ],
)
def test_the_status_of_a_view_is_of_a_set_of_its_own(
    api: Api, status: FailedMessageStatus, shown: str
) -> None:
    (unique_id,) = api.receive(failure())
    api.set_status(unique_id, status)

    assert [each["status"] for each in api.get("messages")] == [shown]


def test_what_failed_twice_is_a_repeated_failure(api: Api) -> None:
    first = failure()
    later = failure(
        message_id=first.message_id, body=first.body, time_of_failure=FAILED_AT + timedelta(1)
    )
    api.receive(first)
    api.receive(later)

    assert [each["status"] for each in api.get("messages")] == ["repeatedFailure"]


@pytest.mark.parametrize("path", LISTS)
def test_a_list_has_its_count_and_its_etag(api: Api, path: str) -> None:
    ids = api.receive(in_conversation(), in_conversation(), in_conversation())

    answer = api.http.get(f"/api/{path}", params={"per_page": 2})

    assert {each["id"] for each in answer.json()} < set(ids)
    assert answer.headers["Total-Count"] == "3"
    assert 'rel="next"' in answer.headers["Link"]
    known = {"If-None-Match": answer.headers["ETag"]}
    assert api.http.get(f"/api/{path}?per_page=2", headers=known).status_code == 304


@pytest.mark.parametrize("path", LISTS)
def test_what_finds_nothing_is_an_empty_list(api: Api, path: str) -> None:
    answer = api.http.get(f"/api/{path}")

    assert (answer.json(), answer.headers["Total-Count"]) == ([], "0")


@pytest.mark.parametrize("path", LISTS)
def test_the_head_of_a_list_has_its_count(api: Api, path: str) -> None:
    api.receive(in_conversation())

    answer = api.http.head(f"/api/{path}")

    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["Total-Count"] == "1"


@pytest.mark.parametrize("message_id", ["a/b", "a/", "/", "x/messages", "über/1"])
def test_an_id_with_a_slash_is_found(api: Api, message_id: str) -> None:
    (unique_id,) = api.receive(failure(message_id=message_id))
    api.receive(failure(message_id="another"))

    assert api.ids(f"messages/search/{quote(message_id, safe='')}") == [unique_id]


def test_a_search_finds_exceptions_and_says_where_it_looked(api: Api) -> None:
    (unique_id,) = api.receive(failure(exception_message="the stock is empty"))
    api.receive(failure())

    answer = api.http.get("/api/messages/search", params={"q": "STOCK is"})

    assert [each["id"] for each in answer.json()] == [unique_id]
    assert "exception" in answer.headers["X-Retrier-Searched"]


def test_a_list_without_a_search_says_nothing_of_one(api: Api) -> None:
    assert "X-Retrier-Searched" not in api.http.get("/api/messages").headers


def test_the_messages_of_one_endpoint_are_its_own(api: Api) -> None:
    (unique_id,) = api.receive(failure(endpoint="Sales/North"))
    api.receive(failure(endpoint="Billing"))

    assert api.ids("endpoints/Sales/North/messages") == [unique_id]
    assert api.ids("messages2", endpoint_name="Sales/North") == [unique_id]
    assert api.ids("endpoints/Sales%2FNorth/messages/search", q="PlaceOrder") == [unique_id]


def test_all_messages_are_narrowed_by_the_time_they_were_sent(api: Api) -> None:
    old, new = api.receive(
        failure(time_sent=FAILED_AT - timedelta(days=900)), failure(time_sent=FAILED_AT)
    )

    assert api.ids("messages2", **{"from": "2026-01-01T00:00:00Z"}) == [new]
    assert api.ids("messages2", to="2026-01-01T00:00:00Z") == [old]
    assert api.ids("messages2", **{"from": "2023-01-01", "to": "2027-01-01"}) == [new, old]


def test_the_page_of_all_messages_is_as_long_as_asked(api: Api) -> None:
    api.receive(failure(), failure(), failure())

    assert len(api.ids("messages2", page_size=2, sort="time_sent", direction="desc")) == 2


@pytest.mark.parametrize("sort", ["processed_at", "critical_time", "delivery_time", "status"])
def test_each_order_of_the_client_is_taken(api: Api, sort: str) -> None:
    (unique_id,) = api.receive(failure())

    assert api.ids("messages2", sort=sort) == [unique_id]


def test_by_the_time_they_were_processed_the_last_failure_comes_first(api: Api) -> None:
    old, new = api.receive(
        failure(time_of_failure=FAILED_AT, time_sent=FAILED_AT + timedelta(days=1)),
        failure(time_of_failure=FAILED_AT + timedelta(hours=1), time_sent=FAILED_AT),
    )

    assert api.ids("messages", sort="processed_at") == [new, old]


def test_a_conversation_has_its_own_messages_only(api: Api) -> None:
    (unique_id,) = api.receive(in_conversation())
    api.receive(failure(headers={**SENT_BY, "NServiceBus.ConversationId": "talk-12"}))
    api.receive(failure(headers={"NServiceBus.RelatedTo": "talk-1"}))

    assert api.ids("conversations/talk-1") == [unique_id]


@pytest.mark.parametrize(("told", "is_system"), [("true", True), ("True", True), ("", False)])
def test_what_controls_an_endpoint_is_a_system_message(
    api: Api, told: str, *, is_system: bool
) -> None:
    api.receive(failure(headers={"NServiceBus.ControlMessage": told}))

    assert api.get("messages")[0]["is_system_message"] is is_system
    assert api.get("errors")[0]["is_system_message"] is is_system

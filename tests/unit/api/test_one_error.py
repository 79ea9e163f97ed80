"""GET /api/errors/{id}: everything known of one message; and its body."""

import gzip
from datetime import timedelta

import pytest

from retrier.domain.failed_message import Failure
from retrier.domain.streams import read_position
from tests.support.api import Api
from tests.support.factories import FAILED_AT, confirmation, failure

MINUTE = timedelta(minutes=1)


def again(made: Failure, **changes: object) -> Failure:
    """Make another failure of the same message, a minute later."""
    later = FAILED_AT + MINUTE
    return failure(message_id=made.message_id, body=made.body, time_of_failure=later, **changes)


def test_a_message_tells_its_attempts_oldest_first(api: Api) -> None:
    first = failure(exception_message="first")
    (unique_id,) = api.receive(first)
    api.receive(again(first, exception_message="second"))

    found = api.get(f"errors/{unique_id}")

    assert found["number_of_processing_attempts"] == 2
    failures = [each["failure_details"] for each in found["processing_attempts"]]
    assert [each["exception"]["message"] for each in failures] == ["first", "second"]
    assert failures[1]["time_of_failure"] == "2026-05-04T12:01:00.000000Z"
    assert failures[1]["address_of_failing_endpoint"] == "orders"


def test_the_attempt_in_force_has_the_headers_as_text(api: Api) -> None:
    first = failure(headers={"x-retry-count": "1"})
    (unique_id,) = api.receive(first)
    api.receive(again(first, headers={"x-retry-count": 2, "sent-at": "zwei", "laravel": [1]}))

    old, new = api.get(f"errors/{unique_id}")["processing_attempts"]

    assert "headers" not in old
    shown = {name: new["headers"][name] for name in ("x-retry-count", "sent-at", "laravel")}
    assert shown == {"x-retry-count": "2", "sent-at": "zwei", "laravel": "[1]"}


def test_a_message_tells_its_groups(api: Api) -> None:
    made = failure()
    (unique_id,) = api.receive(made)

    groups = api.get(f"errors/{unique_id}")["failure_groups"]

    assert {(each["id"], each["title"], each["type"]) for each in groups} == {
        (group.group_id, group.title, group.classifier) for group in made.cause.groups
    }


def test_a_message_tells_where_a_retry_of_it_goes(api: Api) -> None:
    (unique_id,) = api.receive(failure(queue="orders", destination="orders-v2"))

    found = api.get(f"errors/{unique_id}")

    assert found["queue_address"] == "orders"
    assert found["destination"] == "orders-v2"


def test_a_message_without_a_claim_tells_of_none(api: Api) -> None:
    (unique_id,) = api.receive(failure())

    assert "claim" not in api.get(f"errors/{unique_id}")


def test_a_resolved_message_tells_on_what_evidence(api: Api) -> None:
    (unique_id,) = api.receive(failure())
    api.receive(confirmation(unique_id, succeeded_at=FAILED_AT + MINUTE))

    found = api.get(f"errors/{unique_id}")

    assert (found["status"], found["resolution"]) == ("resolved", "confirmed")
    assert found["resolved_at"] == "2026-05-04T12:01:00.000000Z"


def test_the_last_attempt_is_shown_as_in_a_list(api: Api) -> None:
    (unique_id,) = api.receive(failure())

    assert [api.get(f"errors/last/{unique_id}")] == api.get("errors")


@pytest.mark.parametrize("path", ["errors/unknown", "errors/last/unknown", "messages/unknown/body"])
def test_an_unknown_id_is_not_found(api: Api, path: str) -> None:
    answer = api.http.get(f"/api/{path}")

    assert answer.status_code == 404
    assert "unknown" in answer.json()["detail"]


@pytest.mark.parametrize("key", ["unique_message_id", "message_id"])
def test_a_body_is_byte_for_byte_under_either_id(api: Api, key: str) -> None:
    body = b"\xff\x00<script>alert(1)</script>\r\n"
    made = failure(body=body, content_type="text/html; charset=utf-8", message_id="orders/7 ä")
    (unique_id,) = api.receive(made)
    known_as = {"unique_message_id": unique_id, "message_id": "orders/7 ä"}[key]

    answer = api.http.get(f"/api/messages/{known_as}/body")

    assert answer.content == body
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"


def test_the_body_of_another_failure_of_the_message_is_shown_too(api: Api) -> None:
    first = failure(body=b"the same")
    (unique_id,) = api.receive(first)
    api.receive(again(first))

    assert api.http.get(f"/api/messages/{unique_id}/body").content == b"the same"


def test_of_two_messages_with_one_message_id_the_newest_body_is_shown(api: Api) -> None:
    api.receive(failure(message_id="7", body=b"old"), failure(message_id="7", body=b"new"))

    assert api.http.get("/api/messages/7/body").content == b"new"


def test_a_body_is_never_rendered(api: Api) -> None:
    (unique_id,) = api.receive(failure(content_type="text/html"))

    headers = api.http.get(f"/api/messages/{unique_id}/body").headers

    assert headers["Content-Disposition"] == "attachment"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in headers["Content-Security-Policy"]


@pytest.mark.parametrize("name", ["content-encoding", "Content-Encoding", "CONTENT_ENCODING"])
def test_a_packed_body_is_unpacked_for_who_asks(api: Api, name: str) -> None:
    packed = gzip.compress(b'{"order":4711}')
    (key,) = api.receive(failure(body=packed, headers={name: "GZip"}))

    as_it_came = api.http.get(f"/api/messages/{key}/body")
    unpacked = api.http.get(f"/api/messages/{key}/body", params={"unpacked": "yes"})

    assert as_it_came.content == packed
    assert "X-Retrier-Unpacked" not in as_it_came.headers
    assert unpacked.content == b'{"order":4711}'
    assert unpacked.headers["X-Retrier-Unpacked"].startswith("Unpacked from gzip: ")
    assert unpacked.headers["ETag"] != as_it_came.headers["ETag"]


def test_a_body_that_is_no_gzip_though_a_header_says_so_comes_with_the_reason(api: Api) -> None:
    (key,) = api.receive(failure(body=b"order", headers={"content-encoding": "gzip"}))

    answer = api.http.get(f"/api/messages/{key}/body", params={"unpacked": "yes"})

    assert answer.content == b"order"
    assert "it cannot be unpacked: incorrect header check" in answer.headers["X-Retrier-Unpacked"]


def test_no_more_than_a_mebibyte_is_unpacked(api: Api) -> None:
    bomb = gzip.compress(bytes(5_000_000))
    (key,) = api.receive(failure(body=bomb, headers={"content-encoding": "gzip"}))

    answer = api.http.get(f"/api/messages/{key}/body", params={"unpacked": "yes"})

    assert len(answer.content) == 1024 * 1024
    assert "more than 1,048,576 bytes" in answer.headers["X-Retrier-Unpacked"]


def test_an_empty_body_is_no_content(api: Api) -> None:
    (unique_id,) = api.receive(failure(body=b""))

    answer = api.http.get(f"/api/messages/{unique_id}/body")

    assert (answer.status_code, answer.content) == (204, b"")


@pytest.mark.parametrize(
    ("given", "body", "sent"),
    [
        (None, "Grüße".encode(), "text/plain; charset=utf-8"),
        (None, b"\xff\xfe", "application/octet-stream"),
        ("text/html\r\nSet-Cookie: x=1", b"x", "text/plain; charset=utf-8"),
        ("text/пример", b"x", "text/plain; charset=utf-8"),
        ("json", b"x", "text/plain; charset=utf-8"),
        ("application/vnd.shop+json;v=1", b"x", "application/vnd.shop+json;v=1"),
    ],
)
def test_a_content_type_that_is_none_is_guessed(
    api: Api, given: str | None, body: bytes, sent: str
) -> None:
    (unique_id,) = api.receive(failure(content_type=given, body=body))

    answer = api.http.get(f"/api/messages/{unique_id}/body")

    assert answer.headers["Content-Type"] == sent
    assert "Set-Cookie" not in answer.headers


def test_a_body_known_to_the_client_is_not_sent_again(api: Api) -> None:
    (unique_id,) = api.receive(failure())
    etag = api.http.get(f"/api/messages/{unique_id}/body").headers["ETag"]

    again = api.http.get(f"/api/messages/{unique_id}/body", headers={"If-None-Match": etag})

    assert (again.status_code, again.content) == (304, b"")


def test_a_message_tells_the_place_in_its_stream_that_its_sender_states(api: Api) -> None:
    (stated,) = api.receive(failure(stream_id="42", stream_position=read_position("2.50")))
    (unread,) = api.receive(failure(stream_id="42", stream_position_unread="third"))

    shown = [api.get(f"errors/{each}") for each in (stated, unread)]

    # Members without a value are left out.
    assert [each.get("stream_position") for each in shown] == ["2.5", None]
    assert [each.get("stream_position_unread") for each in shown] == [None, "third"]

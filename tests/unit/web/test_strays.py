"""A condition in an address that no page reads: told, and nothing is done with all that is shown."""

import re

import pytest

from retrier.domain.failed_message import FailedMessageStatus
from tests.support.factories import failure
from tests.support.web import Web

LISTS = [
    "/messages",
    "/groups",
    "/pending",
    "/archived",
    "/imports",
    "/operations",
    "/archive_operations",
    "/streams",
    "/breakers",
    "/events",
    "/history",
]
ASKING = [
    "/messages/selected?act=retry&all=1",
    "/pending/retry?all=1",
    "/pending/resolve?all=1",
    "/archived/unarchive?text=a",
    "/imports/selected?act=delete&all=1",
    "/streams/release?queue=a&stream=b&all=1",
    "/retry?",
    "/groups/x/retry?",
]


@pytest.mark.parametrize("path", LISTS)
def test_a_list_says_that_it_is_not_narrowed(web: Web, path: str) -> None:
    assert "Nothing here reads <bdi>zzz</bdi>." in web.get(path, zzz="red")


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("/?span=century", "What may be said of span: hour, 6h"),
        ("/messages?sort=color", "What may be said of sort: id, "),
        ("/messages?direction=up", "What may be said of direction: asc, desc."),
        ("/messages?page=two", "What is said of page is no number: two."),
        ("/messages?status=bogus", "bogus"),
        ("/groups?sort=color", "What may be said of sort: last, first, count, title."),
        ("/groups?by=color", "What may be said of by: exception, type, queue, endpoint."),
        ("/pending?older=year", "What may be said of older: hour, day, week."),
        ("/pending/retry?all=yes&older=year", "What may be said of older: hour, day, week."),
    ],
)
def test_a_value_that_nobody_reads_is_refused(web: Web, address: str, why: str) -> None:
    answer = web.http.get(address)

    assert answer.status_code == 400
    assert why in answer.text


def test_the_nearest_name_is_told(web: Web) -> None:
    assert "perhaps <b>queue</b> is meant" in web.get("/messages", queu="x")


def test_it_is_shown_and_not_run(web: Web) -> None:
    assert "<script>alert" not in web.http.get("/messages?<script>alert(1)</script>=1").text


def test_nothing_is_said_without_one(web: Web) -> None:
    assert "Unknown filter" not in web.get("/messages", queue="x", done="nothing", _="1")


@pytest.mark.parametrize("path", ["/messages", "/groups", "/archived"])
def test_a_list_that_is_looked_through_anew_takes_the_note_along(web: Web, path: str) -> None:
    """Else the note would stay above a list from which it keeps nothing any more."""
    (live,) = re.findall(r"<input [^>]*data-filter[^>]*>", web.get(path, queu="x"))

    assert 'hx-select-oob="#strays"' in live
    assert '<div id="strays"><p class="note' in web.get(path, queu="x")
    assert '<div id="strays"></div>' in web.get(path, text="a")


@pytest.mark.parametrize("path", ASKING)
def test_nothing_is_asked_about_all_that_match(web: Web, path: str) -> None:
    answer = web.http.get(f"{path}&queu=x")

    assert answer.status_code == 400
    assert "Nothing here reads a condition queu" in answer.text


def test_all_messages_cannot_be_selected_in_such_a_list(web: Web) -> None:
    web.api.receive(failure())

    assert 'name="all"' in web.get("/messages")
    assert 'name="all"' not in web.get("/messages", queu="x")


def test_all_archived_messages_cannot_be_taken_back_from_such_a_list(web: Web) -> None:
    (archived,) = web.api.receive(failure())
    web.api.set_status(archived, FailedMessageStatus.ARCHIVED)

    assert "Unarchive all" in web.get("/archived")
    assert "Unarchive all" not in web.get("/archived", queu="x")


def test_a_condition_that_stands_twice_is_refused(web: Web) -> None:
    answer = web.http.get("/messages?queue=a&queue=b")

    assert answer.status_code == 400
    assert "The condition queue stands twice" in answer.text


def test_several_ids_are_none_that_stand_twice(web: Web) -> None:
    one, two = web.api.receive(failure(), failure())

    assert web.http.get(f"/messages/selected?act=retry&id={one}&id={two}").status_code == 200


NARROWED = [
    ("/messages", "text"),
    ("/messages", "queue"),
    ("/groups", "text"),
    ("/pending", "queue"),
    ("/archived", "text"),
    ("/archived/unarchive", "text"),
    ("/imports", "error_queue"),
    ("/streams", "queue"),
    ("/events", "message"),
]


class TestATextThatIsTooLong:
    @pytest.mark.parametrize(("path", "name"), NARROWED)
    def test_is_refused_with_its_name(self, web: Web, path: str, name: str) -> None:
        answer = web.http.get(path, params={name: "a" * 50_000})

        assert answer.status_code == 400
        assert f"The condition {name} has at most 1,024 bytes" in answer.text

    @pytest.mark.parametrize(
        ("path", "name"), [("/archived/unarchive", "text"), ("/pending/resolve", "queue")]
    )
    def test_is_not_cut_into_another_one_in_a_form(self, web: Web, path: str, name: str) -> None:
        moment = "2026-05-04T12:00:00+00:00"
        fields = {"key": "k", "all": "1", "sent_before": moment, name: "a" * 1025}

        answer = web.post(path, fields)

        assert answer.status_code == 400
        assert f"No message has such a text as {name}" in answer.text

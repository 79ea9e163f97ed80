"""Archived messages: who set them aside and when, and taking some or all of them back."""

import re
from collections.abc import Sequence

import pytest

from retrier.domain.failed_message import FailedMessageStatus
from tests.support.factories import failure
from tests.support.web import Web, forms_of

ALL = "/archived/unarchive"


def archive(web: Web, ids: Sequence[str], why: str | None = None) -> str:
    """Let ada archive messages; return the id of the operation."""
    body = {"act": "archive", "selection": {"ids": list(ids)}, "why": why}
    headers = {"X-Retrier-User": "ada"}
    answer = web.api.http.post("/api/archive_operations", json=body, headers=headers)
    return str(answer.json()["operation_id"])


def shown(html: str) -> list[str]:
    return re.findall(r'data-row="message/([^"]+)"', html)


def unresolved(web: Web) -> set[str]:
    return set(web.api.ids("errors", status="unresolved"))


@pytest.fixture
def archived(web: Web) -> list[str]:
    """Give three archived messages, on two queues."""
    ids = web.api.receive(
        failure(queue="orders"), failure(queue="orders"), failure(queue="payments")
    )
    archive(web, ids, "known")
    return ids


def test_an_empty_list_says_what_would_be_there(web: Web) -> None:
    assert "Nothing is archived." in web.get("/archived")


def test_who_archived_it_and_why_is_told(web: Web, archived: list[str]) -> None:
    html = web.get("/archived")

    assert sorted(shown(html)) == sorted(archived)
    assert re.search(r"ada \([^)]*\)</a>", html)
    assert "“known”" in html


def test_what_is_not_archived_is_not_listed(web: Web, archived: list[str]) -> None:
    web.api.receive(failure())

    assert len(shown(web.get("/archived"))) == len(archived)


def test_where_nobody_knows_who_archived_it_the_list_says_so(web: Web) -> None:
    (one,) = web.api.receive(failure())
    web.api.set_status(one, FailedMessageStatus.ARCHIVED)

    assert "not known any more" in web.get("/archived")


def test_it_is_narrowed_by_queue_text_and_operation(web: Web, archived: list[str]) -> None:
    others = web.api.receive(failure(queue="orders"))
    operation = archive(web, others)

    assert len(shown(web.get("/archived", queue="payments"))) == 1
    assert shown(web.get("/archived", text=archived[0])) == [archived[0]]
    assert shown(web.get("/archived", by=operation)) == others


def test_a_condition_is_a_token_that_can_be_removed(web: Web, archived: list[str]) -> None:
    assert archived

    html = web.get("/archived", queue="payments", text="shop")

    assert re.search(r'queue</span> payments <a href="/archived\?text=shop"', html)


def test_the_selected_ones_are_unarchived(web: Web, archived: list[str]) -> None:
    form = web.form("/archived", ALL)

    answer = web.post(ALL, {"key": form["key"], "next": "/archived", "id": archived[0]})

    assert "1 message unarchived." in web.get(answer.headers["Location"])
    assert unresolved(web) == {archived[0]}


def test_if_none_is_selected_nothing_is_done(web: Web, archived: list[str]) -> None:
    assert archived

    answer = web.post(ALL, {"key": "k", "next": "/archived"})

    assert "Nothing was selected, so nothing was done." in web.get(answer.headers["Location"])
    assert unresolved(web) == set()


def test_all_that_match_are_counted_first(web: Web, archived: list[str]) -> None:
    assert archived

    html = web.get(ALL, queue="orders")

    assert "Unarchive 2 messages?" in html
    assert unresolved(web) == set()


def test_all_that_match_are_unarchived_and_no_others(web: Web, archived: list[str]) -> None:
    form = forms_of(web.get(ALL, queue="orders"))[ALL]

    web.post(ALL, form)

    assert unresolved(web) == set(archived[:2])


def test_without_a_condition_all_of_them_are(web: Web, archived: list[str]) -> None:
    form = forms_of(web.get(ALL))[ALL]

    web.post(ALL, form)

    assert unresolved(web) == set(archived)


class TestArchiveOperations:
    def test_are_listed_with_undo(self, web: Web, archived: list[str]) -> None:
        html = web.get("/archive_operations")
        (undo,) = forms_of(html)
        assert "3 of 3 messages archived" in html

        web.post(undo, forms_of(html)[undo])

        assert unresolved(web) == set(archived)

    def test_that_archived_nothing_offer_no_undo(self, web: Web, archived: list[str]) -> None:
        archive(web, archived)

        assert len(forms_of(web.get("/archive_operations"))) == 1

    def test_say_why_some_were_left_as_they_were(self, web: Web, archived: list[str]) -> None:
        operation = archive(web, archived[:1])

        html = web.get(f"/archive_operations/{operation}")

        assert "<b>1</b>: it is archived already" in html
        assert archived[0] in html

    def test_lead_to_what_is_still_archived(self, web: Web, archived: list[str]) -> None:
        assert archived
        (operation,) = web.api.get("archive_operations")

        html = web.get(f"/archive_operations/{operation['id']}")

        assert f"/archived?by={operation['id']}" in html

    def test_are_404_if_there_is_none(self, web: Web) -> None:
        assert web.http.get("/archive_operations/nothing").status_code == 404

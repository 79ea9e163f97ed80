"""Comments on groups on the page: shown with the group and its messages, changed, taken away."""

import httpx
import pytest

from retrier.domain.comments import LONGEST
from retrier.store.schema import event_log, group_comments
from tests.contract.store_rows import rows
from tests.support.factories import failure
from tests.support.web import Web

HOSTILE = "<script>alert(1)</script>\N{RIGHT-TO-LEFT OVERRIDE} & 'x'"
SHOWN = "&lt;script&gt;alert(1)&lt;/script&gt;⟨U+202E⟩ &amp; &#39;x&#39;"
NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def group_id(web: Web) -> str:
    """Give the id of a group with one message."""
    web.api.receive(failure(queue="orders"))
    return str(web.api.get("recoverability/groups")[0]["id"])


def form_of(web: Web, group_id: str) -> dict[str, str]:
    path = f"/groups/{group_id}/comment"
    return web.form(f"{path}?back=/groups", path)


def write(web: Web, group_id: str, text: str) -> httpx.Response:
    fields = {**form_of(web, group_id), "comment": text}
    return web.post(f"/groups/{group_id}/comment", fields)


def comments(web: Web) -> list[str]:
    return [row["comment"] for row in rows(web.api.db, group_comments)]


def kinds(web: Web) -> list[str]:
    return [row["kind"] for row in rows(web.api.db, event_log) if "comment" in row["kind"]]


@pytest.mark.parametrize("where", ["/", "/groups", "/messages?group={}"])
def test_one_is_shown_where_its_group_is(web: Web, group_id: str, where: str) -> None:
    write(web, group_id, "ask the warehouse")

    assert "ask the warehouse" in web.get(where.format(group_id))


def test_one_that_is_written_leads_back_and_is_told(web: Web, group_id: str) -> None:
    answer = write(web, group_id, "one\r\ntwo")

    assert answer.headers["Location"] == "/groups?done=commented"
    assert "The comment is kept" in web.get(answer.headers["Location"])
    assert comments(web) == ["one\ntwo"]


def test_the_form_holds_the_comment_as_it_is(web: Web, group_id: str) -> None:
    write(web, group_id, "known")

    assert "\nknown</textarea>" in web.get(f"/groups/{group_id}/comment")


def test_the_same_form_sent_twice_is_one_comment(web: Web, group_id: str) -> None:
    fields = {**form_of(web, group_id), "comment": "known"}

    answers = [web.post(f"/groups/{group_id}/comment", fields).status_code for _ in range(2)]

    assert answers == [303, 303]
    assert kinds(web) == ["group_commented"]


def test_one_is_taken_away_once(web: Web, group_id: str) -> None:
    write(web, group_id, "known")
    path = f"/groups/{group_id}/comment/delete"
    fields = web.form(f"/groups/{group_id}/comment", path)

    answers = [web.post(path, fields).status_code for _ in range(2)]

    assert answers == [303, 303]
    assert comments(web) == []
    assert kinds(web) == ["group_commented", "group_comment_deleted"]


@pytest.mark.parametrize("where", ["/", "/groups", "/messages?group={}"])
def test_hostile_text_does_nothing(web: Web, group_id: str, where: str) -> None:
    write(web, group_id, HOSTILE)

    html = web.get(where.format(group_id))
    assert SHOWN in html
    assert "<script>alert" not in html


@pytest.mark.parametrize("text", ["", "x" * (LONGEST + 1)])
def test_what_is_empty_or_too_long_is_refused(web: Web, group_id: str, text: str) -> None:
    assert write(web, group_id, text).status_code == 422

    assert comments(web) == []


def test_an_unknown_group_is_a_designed_404(web: Web) -> None:
    path = f"/groups/{NOBODY}/comment"

    assert web.http.get(path).status_code == 404
    assert web.post(path, {"key": "1", "comment": "x"}).status_code == 404
    assert web.post(f"{path}/delete", {"key": "1"}).status_code == 404


def test_a_group_that_is_being_retried_takes_one(web: Web, group_id: str) -> None:
    web.api.http.post(f"/api/recoverability/groups/{group_id}/errors/retry")

    write(web, group_id, "sent at noon")

    assert "sent at noon" in web.get("/groups")

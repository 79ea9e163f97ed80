"""The editor of a message: rows, what differs, and one word more before it is sent."""

import re
from html import unescape
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest

from tests.support.disposing import make_dead
from tests.support.factories import failure
from tests.support.web import Web

NAMES = re.compile(r'name="header" value="([^"]*)"')
VALUES = re.compile(r'<textarea name="value"[^>]*>\n?([^<]*)</textarea>')
BODY = re.compile(r'<textarea name="body"[^>]*>\n?([^<]*)</textarea>')
HIDDEN = re.compile(r'type="hidden" name="(attempt|looked)" value="([^"]*)"')


class Editor:
    """The form as a browser has it without scripts; lines end with CR LF when it is sent."""

    def __init__(self, web: Web, key: str) -> None:
        self.web, self.path, self.key = web, f"/messages/{key}/edit", str(uuid4())
        self.read(web.http.get(self.path))

    def read(self, answer: Any) -> None:
        self.text, self.status = answer.text, answer.status_code
        self.location = answer.headers.get("location", "")
        names = [unescape(each) for each in NAMES.findall(self.text)]
        values = [unescape(each) for each in VALUES.findall(self.text)]
        self.rows = dict(zip(names, values, strict=False))
        found = BODY.search(self.text)
        self.body = unescape(found[1]) if found else None
        self.hidden = dict(HIDDEN.findall(self.text))

    def send(self, do: str, *more: tuple[str, str]) -> None:
        pairs = [("do", do), ("key", self.key), *self.hidden.items(), *more]
        for name, value in self.rows.items():
            pairs += [("header", name), ("value", value.replace("\n", "\r\n"))]
        if self.body is not None:
            pairs.append(("body", self.body.replace("\n", "\r\n")))
        content = urlencode(pairs)
        own = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "http://localhost"}
        self.read(self.web.http.post(self.path, content=content, headers=own))


@pytest.fixture
def key(web: Web) -> str:
    return web.api.receive(failure(body=b'{"order":7}'))[0]


@pytest.fixture
def editor(web: Web, key: str) -> Editor:
    return Editor(web, key)


def edits(web: Web, key: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = web.api.get(f"errors/{key}").get("edits", [])
    return found


def test_shows_the_body_in_lines_and_the_headers_as_rows(editor: Editor) -> None:
    assert editor.body == '{\n  "order": 7\n}'
    assert editor.rows["Shop.Tenant"] == "north"


def test_shows_what_differs_before_it_can_be_sent(editor: Editor, web: Web, key: str) -> None:
    editor.rows["Shop.Tenant"] = "south"

    editor.send("look")

    assert "<del><bdi>north</bdi></del>" in editor.text
    assert "Send the edited message" in editor.text
    assert edits(web, key) == []


def test_is_not_sent_before_what_differs_was_shown(editor: Editor, web: Web, key: str) -> None:
    editor.rows["Shop.Tenant"] = "south"

    editor.send("send")

    assert (editor.status, edits(web, key)) == (200, [])


def test_is_sent_as_it_was_shown(editor: Editor, web: Web, key: str) -> None:
    editor.body = '{"order":8}'
    editor.send("look")

    editor.send("send", ("why", "wrong order"))

    (shown,) = edits(web, key)
    assert (editor.status, shown["why"]) == (303, "wrong order")
    assert shown["body_size"] == len('{"order":8}')


def test_is_shown_once_more_if_it_was_changed_since(editor: Editor, web: Web, key: str) -> None:
    editor.rows["Shop.Tenant"] = "south"
    editor.send("look")
    editor.rows["Shop.Tenant"] = "west"

    editor.send("send")

    assert "<ins><bdi>west</bdi></ins>" in editor.text
    assert edits(web, key) == []


def test_does_not_change_a_body_that_was_only_set_in_lines(
    editor: Editor, web: Web, key: str
) -> None:
    editor.rows["Shop.Tenant"] = "south"
    editor.send("look")

    editor.send("send")

    assert edits(web, key)[0]["body_changed"] is False


def test_keeps_the_line_ends_of_the_body(web: Web) -> None:
    (key,) = web.api.receive(failure(body=b"one\r\ntwo", content_type="text/plain"))
    editor = Editor(web, key)
    editor.body = "one\nthree"
    editor.send("look")

    editor.send("send")

    assert edits(web, key)[0]["body_size"] == len("one\r\nthree")


def test_removes_a_header(editor: Editor, web: Web, key: str) -> None:
    removed = ("remove", "Shop.Tenant")
    editor.send("look", removed)

    editor.send("send", removed)

    changed = {each["key"]: each for each in edits(web, key)[0]["headers"]}
    assert changed["Shop.Tenant"] == {"key": "Shop.Tenant", "before": "north"}


def test_adds_a_header(editor: Editor, web: Web, key: str) -> None:
    editor.rows["Shop.New"] = "1"
    editor.send("look")

    editor.send("send")

    assert {"key": "Shop.New", "after": "1"} in edits(web, key)[0]["headers"]


def test_asks_before_a_body_is_sent_broken(editor: Editor, web: Web, key: str) -> None:
    editor.body = '{"order":'
    editor.send("look")
    assert "No JSON" in editor.text
    assert "Send the edited message" not in editor.text

    editor.send("look", ("broken", "yes"))
    editor.send("send", ("broken", "yes"))

    assert len(edits(web, key)) == 1


def test_asks_before_a_dead_message_is_sent(web: Web, key: str) -> None:
    make_dead(web.api.db, key)
    editor = Editor(web, key)
    editor.rows["Shop.Tenant"] = "south"

    editor.send("look", ("dead", "yes"))
    editor.send("send", ("dead", "yes"))

    assert len(edits(web, key)) == 1


def test_says_who_was_faster(editor: Editor, web: Web, key: str) -> None:
    other = Editor(web, key)
    for each in (editor, other):
        each.rows["Shop.Tenant"] = "south"
        each.send("look")
    editor.send("send")

    other.send("send")

    assert other.status == 409
    assert "that is you, or somebody" in unescape(other.text)


def test_of_what_nobody_knows_is_404(web: Web) -> None:
    assert web.http.get("/messages/00000000-0000-0000-0000-000000000000/edit").status_code == 404


def test_the_page_of_the_message_tells_its_edits(editor: Editor, web: Web, key: str) -> None:
    editor.rows["Shop.Tenant"] = "south"
    editor.send("look")
    editor.send("send")

    text = web.http.get(f"/messages/{key}").text

    assert "is on its way" in text
    assert "<ins><bdi>south</bdi></ins>" in text


def test_what_a_header_holds_is_shown_as_text(web: Web) -> None:
    (key,) = web.api.receive(failure(headers={"Shop.<b>": "</textarea><script>"}))

    editor = Editor(web, key)

    assert "<script>" not in editor.text.replace("<script src", "")
    assert editor.rows["Shop.<b>"] == "</textarea><script>"

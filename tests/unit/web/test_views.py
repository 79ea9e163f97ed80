"""Lists that are saved under a name: asked for, opened, replaced and deleted on the page."""

from html import unescape
from urllib.parse import quote

import pytest
from markupsafe import escape

from retrier.domain.parameters import names_read_by
from retrier.domain.views import CONDITIONS
from retrier.web.application import WORKING
from tests.support.factories import failure
from tests.support.web import Web, forms_of

PATHS = {f"/{name}" for name in CONDITIONS}


def save(web: Web, name: str, queue: str = "orders") -> str:
    """Save the messages of a queue, and return where that leads."""
    form = web.form(f"/save-view?view=messages&query=queue%3D{queue}", "/save-view")
    answer = web.post("/save-view", {**form, "name": name})
    assert answer.status_code == 303, answer.text
    return str(answer.headers["Location"])


def test_a_filtered_list_is_saved_and_its_name_leads_there(web: Web) -> None:
    html = web.get("/messages", queue="orders")
    assert "/save-view?view=messages&query=queue%3Dorders" in unescape(html)

    save(web, "night shift")

    answer = web.http.get("/views/night%20shift")
    assert answer.headers["Location"] == "/messages?queue=orders"
    assert "night shift" in web.get("/views")


def test_a_list_without_conditions_is_not_saved(web: Web) -> None:
    web.api.receive(failure())

    assert "/save-view" not in web.get("/messages")
    assert web.http.get("/save-view", params={"view": "messages"}).status_code == 400


def test_a_name_that_is_taken_asks_before_it_is_replaced(web: Web) -> None:
    save(web, "night")
    form = web.form("/save-view?view=messages&query=queue%3Dother", "/save-view")

    asked = web.post("/save-view", {**form, "name": "night"})

    assert asked.status_code == 200
    assert "Replace the view “night”?" in asked.text
    assert web.http.get("/views/night").headers["Location"] == "/messages?queue=orders"
    web.post("/save-view", forms_of(asked.text)["/save-view"])
    assert web.http.get("/views/night").headers["Location"] == "/messages?queue=other"


def test_who_was_slower_replaces_nothing(web: Web) -> None:
    save(web, "night")
    form = web.form("/save-view?view=messages&query=queue%3Dother", "/save-view")
    asked = forms_of(web.post("/save-view", {**form, "name": "night"}).text)["/save-view"]
    web.post("/save-view", asked)

    again = web.post("/save-view", {**asked, "query": "queue=third"})

    assert again.status_code == 409
    assert web.http.get("/views/night").headers["Location"] == "/messages?queue=other"


def test_a_view_is_deleted(web: Web) -> None:
    save(web, "night")

    web.post("/views/night/delete", web.form("/views/night/delete", "/views/night/delete"))

    assert web.http.get("/views/night").status_code == 404
    assert "No view is saved." in web.get("/views")


def test_a_name_is_text_and_nothing_else(web: Web) -> None:
    save(web, "<b>night")

    assert "<b>night" not in web.get("/views")
    assert "&lt;b&gt;night" in web.get("/views")


def test_every_view_keeps_what_its_list_reads() -> None:
    read = {
        route.path: names_read_by(route.dependant)
        for router in WORKING
        for route in router.routes
        if route.path in PATHS and "GET" in route.methods
    }

    no_conditions = {"page", "before", "also"}
    kept = {path: set(names) - no_conditions for path, names in read.items()}
    assert kept == {f"/{name}": names for name, names in CONDITIONS.items()}


WRONG = [
    ("messages", "status=bogus"),
    ("messages", "status=unresolved&sort=color"),
    ("messages", "failed_from=soon"),
    ("messages", "outcome=lost"),
    ("messages", "queue=a%00b"),
    ("groups", "by=color"),
    ("groups", "since=soon"),
    ("groups", "by=type&direction=up"),
    ("events", "kind=bogus"),
    ("events", "people=perhaps"),
    ("pending", "older=year"),
]


@pytest.mark.parametrize(("page", "query"), WRONG)
def test_what_the_list_refuses_is_not_saved_and_told_in_its_words(
    web: Web, page: str, query: str
) -> None:
    opened = web.http.get(f"/{page}?{query}")
    asked = web.http.get("/save-view", params={"view": page, "query": query})
    saved = web.post("/save-view", {"name": "night", "view": page, "query": query})
    put = web.api.http.put("/api/views/night", json={"page": page, "query": query})

    assert (opened.status_code, asked.status_code, saved.status_code) == (400, 400, 400)
    assert put.status_code == 422
    assert put.json()["errors"][0]["field"] == "body.query"
    # A NUL does not come as far as the list: every address with one is refused.
    for answer in (asked, saved) if "%00" in query else (asked, saved, opened):
        assert str(escape(put.json()["detail"])).lower() in answer.text.lower()
    assert web.http.get("/views/night").status_code == 404


@pytest.mark.parametrize("name", ["a/b", "/", "a/b/delete"])
def test_a_name_with_a_slash_is_told_to_be_no_name(web: Web, name: str) -> None:
    path = f"/api/views/{quote(name, safe='')}"

    put = web.api.http.put(path, json={"page": "messages", "query": "queue=a"})

    assert put.status_code == 422
    assert "has no slash" in put.json()["detail"]
    assert "No view has the name" in web.api.http.get(path).json()["detail"]
    assert "No view has the name" in web.http.get(f"/views/{quote(name, safe='')}").text

"""Lists that are saved under a name: asked for, opened, replaced and deleted on the page."""

from html import unescape

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

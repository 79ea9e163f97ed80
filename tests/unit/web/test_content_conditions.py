"""Conditions on what stands in messages: no page shows their values to who may not read content."""

from collections.abc import Iterator
from html import unescape

import pytest

from retrier.domain.access import AccessRole
from retrier.store.engine.database import Database
from tests.support.access import bearer, rules
from tests.support.api import Api
from tests.support.bench import Bench
from tests.support.factories import failure
from tests.support.fields import declare
from tests.support.web import Web, forms_of
from tests.support.words import fill

SECRET = "WZsecret"
CONDITIONS = [{"field.order": SECRET}, {"words": SECRET}]

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@pytest.fixture
def web(database: Database) -> Iterator[Web]:
    """Give a page with a message that has the secret, to which the browser is an operator's."""
    api = Api(database, rules=rules(), full_text=True, fields=declare(order="/order"))
    api.receive(failure(body=SECRET.encode(), fields={"order": SECRET}))
    fill(database)
    made = Web(api)
    made.http.headers.update(bearer(AccessRole.OPERATOR))
    yield made
    made.close()
    api.http.close()


def act(web: Web, name: str, selection: dict[str, str]) -> None:
    """Retry or archive all that a list with this condition shows, as a person does."""
    asked = web.get("/messages/selected", act=name, all="1", **selection)
    answer = web.post(f"/messages/{name}", forms_of(asked)[f"/messages/{name}"])
    assert answer.status_code == 303, answer.text


def show(web: Web, path: str, role: AccessRole = AccessRole.READER) -> str:
    answer = web.http.get(path, headers=bearer(role))
    assert answer.status_code == 200, answer.text
    return unescape(answer.text)


def operation_of(web: Web, path: str) -> str:
    found = web.api.http.get(f"/api/{path}", headers=bearer(AccessRole.READER)).json()
    return next(f"/{path}/{each['id']}" for each in found if "not told" in each["originator"])


@pytest.mark.parametrize("selection", CONDITIONS)
@pytest.mark.parametrize("path", ["/", "/operations", "/events", "/processor"])
def test_a_reader_is_not_told_what_was_asked_for(
    web: Web, path: str, selection: dict[str, str]
) -> None:
    act(web, "retry", selection)

    assert SECRET not in show(web, path)


def test_the_history_names_a_condition_without_its_value(web: Web) -> None:
    act(web, "retry", {"words": SECRET})
    Bench(web.api.db).work()

    html = show(web, "/history")

    assert "words (its value is not told here)" in html
    assert SECRET not in html


@pytest.mark.parametrize("path", ["operations", "archive_operations"])
def test_an_operation_names_a_condition_without_its_value(web: Web, path: str) -> None:
    act(web, "retry" if path == "operations" else "archive", {"field.order": SECRET})

    html = show(web, operation_of(web, path))

    assert "field.order (its value is not told here)" in html
    assert SECRET not in html


@pytest.mark.parametrize("path", ["operations", "archive_operations"])
def test_an_operation_shows_the_value_to_who_may_read_content(web: Web, path: str) -> None:
    act(web, "retry" if path == "operations" else "archive", {"field.order": SECRET})

    html = show(web, operation_of(web, path), AccessRole.CONTENT)

    assert f"field.order {SECRET}" in html
    assert f"/messages?field.order={SECRET}" in html


def test_a_message_names_what_archived_it_without_the_value(web: Web) -> None:
    (key,) = (each["id"] for each in web.api.http.get("/api/errors", headers=_READER).json())
    act(web, "archive", {"field.order": SECRET})

    assert SECRET not in show(web, f"/messages/{key}")


def test_the_question_before_an_act_shows_the_value_to_who_asks(web: Web) -> None:
    asked = web.get("/messages/selected", act="archive", all="1", **{"field.order": SECRET})

    assert f"Field.order {SECRET}" in asked


_READER = bearer(AccessRole.READER)


@pytest.fixture
def saved(web: Web) -> None:
    """Save a view by words."""
    form = web.form(f"/save-view?view=messages&query=words%3D{SECRET}", "/save-view")
    assert web.post("/save-view", {**form, "name": "night"}).status_code == 303


@pytest.mark.usefixtures("saved")
def test_a_view_by_words_is_not_listed_to_a_reader(web: Web) -> None:
    assert "/views/night" not in show(web, "/views")


@pytest.mark.usefixtures("saved")
def test_a_view_by_words_leads_a_reader_nowhere(web: Web) -> None:
    answer = web.http.get("/views/night", headers=_READER)

    assert (answer.status_code, answer.headers.get("Location")) == (404, None)


@pytest.mark.usefixtures("saved")
def test_a_view_by_words_leads_who_may_read_content_to_the_list(web: Web) -> None:
    answer = web.http.get("/views/night", headers=bearer(AccessRole.CONTENT))

    assert answer.headers["Location"] == f"/messages?words={SECRET}"

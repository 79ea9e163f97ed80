"""Conditions on what stands in messages: who may not read content is told no value of them."""

from collections.abc import Iterator
from typing import Any

import pytest

from retrier.domain.access import HIDDEN, AccessRole
from retrier.store.engine.database import Database
from tests.support.access import bearer, rules
from tests.support.api import Api
from tests.support.bench import Bench
from tests.support.factories import failure
from tests.support.fields import declare
from tests.support.words import fill

SECRET = "WZsecret"
CONDITIONS = [{"field.order": SECRET}, {"words": SECRET}]

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@pytest.fixture
def api(database: Database) -> Iterator[Api]:
    """Give an API with a message that has the secret, to which its client is an operator."""
    made = Api(database, rules=rules(), full_text=True, fields=declare(order="/order"))
    made.receive(failure(body=SECRET.encode(), fields={"order": SECRET}))
    fill(database)
    made.http.headers.update(bearer(AccessRole.OPERATOR))
    yield made
    made.http.close()


def act(api: Api, path: str, selection: dict[str, str]) -> str:
    """Retry or archive what a selection matches, and return the id of the operation."""
    more = {"act": "archive"} if path == "archive_operations" else {}
    answer = api.http.post(f"/api/{path}", json={"selection": selection, **more})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["operation_id"])


def read(api: Api, path: str, role: AccessRole = AccessRole.READER) -> Any:
    answer = api.http.get(f"/api/{path}", headers=bearer(role))
    assert answer.status_code == 200, answer.text
    return answer


@pytest.mark.parametrize("selection", CONDITIONS)
class TestAReaderIsNotToldWhatWasAskedFor:
    @pytest.mark.parametrize("path", ["operations", "archive_operations"])
    def test_by_the_list_of_operations(
        self, api: Api, path: str, selection: dict[str, str]
    ) -> None:
        act(api, path, selection)

        found = read(api, path)

        assert len(found.json()) >= 1
        assert SECRET not in found.text

    @pytest.mark.parametrize("path", ["operations", "archive_operations"])
    def test_by_an_operation(self, api: Api, path: str, selection: dict[str, str]) -> None:
        key = act(api, path, selection)

        assert SECRET not in read(api, f"{path}/{key}").text

    def test_by_the_event_log(self, api: Api, selection: dict[str, str]) -> None:
        act(api, "operations", selection)

        found = read(api, "eventlogitems")

        assert len(found.json()) >= 1
        assert SECRET not in found.text

    @pytest.mark.parametrize("path", ["operations", "archive_operations"])
    def test_by_the_events_of_a_message(
        self, api: Api, path: str, selection: dict[str, str]
    ) -> None:
        (key,) = api.ids()
        act(api, path, selection)
        Bench(api.db).work()

        assert SECRET not in read(api, f"errors/{key}/events").text

    def test_by_the_history(self, api: Api, selection: dict[str, str]) -> None:
        key = act(api, "operations", selection)
        Bench(api.db).work()

        found = read(api, "recoverability/history")

        assert key in found.text
        assert SECRET not in found.text

    def test_by_the_work_of_the_processor(self, api: Api, selection: dict[str, str]) -> None:
        key = act(api, "operations", selection)

        found = read(api, "processor")

        assert key in found.text
        assert SECRET not in found.text


class TestAnOperation:
    def test_names_a_condition_on_content_without_its_value(self, api: Api) -> None:
        key = act(api, "archive_operations", {"field.order": SECRET, "queue": "orders"})

        found = read(api, f"archive_operations/{key}").json()

        told = "archive of queue orders, field.order (its value is not told here)"
        assert found["originator"] == told

    def test_hides_the_value_in_its_selection(self, api: Api) -> None:
        key = act(api, "archive_operations", {"field.order": SECRET, "queue": "orders"})

        found = read(api, f"archive_operations/{key}").json()

        assert found["selection"] == {"queue": "orders", "field.order": HIDDEN}

    @pytest.mark.parametrize("path", ["operations", "archive_operations"])
    def test_shows_the_value_to_who_may_read_content(self, api: Api, path: str) -> None:
        key = act(api, path, {"field.order": SECRET})

        found = read(api, f"{path}/{key}", AccessRole.CONTENT).json()

        assert found["selection"] == {"field.order": SECRET}

    def test_of_a_retry_hides_the_value_in_its_selection(self, api: Api) -> None:
        key = act(api, "operations", {"field.order": SECRET})

        assert read(api, f"operations/{key}").json()["selection"] == {"field.order": HIDDEN}


@pytest.fixture
def saved(api: Api) -> list[str]:
    """Save views, one by a field, one by words, and one that is for all; return their names."""
    queries = {"field": f"field.order={SECRET}", "words": f"words={SECRET}", "queue": "queue=a"}
    for name, query in queries.items():
        answer = api.http.put(f"/api/views/{name}", json={"page": "messages", "query": query})
        assert answer.status_code == 200, answer.text
    return list(queries)


class TestAView:
    @pytest.mark.usefixtures("saved")
    def test_with_a_condition_on_content_is_not_listed_to_a_reader(self, api: Api) -> None:
        assert [each["name"] for each in read(api, "views").json()] == ["queue"]

    def test_is_listed_to_who_may_read_content(self, api: Api, saved: list[str]) -> None:
        found = read(api, "views", AccessRole.CONTENT).json()

        assert sorted(each["name"] for each in found) == sorted(saved)

    @pytest.mark.usefixtures("saved")
    @pytest.mark.parametrize("name", ["field", "words"])
    def test_with_a_condition_on_content_is_as_an_unknown_one(self, api: Api, name: str) -> None:
        reader = bearer(AccessRole.READER)

        hidden = api.http.get(f"/api/views/{name}", headers=reader)

        unknown = api.http.get("/api/views/none", headers=reader)
        assert hidden.status_code == 404
        assert hidden.text.replace(name, "none") == unknown.text

    @pytest.mark.usefixtures("saved")
    def test_is_saved_without_its_conditions_in_the_event_log(self, api: Api) -> None:
        found = read(api, "eventlogitems")

        assert "the view words: a list by what stands in messages" in found.text
        assert SECRET not in found.text

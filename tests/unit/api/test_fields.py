"""Declared fields over HTTP: as conditions of lists and of acts, and shown with a message."""

from collections.abc import Iterator
from typing import Any

import pytest

from retrier.domain.access import AccessRole
from retrier.domain.classifiers import CLASSIFIERS
from retrier.store.engine.database import Database
from tests.support.access import OTHER, OWN, bearer, rules
from tests.support.api import Api
from tests.support.factories import failure
from tests.support.fields import DECLARED


@pytest.fixture
def api(database: Database) -> Iterator[Api]:
    """Give the API of a service that declares these fields."""
    made = Api(database, fields=DECLARED)
    yield made
    made.http.close()


@pytest.fixture
def three(api: Api) -> list[str]:
    return api.receive(
        failure(fields={"order": "4711", "total": "5"}),
        failure(fields={"order": "4712", "total": "10"}),
        failure(fields={"total": "20"}),
    )


def refusal(answer: Any, status: int = 400) -> dict[str, str]:
    assert answer.status_code == status, answer.text
    found: dict[str, str] = answer.json()["errors"][0]
    return found


class TestAList:
    def test_is_narrowed_by_a_value(self, api: Api, three: list[str]) -> None:
        assert api.ids(**{"field.order": "4711"}) == [three[0]]

    def test_is_narrowed_by_a_range(self, api: Api, three: list[str]) -> None:
        assert sorted(api.ids(**{"field.total": "10..20"})) == sorted(three[1:])

    def test_is_narrowed_by_two_fields(self, api: Api, three: list[str]) -> None:
        assert api.ids(**{"field.total": "5", "field.order": "4711"}) == [three[0]]
        assert api.ids(**{"field.total": "6", "field.order": "4711"}) == []

    def test_of_an_endpoint_is_narrowed_alike(self, api: Api, three: list[str]) -> None:
        answer = api.http.get("/api/endpoints/Sales/errors", params={"field.order": "4711"})

        assert [each["id"] for each in answer.json()] == [three[0]]

    def test_of_a_group_is_narrowed_alike(self, api: Api, three: list[str]) -> None:
        group = api.http.get(f"/api/errors/{three[0]}").json()["failure_groups"][0]["id"]

        path = f"/api/recoverability/groups/{group}/errors"
        answer = api.http.get(path, params={"field.order": "4712"})

        assert [each["id"] for each in answer.json()] == [three[1]]

    def test_is_not_narrowed_by_an_empty_condition(self, api: Api, three: list[str]) -> None:
        assert len(api.ids(**{"field.order": ""})) == len(three)

    def test_refuses_a_field_that_is_not_declared_and_names_those_that_are(self, api: Api) -> None:
        refused = refusal(api.http.get("/api/errors", params={"field.oder": "4711"}))

        assert refused == {
            "field": "query.field.oder",
            "reason": "No field is called oder. Declared in search.fields: customer, order, total.",
        }

    @pytest.mark.parametrize(
        ("name", "value", "words"),
        [
            ("field.total", "20..10", "lies before its beginning"),
            ("field.total", "1..x", "x is neither"),
            ("field.", "1", "The name of a field"),
        ],
    )
    def test_refuses_a_condition_that_cannot_be_meant(
        self, api: Api, name: str, value: str, words: str
    ) -> None:
        assert words in refusal(api.http.get("/api/errors", params={name: value}))["reason"]

    def test_refuses_a_field_that_stands_twice(self, api: Api) -> None:
        answer = api.http.get("/api/errors?field.order=1&field.order=2")

        assert refusal(answer)["reason"] == "The parameter field.order stands twice in the address."

    def test_of_something_else_reads_no_field(self, api: Api) -> None:
        answer = api.http.get("/api/operations", params={"field.order": "1"})

        assert "Nothing here reads a parameter field.order" in refusal(answer)["reason"]


def ask(api: Api, path: str, selection: dict[str, object], **more: object) -> Any:
    return api.http.post(path, json={"selection": selection, **more})


class TestARetry:
    @pytest.mark.usefixtures("three")
    def test_is_of_the_messages_with_a_value(self, api: Api) -> None:
        preview = ask(api, "/api/operations/preview", {"field.total": "10.."}).json()

        assert preview["total"] == 2

    @pytest.mark.usefixtures("three")
    def test_shows_what_was_asked_for(self, api: Api) -> None:
        made = ask(api, "/api/operations", {"field.total": "10.."}).json()["operation_id"]

        found = api.http.get(f"/api/operations/{made}").json()
        assert (found["selection"], found["total"]) == ({"field.total": "10.."}, 2)

    @pytest.mark.usefixtures("three")
    def test_of_another_value_is_not_that_of_a_plan(self, api: Api) -> None:
        plan = ask(api, "/api/operations/preview", {"field.order": "4711"}).json()["plan"]

        answer = ask(api, "/api/operations", {"field.order": "4712"}, plan=plan)

        assert answer.status_code == 409

    @pytest.mark.usefixtures("three")
    def test_by_a_plan_is_of_what_was_counted(self, api: Api) -> None:
        plan = ask(api, "/api/operations/preview", {"field.order": "4711"}).json()["plan"]
        api.receive(failure(fields={"order": "4711"}))

        made = ask(api, "/api/operations", {"field.order": "4711"}, plan=plan).json()

        assert api.http.get(f"/api/operations/{made['operation_id']}").json()["total"] == 1

    def test_of_an_unknown_field_is_refused(self, api: Api) -> None:
        refused = refusal(ask(api, "/api/operations", {"field.oder": "1"}))

        assert refused["field"] == "body.selection.field.oder"
        assert "customer, order, total" in refused["reason"]

    @pytest.mark.parametrize("value", ["", 4711, None, "20..10", ["4711"], "a\0b"], ids=repr)
    def test_of_what_is_no_value_is_refused(self, api: Api, value: object) -> None:
        answer = ask(api, "/api/operations", {"field.total": value})

        assert refusal(answer, 422)["field"].startswith("body.selection.field")

    def test_by_ids_goes_with_no_field(self, api: Api, three: list[str]) -> None:
        answer = ask(api, "/api/operations", {"ids": three, "field.order": "4711"})

        assert answer.status_code == 422


class TestAnArchiving:
    def test_is_of_the_messages_with_a_value(self, api: Api, three: list[str]) -> None:
        answer = ask(api, "/api/archive_operations", {"field.order": "4711"}, act="archive")

        assert answer.status_code == 202, answer.text
        assert api.ids(status="archived") == [three[0]]

    def test_of_an_unknown_field_is_refused(self, api: Api) -> None:
        answer = ask(api, "/api/archive_operations/preview", {"field.x": "1"}, act="archive")

        assert refusal(answer)["field"] == "body.selection.field.x"


def test_the_description_knows_the_conditions_of_a_selection(api: Api) -> None:
    body = api.app.openapi()["components"]["schemas"]["SelectionBody"]

    assert list(body["patternProperties"]) == ["^field\\.[a-z][a-z0-9_-]{0,63}$"]
    assert [name for name in body["properties"] if name.startswith("field")] == []


@pytest.mark.usefixtures("three")
def test_a_view_keeps_the_conditions_on_fields(api: Api) -> None:
    saved = api.http.put(
        "/api/views/night", json={"page": "messages", "query": "field.order=4711&status=all"}
    )

    assert saved.json()["query"] == "field.order=4711&status=all"


def test_a_view_of_an_unknown_field_is_refused(api: Api) -> None:
    answer = api.http.put("/api/views/night", json={"page": "messages", "query": "field.x=1"})

    assert "No field is called x" in answer.json()["detail"]


class TestAMessage:
    def test_shows_the_values_that_it_has(self, api: Api, three: list[str]) -> None:
        shown = api.http.get(f"/api/errors/{three[0]}").json()

        assert shown["fields"] == {"order": "4711", "total": "5"}

    def test_shows_none_where_it_has_none(self, api: Api) -> None:
        (plain,) = api.receive(failure())

        assert api.http.get(f"/api/errors/{plain}").json()["fields"] == {}

    def test_says_nothing_of_fields_where_none_is_declared(self, database: Database) -> None:
        api = Api(database)
        (plain,) = api.receive(failure())

        assert "fields" not in api.http.get(f"/api/errors/{plain}").json()
        api.http.close()


class TestWhatIsStoredAlready:
    def reindex(self, api: Api, **body: object) -> dict[str, int]:
        answer = api.http.post("/api/search/reindex", json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, int] = answer.json()
        return found

    def test_is_read_anew(self, api: Api) -> None:
        (stored,) = api.receive(failure(body=b'{"order": 4711}'))

        done = self.reindex(api)

        assert (done["read"], done["values"], done["passed_over"]) == (1, 1, 0)
        assert api.ids(**{"field.order": "4711"}) == [stored]

    def test_is_over_behind_the_last_message(self, api: Api) -> None:
        api.receive(failure(), failure())

        last = self.reindex(api)["after"]

        assert self.reindex(api, after=last) == {"read": 0, "values": 0, "passed_over": 0}

    @pytest.mark.parametrize(
        "body", [{"after": -1}, {"after": "1"}, {"before": 1}, {"after": 2**63}]
    )
    def test_goes_on_behind_a_number_only(self, api: Api, body: dict[str, object]) -> None:
        assert api.http.post("/api/search/reindex", json=body).status_code == 422


class TestWhoMayNotReadBodies:
    @pytest.fixture
    def api(self, database: Database) -> Iterator[Api]:
        made = Api(database, fields=DECLARED, rules=rules())
        yield made
        made.http.close()

    def test_is_shown_no_value(self, api: Api, three: list[str]) -> None:
        path = f"/api/errors/{three[0]}"

        seen = api.http.get(path, headers=bearer(AccessRole.READER)).json()
        whole = api.http.get(path, headers=bearer(AccessRole.CONTENT)).json()

        assert "fields" not in seen
        assert whole["fields"] == {"order": "4711", "total": "5"}

    def test_finds_nothing_out_by_conditions(self, api: Api, three: list[str]) -> None:
        asked = {"params": {"field.total": "5..6"}, "headers": bearer(AccessRole.READER)}

        assert three
        assert api.http.get("/api/errors", **asked).status_code == 403

    def test_finds_nothing_out_by_a_preview(self, api: Api, three: list[str]) -> None:
        body = {"selection": {"field.order": "4711"}}

        seen = api.http.post(
            "/api/operations/preview", json=body, headers=bearer(AccessRole.READER)
        )

        assert three
        assert seen.status_code == 403


class TestGroupsByAField:
    def by(self, api: Api, name: str) -> Any:
        answer = api.http.get(f"/api/recoverability/fields/{name}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def test_count_unresolved_messages_by_value_the_most_first(self, api: Api) -> None:
        *_, archived = api.receive(
            failure(fields={"customer": "ada"}),
            failure(fields={"customer": "bob"}),
            failure(fields={"customer": "bob", "total": "5"}),
            failure(fields={"customer": "cyd"}),
            failure(fields={"customer": "ada"}),
            failure(fields={"customer": "bob"}),
            failure(),
            failure(fields={"customer": "dan"}),
        )
        api.http.patch(f"/api/errors/{archived}/archive")

        assert self.by(api, "customer") == {
            "field": "customer",
            "total": 3,
            "messages": 6,
            "values": [
                {"value": "bob", "count": 3},
                {"value": "ada", "count": 2},
                {"value": "cyd", "count": 1},
            ],
        }

    @pytest.mark.usefixtures("three")
    def test_are_none_where_no_message_has_the_field(self, api: Api) -> None:
        shown = self.by(api, "customer")

        assert (shown["total"], shown["messages"], shown["values"]) == (0, 0, [])

    def test_of_a_field_that_is_not_declared_are_not_found(self, api: Api) -> None:
        answer = api.http.get("/api/recoverability/fields/colour")

        assert answer.status_code == 404
        assert "Declared in search.fields: customer, order, total." in answer.json()["detail"]

    def test_are_no_classifier(self, api: Api) -> None:
        assert len(api.get("recoverability/classifiers")) == len(CLASSIFIERS)


class TestWhoSeesGroupsByAField:
    @pytest.fixture
    def api(self, database: Database) -> Iterator[Api]:
        made = Api(database, fields=DECLARED, rules=rules(reads_own_only=True))
        made.receive(
            failure(queue=OWN, fields={"customer": "ada"}),
            failure(queue=OTHER, fields={"customer": "ada"}),
            failure(queue=OTHER, fields={"customer": "bob"}),
        )
        yield made
        made.http.close()

    def ask(self, api: Api, role: AccessRole, *, is_narrow: bool = False) -> Any:
        who = bearer(role, is_narrow=is_narrow)
        return api.http.get("/api/recoverability/fields/customer", headers=who)

    def test_who_may_not_read_content_sees_none(self, api: Api) -> None:
        assert self.ask(api, AccessRole.READER).status_code == 403

    def test_who_sees_some_queues_only_is_counted_these(self, api: Api) -> None:
        whole = self.ask(api, AccessRole.CONTENT).json()
        own = self.ask(api, AccessRole.CONTENT, is_narrow=True).json()

        assert (whole["total"], whole["messages"]) == (2, 3)
        assert own["values"] == [{"value": "ada", "count": 1}]

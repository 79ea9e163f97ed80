"""Full text over HTTP: one question for all, words as a condition of lists and of acts."""

from collections.abc import Iterator
from typing import Any

import pytest

from retrier.domain.access import AccessRole
from retrier.store.engine.database import Database
from tests.support.access import OTHER, OWN, bearer, rules
from tests.support.api import Api
from tests.support.bench import Bench
from tests.support.factories import failure
from tests.support.fields import declare
from tests.support.words import fill


@pytest.fixture
def api(database: Database) -> Iterator[Api]:
    """Give the API of a service that searches full text."""
    made = Api(database, fields=declare(order="/order"), full_text=True)
    yield made
    made.http.close()


@pytest.fixture
def three(api: Api) -> list[str]:
    ids = api.receive(
        failure(body=b'{"text": "A-4711 is late"}', fields={"order": "4711"}),
        failure(body=b'{"text": "A-4712 is late"}', fields={"order": "4712"}),
        failure(body=b'{"text": "nothing"}', exception_message="late"),
    )
    fill(api.db)
    return ids


def refusal(answer: Any, status: int = 400) -> dict[str, str]:
    assert answer.status_code == status, answer.text
    found: dict[str, str] = answer.json()["errors"][0]
    return found


def search(api: Api, text: str) -> dict[str, Any]:
    answer = api.http.get("/api/search", params={"q": text})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def ways(api: Api, text: str) -> list[tuple[dict[str, str], int]]:
    return [(each["conditions"], each["count"]) for each in search(api, text)["found"]]


class TestAList:
    def test_is_narrowed_by_words(self, api: Api, three: list[str]) -> None:
        assert api.ids(words="a-4711 LATE") == [three[0]]

    def test_is_narrowed_by_words_and_a_field(self, api: Api, three: list[str]) -> None:
        assert api.ids(words="late", **{"field.order": "4712"}) == [three[1]]

    def test_without_full_text_refuses_words(self, database: Database) -> None:
        plain = Api(database)

        refused = refusal(plain.http.get("/api/errors", params={"words": "late"}))

        assert refused["field"] == "query.words"
        assert "search.text.enabled" in refused["reason"]

    def test_of_servicecontrol_is_found_by_words_too(self, api: Api, three: list[str]) -> None:
        answer = api.http.get("/api/messages/search", params={"q": "A-4711"})

        assert [each["id"] for each in answer.json()] == [three[0]]
        assert "words" in answer.headers["X-Retrier-Searched"]

    def test_of_servicecontrol_is_found_by_what_is_shown_all_the_same(
        self, api: Api, three: list[str]
    ) -> None:
        answer = api.http.get("/api/messages/search", params={"q": "laceOrde"})

        assert len(answer.json()) == len(three)


class TestTheOneQuestion:
    @pytest.mark.usefixtures("three")
    def test_counts_what_is_found_each_way(self, api: Api) -> None:
        assert ways(api, "late") == [({"words": "late"}, 3), ({"text": "late"}, 1)]

    @pytest.mark.usefixtures("three")
    def test_takes_a_name_and_a_value_for_a_condition_on_a_field(self, api: Api) -> None:
        assert ways(api, "order=4711") == [({"field.order": "4711"}, 1)]

    @pytest.mark.usefixtures("three")
    def test_joins_a_field_and_words(self, api: Api) -> None:
        assert ways(api, "order=4711 late") == [({"field.order": "4711", "words": "late"}, 1)]

    @pytest.mark.usefixtures("three")
    def test_takes_a_value_for_that_of_any_field(self, api: Api) -> None:
        assert ways(api, "4711")[0] == ({"field.order": "4711"}, 1)

    def test_names_a_message_by_its_id(self, api: Api, three: list[str]) -> None:
        assert search(api, three[0][:8])["named"] == [{"kind": "message", "id": three[0]}]

    def test_names_the_operation_of_a_batch_and_the_message_of_a_retry(self, api: Api) -> None:
        bench = Bench(api.db)
        bench.fail()
        operation = bench.ask_all().operation_id
        bench.work()
        (claim,) = bench.claims().values()

        assert search(api, claim["retry_id"])["named"][0]["kind"] == "message"
        assert search(api, operation)["named"] == [{"kind": "operation", "id": operation}]

    @pytest.mark.parametrize(
        "text", ["", " ", "???", '"', "a" * 1024, "order=", "x=y z=", "order=1..0"]
    )
    def test_may_be_anything(self, api: Api, text: str) -> None:
        assert search(api, text)["named"] == []

    def test_names_what_is_no_field(self, api: Api) -> None:
        assert search(api, "order=1 nofield=4711")["undeclared"] == ["nofield"]

    def test_tells_how_far_words_are_behind(self, api: Api, three: list[str]) -> None:
        api.receive(failure())

        state = search(api, "late")["full_text"]

        assert (state["enabled"], state["unread"], len(three)) == (True, 1, 3)


def ask(api: Api, path: str, selection: dict[str, object], **more: object) -> Any:
    return api.http.post(path, json={"selection": selection, **more})


def operation(api: Api, answer: Any) -> dict[str, Any]:
    found: dict[str, Any] = api.http.get(f"/api/operations/{answer.json()['operation_id']}").json()
    return found


class TestARetry:
    @pytest.mark.usefixtures("three")
    def test_is_written_down_as_the_messages_that_have_the_words(self, api: Api) -> None:
        made = ask(api, "/api/operations", {"words": "late", "message_type": "Shop.PlaceOrder"})

        found = operation(api, made)
        assert (found["total"], found["selection"]) == (3, {"ids": 3})

    @pytest.mark.usefixtures("three")
    def test_leaves_out_what_gets_the_words_later(self, api: Api) -> None:
        plan = ask(api, "/api/operations/preview", {"words": "late"}).json()
        api.receive(failure(body=b"late"))
        fill(api.db)

        made = ask(api, "/api/operations", {"words": "late"}, plan=plan["plan"])

        assert (plan["total"], operation(api, made)["total"]) == (3, 3)

    @pytest.mark.usefixtures("three")
    def test_that_is_sent_again_is_the_same_whatever_is_found_by_then(self, api: Api) -> None:
        again = {"Idempotency-Key": "once"}
        body = {"selection": {"words": "late"}}
        first = api.http.post("/api/operations", json=body, headers=again)
        api.receive(failure(body=b"late"))
        fill(api.db)

        second = api.http.post("/api/operations", json=body, headers=again)

        assert second.json()["operation_id"] == first.json()["operation_id"]

    def test_leaves_out_what_is_not_unresolved(self, api: Api, three: list[str]) -> None:
        ask(api, "/api/archive_operations", {"ids": three[:1]}, act="archive")

        made = ask(api, "/api/operations", {"words": "late"})

        assert operation(api, made)["total"] == 2

    def test_without_full_text_is_refused(self, database: Database) -> None:
        refused = refusal(ask(Api(database), "/api/operations", {"words": "late"}))

        assert refused["field"] == "body.selection.words"


class TestAnArchiving:
    def test_is_of_the_messages_that_have_the_words(self, api: Api, three: list[str]) -> None:
        ask(api, "/api/archive_operations", {"words": "4711"}, act="archive")

        assert api.ids(status="archived") == [three[0]]


class TestAView:
    def test_keeps_words(self, api: Api) -> None:
        saved = api.http.put("/api/views/a", json={"page": "messages", "query": "words=late"})

        assert saved.json()["query"] == "words=late"

    def test_without_full_text_is_refused(self, database: Database) -> None:
        refused = Api(database).http.put(
            "/api/views/a", json={"page": "messages", "query": "words=late"}
        )

        assert "search.text.enabled" in refused.json()["detail"]


class TestWhoMayNotReadContent:
    @pytest.fixture
    def reader(self, database: Database) -> Iterator[Api]:
        made = Api(database, rules=rules(), full_text=True, fields=declare(order="/order"))
        made.receive(failure(body=b"late", fields={"order": "4711"}))
        fill(database)
        made.http.headers.update(bearer(AccessRole.READER))
        yield made
        made.http.close()

    def test_finds_nothing_by_words(self, reader: Api) -> None:
        answer = reader.http.get("/api/errors", params={"words": "late"})

        assert answer.status_code == 403

    def test_selects_nothing_by_words(self, reader: Api) -> None:
        assert ask(reader, "/api/operations/preview", {"words": "late"}).status_code == 403

    @pytest.mark.parametrize("text", ["late", "order=4711", "4711"])
    def test_is_not_told_whether_anything_is_found(self, reader: Api, text: str) -> None:
        assert search(reader, text)["found"] == []

    def test_searches_what_is_shown_as_servicecontrol_does(self, reader: Api) -> None:
        answer = reader.http.get("/api/messages/search", params={"q": "late"})

        assert answer.json() == []


class TestWhoSeesOwnQueuesOnly:
    @pytest.fixture
    def narrow(self, database: Database) -> Iterator[Api]:
        made = Api(database, rules=rules(reads_own_only=True), full_text=True)
        made.receive(failure(queue=OWN, body=b"late"), failure(queue=OTHER, body=b"late secret"))
        fill(database)
        made.http.headers.update(bearer(AccessRole.OPERATOR, is_narrow=True))
        yield made
        made.http.close()

    def test_finds_those_by_words(self, narrow: Api) -> None:
        assert ways(narrow, "late") == [({"words": "late"}, 1)]
        assert ways(narrow, "secret") == []

    def test_selects_those_by_words(self, narrow: Api) -> None:
        assert ask(narrow, "/api/operations/preview", {"words": "late"}).json()["total"] == 1

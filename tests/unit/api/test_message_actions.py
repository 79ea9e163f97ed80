"""Archive, unarchive, pending retries and the ledger: what each route does, and how it answers."""

from typing import Any

import pytest

from retrier.store.engine.database import Database
from tests.contract.store_retries import BEING_SENT, SENT, bring_to
from tests.support.api import Api
from tests.support.bench import QUEUE, Bench
from tests.support.factories import failure

# What a database does here is the same on each: the routes are what is tested.
pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

BETWEEN = {"from": "2000-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"}
OF_QUEUE = {"queueaddress": QUEUE, **BETWEEN}
RANGE = "2000-01-01T00:00:00Z...2100-01-01T00:00:00Z"


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def do(api: Api, method: str, path: str, **request: Any) -> Any:
    """Do something at a path under /api; return the answer's JSON."""
    answer = api.http.request(method, f"/api/{path}", **request)
    assert answer.status_code == 202, answer.text
    return answer.json()


def statuses(api: Api) -> dict[str, str]:
    return {item["id"]: item["status"] for item in api.get("errors")}


class TestArchive:
    @pytest.mark.parametrize("method", ["PATCH", "POST"])
    def test_one(self, api: Api, method: str) -> None:
        first, second = api.receive(failure(), failure())

        answer = do(api, method, f"errors/{first}/archive", headers={"X-Retrier-User": "ada"})

        assert (answer["archived"], answer["skipped"]) == (1, [])
        assert statuses(api) == {first: "archived", second: "unresolved"}
        assert api.get("eventlogitems")[0]["who"].startswith("ada ")

    @pytest.mark.parametrize("method", ["PATCH", "POST"])
    def test_many(self, api: Api, method: str) -> None:
        first, second = api.receive(failure(), failure())

        answer = do(api, method, "errors/archive", json=[first, second, "nobody"])

        reason = {"reason": "no failed message has this id", "count": 1}
        assert (answer["archived"], answer["skipped"]) == (2, [reason])

    def test_a_group(self, api: Api) -> None:
        first, second = api.receive(failure(message_type="A"), failure(message_type="B"))
        (group,) = api.get("recoverability/groups/Message Type", classifierFilter="A")

        do(api, "POST", f"recoverability/groups/{group['id']}/errors/archive")
        archived = statuses(api)
        do(api, "POST", f"recoverability/groups/{group['id']}/errors/unarchive")

        assert archived == {first: "archived", second: "unresolved"}
        assert statuses(api) == {first: "unresolved", second: "unresolved"}

    def test_twice_is_once(self, api: Api) -> None:
        (key,) = api.receive(failure())

        do(api, "PATCH", f"errors/{key}/archive")

        assert do(api, "PATCH", f"errors/{key}/archive")["archived"] == 0

    def test_an_unknown_id_is_not_found(self, api: Api) -> None:
        assert api.http.patch("/api/errors/nobody/archive").status_code == 404

    @pytest.mark.parametrize(
        ("stage", "words"), [(BEING_SENT, "on its way"), (SENT, "can be resolved")]
    )
    def test_what_was_sent_is_refused_with_the_reason(
        self, api: Api, bench: Bench, stage: str, words: str
    ) -> None:
        retry = bring_to(bench, stage)

        answer = api.http.patch(f"/api/errors/{retry.key}/archive")

        assert answer.status_code == 409
        assert words in answer.json()["detail"]
        assert api.get("eventlogitems")[0]["event_type"] == "ArchiveRefused"

    def test_takes_a_list_of_ids(self, api: Api) -> None:
        assert api.http.patch("/api/errors/archive", json={"ids": []}).status_code == 422
        assert api.http.patch("/api/errors/archive", json=[1]).status_code == 400


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("PATCH errors/archive", 422),
        ("POST errors/archive", 422),
        ("POST pendingretries/retry", 422),
        ("PATCH errors/unarchive", 400),
        ("POST errors/retry", 400),
    ],
)
def test_an_empty_id_is_refused_as_servicecontrol_does(api: Api, line: str, status: int) -> None:
    method, path = line.split()

    assert api.http.request(method, f"/api/{path}", json=[""]).status_code == status


def test_an_empty_id_among_those_to_be_resolved_is_refused_with_its_place(api: Api) -> None:
    ids = {"uniquemessageids": [""]}

    answer = api.http.patch("/api/pendingretries/resolve", json=ids)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["reason"] == "Every id is a text that is not empty."


class TestUnarchive:
    @pytest.mark.parametrize("path", ["errors/unarchive", f"errors/{RANGE}/unarchive"])
    def test_takes_messages_back(self, api: Api, path: str) -> None:
        (key,) = api.receive(failure())
        do(api, "PATCH", f"errors/{key}/archive")

        body = {} if "..." in path else {"json": [key]}
        answer = do(api, "PATCH", path, **body)

        assert (answer["unarchived"], answer["skipped"]) == (1, [])
        assert statuses(api) == {key: "unresolved"}

    def test_a_malformed_range_is_refused(self, api: Api) -> None:
        assert api.http.patch("/api/errors/monday...tuesday/unarchive").status_code == 400


class TestPendingRetries:
    @pytest.mark.parametrize(
        ("path", "by_id"), [("pendingretries/retry", True), ("pendingretries/queues/retry", False)]
    )
    def test_are_retried_again(self, api: Api, bench: Bench, path: str, *, by_id: bool) -> None:
        retry = bring_to(bench, SENT)

        answer = do(api, "POST", path, json=[retry.key] if by_id else OF_QUEUE)
        bench.work()

        assert answer["total"] == 1
        assert answer["operations"] == [answer["operation_id"]]
        assert bench.sent() == [retry.key, retry.key]
        assert api.wakes == 1

    @pytest.mark.parametrize(
        ("path", "body"),
        [("resolve", BETWEEN), ("queues/resolve", OF_QUEUE), ("resolve", None)],
    )
    def test_are_resolved(
        self, api: Api, bench: Bench, path: str, body: dict[str, str] | None
    ) -> None:
        retry = bring_to(bench, SENT)

        named = {"uniquemessageids": [retry.key]}
        answer = do(api, "PATCH", f"pendingretries/{path}", json=body or named)

        assert (answer["resolved"], answer["skipped"]) == (1, [])
        assert statuses(api) == {retry.key: "resolved"}

    def test_of_another_queue_stay(self, api: Api, bench: Bench) -> None:
        bring_to(bench, SENT)
        other = {**OF_QUEUE, "queueaddress": "other"}

        assert do(api, "PATCH", "pendingretries/queues/resolve", json=other)["resolved"] == 0
        again = do(api, "POST", "pendingretries/queues/retry", json=other)
        assert again == {"total": 0, "operations": []}

    @pytest.mark.parametrize(
        ("method", "path", "body", "status"),
        [
            ("POST", "retry", {}, 422),
            ("POST", "queues/retry", BETWEEN, 400),
            ("POST", "queues/retry", {"queueaddress": "a"}, 400),
            ("PATCH", "resolve", {}, 422),
            ("PATCH", "resolve", {"from": "monday", "to": "tuesday"}, 422),
            ("PATCH", "resolve", {"uniquemessageids": [1]}, 400),
            ("PATCH", "queues/resolve", BETWEEN, 400),
        ],
    )
    def test_a_wrong_body_is_refused(
        self, api: Api, method: str, path: str, body: object, status: int
    ) -> None:
        answer = api.http.request(method, f"/api/pendingretries/{path}", json=body)

        assert answer.status_code == status


def test_the_ledger_adds_up(api: Api) -> None:
    first, _second = api.receive(failure(), failure())
    do(api, "PATCH", f"errors/{first}/archive")

    ledger = api.get("ledger")

    deliveries, messages = ledger["deliveries"], ledger["messages"]
    assert (deliveries["taken_off"], deliveries["new"], deliveries["difference"]) == (2, 2, 0)
    assert messages == {
        "new": 2,
        "unresolved": 1,
        "retry_issued": 0,
        "resolved": 0,
        "archived": 1,
        "deleted": 0,
        "difference": 0,
    }

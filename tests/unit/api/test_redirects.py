"""Redirects: what may stand beside what, and how each refusal is answered."""

from typing import Any

import pytest

from retrier.domain.retry_operation import RetryTerms
from retrier.store.engine.database import Database
from tests.contract.store_retries import CLAIMED, SENT, bring_to
from tests.support.api import Api
from tests.support.bench import QUEUE, STAGING, Bench
from tests.support.factories import ERROR_QUEUE

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def create(api: Api, source: str, target: str, **more: Any) -> Any:
    body = {"fromphysicaladdress": source, "tophysicaladdress": target, **more}
    return api.http.post("/api/redirects", json=body)


def change(api: Api, target: str, source: str = "a") -> Any:
    (shown,) = (each for each in api.get("redirects") if each["from_physical_address"] == source)
    path = f"/api/redirects/{shown['message_redirect_id']}"
    return api.http.put(path, json={"tophysicaladdress": target})


def pairs(api: Api, **params: str) -> list[tuple[str, str]]:
    found = api.get("redirects", **params)
    return [(each["from_physical_address"], each["to_physical_address"]) for each in found]


def test_a_redirect_is_listed(api: Api) -> None:
    answer = create(api, "a", "b")

    (shown,) = api.get("redirects")
    assert answer.status_code == 201
    assert set(shown) == {
        "message_redirect_id",
        "from_physical_address",
        "to_physical_address",
        "last_modified",
    }
    assert api.http.head("/api/redirect").headers["Total-Count"] == "1"


def test_its_id_follows_from_the_queue(api: Api) -> None:
    create(api, "a", "b")
    (first,) = api.get("redirects")
    api.http.delete(f"/api/redirects/{first['message_redirect_id']}")
    create(api, "a", "c")

    (second,) = api.get("redirects")

    assert second["message_redirect_id"] == first["message_redirect_id"]


def test_they_are_sorted_and_in_pages(api: Api) -> None:
    create(api, "a", "z")
    create(api, "b", "y")

    assert pairs(api, direction="asc") == [("a", "z"), ("b", "y")]
    assert pairs(api, sort="to_physical_address", direction="desc") == [("a", "z"), ("b", "y")]
    assert pairs(api, direction="asc", per_page="1", page="2") == [("b", "y")]


def test_the_same_pair_again_is_nothing_new(api: Api) -> None:
    create(api, "a", "b")

    assert create(api, "a", "b").status_code == 201
    assert pairs(api) == [("a", "b")]


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [("a", "c", "Duplicate"), ("b", "c", "Dependents"), ("c", "a", "Dependents")],
)
def test_a_conflict_says_which(api: Api, source: str, target: str, reason: str) -> None:
    create(api, "a", "b")

    answer = create(api, source, target)

    assert answer.status_code == 409
    assert answer.headers["X-Particular-Reason"] == reason
    assert pairs(api) == [("a", "b")]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("", "b"),
        ("a", " "),
        ("a", "a"),
        ("a", "x" * 256),
        ("x" * 256, "b"),
        ("a", ERROR_QUEUE),
        ("a", STAGING),
    ],
)
def test_what_can_never_be_is_refused(api: Api, source: str, target: str) -> None:
    assert create(api, source, target).status_code == 400
    assert pairs(api) == []


@pytest.mark.parametrize(
    ("target", "status"),
    [("d", 204), ("b", 204), ("", 400), ("a", 400), (ERROR_QUEUE, 400), ("c", 409)],
)
def test_a_redirect_is_changed_by_the_same_rules(api: Api, target: str, status: int) -> None:
    create(api, "a", "b")
    create(api, "c", "d")

    answer = change(api, target)

    assert answer.status_code == status
    assert ("a", target if status == 204 else "b") in pairs(api)


def test_an_unknown_one_cannot_be_changed_and_is_deleted_already(api: Api) -> None:
    answer = api.http.put("/api/redirects/unknown", json={"tophysicaladdress": "b"})

    assert answer.status_code == 404
    assert api.http.delete("/api/redirects/unknown").status_code == 204


def test_every_change_is_in_the_event_log(api: Api) -> None:
    create(api, "a", "b")
    change(api, "c")
    (shown,) = api.get("redirects")
    api.http.delete(f"/api/redirects/{shown['message_redirect_id']}")

    types = [(each["category"], each["event_type"]) for each in api.get("eventlogitems")]

    assert types == [
        ("MessageRedirects", f"MessageRedirect{what}") for what in ("Removed", "Changed", "Created")
    ]


def test_it_is_applied_at_the_next_staging(api: Api, bench: Bench) -> None:
    retry = bring_to(bench, CLAIMED)
    bench.transport.broker.declare("new orders")

    create(api, QUEUE, "new orders")
    retry.finish()

    assert (bench.sent(), bench.sent("new orders")) == ([], [retry.key])


def test_pending_retries_of_the_queue_can_follow_it(api: Api, bench: Bench) -> None:
    retry = bring_to(bench, SENT)
    bench.transport.broker.declare("new orders")

    create(api, QUEUE, "new orders", retryexisting=True)
    bench.work()

    assert bench.sent("new orders") == [retry.key]


class TestWhatIsPending:
    """It follows a redirect from the queue that it was sent to, once."""

    def test_is_not_sent_again_by_the_same_request(self, api: Api, bench: Bench) -> None:
        retry = bring_to(bench, SENT)
        bench.transport.broker.declare("new orders")
        for _ in range(2):
            create(api, QUEUE, "new orders", retryexisting=True)
            bench.work()

        assert bench.sent("new orders") == [retry.key]

    def test_is_not_sent_again_after_the_redirect_was_changed_and_made_anew(
        self, api: Api, bench: Bench
    ) -> None:
        """Where it went is known, though the redirect that led there is another one by now."""
        retry = bring_to(bench, SENT)
        for queue in ("new orders", "newer orders"):
            bench.transport.broker.declare(queue)
        create(api, QUEUE, "new orders", retryexisting=True)
        bench.work()
        change(api, "newer orders", QUEUE)

        create(api, QUEUE, "newer orders", retryexisting=True)
        bench.work()

        assert (bench.sent("new orders"), bench.sent("newer orders")) == ([retry.key], [])

    def test_is_left_where_a_destination_sent_it(self, api: Api, bench: Bench) -> None:
        for queue in ("new orders", "replay"):
            bench.transport.broker.declare(queue)
        (named,) = bench.fail()
        bench.ask([named], RetryTerms(destination="replay"))
        bench.work()

        create(api, QUEUE, "new orders", retryexisting=True)
        bench.work()

        assert (bench.sent("replay"), bench.sent("new orders")) == ([named], [])

    def test_is_left_where_it_was_sent_by_name(self, api: Api, bench: Bench) -> None:
        """Sent again it would go to where it failed, and not to where the redirect leads."""
        for queue in ("new orders", "replay"):
            bench.transport.broker.declare(queue)
        (named,) = bench.fail()
        bench.ask([named], RetryTerms(destination="replay"))
        bench.work()

        create(api, "replay", "new orders", retryexisting=True)
        bench.work()

        assert bench.statuses() == {named: "retry_issued"}
        assert bench.sent("replay") == [named]

"""Lists other than those of messages are followed from place to place, too; and lists of ids."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update

from retrier.store.schema import failed_message_retries
from tests.support.api import Api
from tests.support.bench import Bench
from tests.support.factories import failed_import, failure
from tests.support.scheduling import schedule

COUNT = 5
Fill = Callable[[Api], None]


def make_events(api: Api) -> None:
    for each in api.receive(*(failure() for _ in range(COUNT))):
        api.http.post(f"/api/errors/{each}/retry")


def make_archives(api: Api) -> None:
    for number in range(COUNT):
        api.receive(failure(queue=f"queue {number}"))
        selection = {"queue": f"queue {number}"}
        asked = api.http.post(
            "/api/archive_operations", json={"act": "archive", "selection": selection, "why": "x"}
        )
        assert asked.status_code == 202, asked.text


def make_imports(api: Api) -> None:
    api.receive(*(failed_import() for _ in range(COUNT)))


def make_pending(api: Api) -> None:
    """Have all of them sent; two at the very same time."""
    bench = Bench(api.db)
    keys = bench.fail(COUNT)
    bench.ask(keys)
    bench.work()
    now, numbers = bench.db.read(lambda tx: tx.now), [api.number(key) for key in keys]
    with bench.db.engine.begin() as conn:
        for place, number in enumerate(numbers):
            sent = now - timedelta(hours=min(place, COUNT - 2))
            mine = update(failed_message_retries).where(failed_message_retries.c.number == number)
            conn.execute(mine.values(sending_since=sent, forwarded_at=sent))


LISTS: dict[str, Fill] = {
    "eventlogitems": make_events,
    "operations": make_events,
    "archive_operations": make_archives,
    "imports": make_imports,
    "pendingretries": make_pending,
}


def id_of(item: Any) -> str:
    return str(item.get("operation_id") or item.get("archive_operation_id") or item["id"])


def follow(
    api: Api, path: str, beside: Callable[[], object] = lambda: None, /, **params: Any
) -> Sequence[Any]:
    """Return all items of a list, by the address of the next page that each answer gives."""
    answer = api.http.get(f"/api/{path}", params={**params, "after": "*"})
    found: list[Any] = []
    while True:
        assert answer.status_code == 200, answer.text
        found += answer.json()
        if "Link" not in answer.headers:
            return found
        address, rel = answer.headers["Link"].removeprefix("<").split(">; ")
        assert rel == 'rel="next"'
        beside()
        answer = api.http.get(f"/api/{address}")


@pytest.mark.parametrize("path", LISTS)
def test_a_followed_list_is_the_same_as_by_numbers(api: Api, path: str) -> None:
    LISTS[path](api)
    right = [id_of(each) for each in api.get(path, per_page=100)]

    for size in (1, 2, 100):
        assert [id_of(each) for each in follow(api, path, per_page=size)] == right


@pytest.mark.parametrize("path", LISTS)
def test_what_comes_meanwhile_doubles_nothing_and_hides_nothing(api: Api, path: str) -> None:
    LISTS[path](api)
    before = [id_of(each) for each in api.get(path, per_page=100)]

    found = [id_of(each) for each in follow(api, path, lambda: LISTS[path](api), per_page=4)]

    assert len(set(found)) == len(found)
    assert set(before) <= set(found)


@pytest.mark.parametrize("path", LISTS)
def test_the_total_is_the_one_of_the_beginning(api: Api, path: str) -> None:
    LISTS[path](api)
    first = api.http.get(f"/api/{path}", params={"after": "*", "per_page": 1})
    LISTS[path](api)

    second = api.http.get(f"/api/{path}", params={"after": first.headers["Next-After"]})

    assert second.headers["Total-Count"] == first.headers["Total-Count"]


@pytest.mark.parametrize("other", LISTS)
def test_a_place_in_another_list_is_refused(api: Api, other: str) -> None:
    LISTS[other](api)
    answer = api.http.get(f"/api/{other}", params={"after": "*", "per_page": 1})
    after = answer.headers["Next-After"]

    for path in {*LISTS, "errors"} - {other}:
        assert api.http.get(f"/api/{path}", params={"after": after}).status_code == 400


@pytest.mark.parametrize("path", LISTS)
def test_what_is_no_place_is_refused(api: Api, path: str) -> None:
    for after in ("x", "bnVsbA==", "WzFd", "W10=", "\u2603"):
        refused = api.http.get(f"/api/{path}", params={"after": after})
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "query.after")


def test_imports_are_followed_from_the_oldest_on(api: Api) -> None:
    make_imports(api)

    found = follow(api, "imports", direction="asc", per_page=2)

    assert found == api.get("imports", direction="asc")


def test_the_operation_by_policy_stands_before_the_others_and_once(api: Api) -> None:
    make_events(api)
    schedule(api.db)

    found = [id_of(each) for each in follow(api, "operations", per_page=1)]

    assert found == [id_of(each) for each in api.get("operations")]
    assert len(found) == COUNT + 1


class TestIds:
    def test_of_messages_are_those_of_the_list(self, api: Api) -> None:
        api.receive(*(failure(queue=f"queue {n % 2}") for n in range(COUNT)))

        for params in ({}, {"queue": "queue 1"}, {"sort": "id", "direction": "asc"}):
            found = follow(api, "errors/ids", per_page=2, **params)
            assert found == api.ids("errors", **params)

    def test_of_pending_retries_are_those_of_the_list(self, api: Api) -> None:
        make_pending(api)

        assert follow(api, "pendingretries/ids", per_page=2) == api.ids("pendingretries")

    def test_are_a_thousand_on_a_page_that_says_nothing(self, api: Api) -> None:
        api.receive(*(failure() for _ in range(1001)))

        sizes = [len(api.get("errors/ids", **params)) for params in ({}, {"per_page": 1001})]

        assert sizes == [1000, 1001]

    def test_have_pages_by_number_too(self, api: Api) -> None:
        api.receive(*(failure() for _ in range(3)))

        second = api.http.get("/api/errors/ids", params={"page": 2, "per_page": 2})

        assert second.json() == api.ids()[2:]
        assert 'rel="prev"' in second.headers["Link"]

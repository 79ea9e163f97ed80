"""Lists of failed messages that are followed from place to place: nothing that stays is missed."""

from functools import partial
from itertools import product

import httpx
import pytest

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.selection import Selection
from retrier.store.engine.transaction import Transaction
from retrier.store.message_lists import WIDE, Order, PageRequest, Sort, find_numbers
from tests.support.api import Api
from tests.support.factories import FAILED_AT, failure
from tests.unit.api.test_error_order import EVERYTHING, FILTERS, fill


def ids(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()]


def follow(api: Api, path: str = "errors", **params: str | int) -> list[str]:
    """Return all ids of a list, and look that its end is told."""
    found, after = [], "*"
    while after:
        answer = api.http.get(f"/api/{path}", params={**params, "after": after})
        found += ids(answer)
        after = answer.headers.get("Next-After", "")
    return found


def test_it_is_the_same_list_as_by_numbers(api: Api) -> None:
    fill(api)

    for sort, direction in product(Sort, ["asc", "desc"]):
        by_number = api.ids(sort=sort, direction=direction, per_page=100)
        followed = follow(api, sort=sort, direction=direction, per_page=7)
        assert (sort, direction, followed) == (sort, direction, by_number)


def follow_in_store(
    tx: Transaction, wanted: Selection, order: Order, size: int, wide: int = WIDE
) -> list[int]:
    page, found = PageRequest(size=size, by_place=True), list[int]()
    while True:
        part = find_numbers(tx, wanted, order, page, wide=wide)
        found += part.items
        if part.next is None:
            return found
        page = PageRequest(size=size, by_place=True, after=part.next)


@pytest.mark.parametrize("size", [1, 5, 24])
def test_pages_of_any_size_make_up_the_whole(api: Api, size: int) -> None:
    fill(api)

    for sort, descending in product(Sort, [True, False]):
        order = Order(sort=sort, descending=descending)
        right = api.db.read(partial(find_numbers, wanted=Selection(), order=order, page=EVERYTHING))
        found = api.db.read(partial(follow_in_store, wanted=Selection(), order=order, size=size))
        assert (order, found) == (order, list(right.items))


def test_many_matches_are_followed_like_few(api: Api) -> None:
    """Either direction in turns, so that each filter and each order has both."""
    fill(api)
    for (turn, wanted), (place, sort) in product(enumerate(FILTERS.values()), enumerate(Sort)):
        order = Order(sort=sort, descending=(turn + place) % 2 == 0)
        right = api.db.read(partial(find_numbers, wanted=wanted, order=order, page=EVERYTHING))
        many = api.db.read(partial(follow_in_store, wanted=wanted, order=order, size=5, wide=0))
        assert many == list(right.items), (wanted, order)


def test_what_leaves_the_list_makes_none_be_missed_that_stays(api: Api) -> None:
    """By the number of a page as many would be missed as have left before it."""
    unique_ids = api.receive(*(failure(time_of_failure=FAILED_AT) for _ in range(12)))
    params = {"status": "unresolved", "sort": "time_of_failure", "per_page": 4}
    first = api.http.get("/api/errors", params={**params, "after": "*"})
    gone = ids(first)
    for each in gone:
        api.set_status(each, FailedMessageStatus.ARCHIVED)

    after = first.headers["Next-After"]
    second = api.http.get("/api/errors", params={**params, "after": after})
    third = api.http.get("/api/errors", params={**params, "after": second.headers["Next-After"]})

    assert {*gone, *ids(second), *ids(third)} == set(unique_ids)


def test_the_place_of_a_message_that_has_left_is_known(api: Api) -> None:
    fill(api)
    right = api.ids(sort="status", per_page=100)
    answer = api.http.get("/api/errors", params={"sort": "status", "per_page": 9, "after": "*"})
    moved = ids(answer)[-1]
    to = FailedMessageStatus.ARCHIVED if right.index(moved) < 12 else FailedMessageStatus.UNRESOLVED
    api.set_status(moved, to)

    params = {"sort": "status", "per_page": 100, "after": answer.headers["Next-After"]}
    rest = ids(api.http.get("/api/errors", params=params))

    assert [each for each in rest if each != moved] == right[9:]


def test_the_lists_of_a_group_and_of_an_endpoint_are_followed_too(api: Api) -> None:
    unique_ids = api.receive(*(failure() for _ in range(3)))
    (group,) = api.get("recoverability/groups")

    for path in (f"recoverability/groups/{group['id']}/errors", "endpoints/Sales/errors"):
        assert set(follow(api, path, per_page=2)) == set(unique_ids)


def test_the_total_is_that_of_the_whole_list(api: Api) -> None:
    api.receive(*(failure() for _ in range(3)))
    first = api.http.get("/api/errors", params={"after": "*", "per_page": 2})
    place = first.headers["Next-After"]
    second = api.http.get("/api/errors", params={"after": place, "per_page": 2})

    assert [each.headers["Total-Count"] for each in (first, second)] == ["3", "3"]
    assert "Next-After" not in second.headers


def test_an_empty_list_has_no_next_place(api: Api) -> None:
    answer = api.http.get("/api/errors", params={"after": "*"})

    assert (ids(answer), "Next-After" in answer.headers) == ([], False)


def test_a_place_holds_the_longest_text_that_is_sorted_by(api: Api) -> None:
    names = ["\x01" * 1023 + each for each in "abc"]
    api.receive(*(failure(message_id=name) for name in names))

    followed = follow(api, sort="message_id", per_page=1)

    assert followed == api.ids(sort="message_id")


WRONG = ["x", "**", "bnVsbA==", "WzFd", "WyJpZCIsdHJ1ZSxbImEiXSwxXQ==", "\u2603", "A" * 1000]


def test_what_is_no_place_is_refused(api: Api) -> None:
    asked = list(product(WRONG, Sort))

    answers = [api.http.get("/api/errors", params={"after": a, "sort": b}) for a, b in asked]

    refused = [(each.status_code, each.json()["errors"][0]["field"]) for each in answers]
    assert dict(zip(asked, refused, strict=True)) == dict.fromkeys(asked, (400, "query.after"))


def test_a_place_in_a_list_in_another_order_is_refused(api: Api) -> None:
    api.receive(failure(), failure())
    answer = api.http.get("/api/errors", params={"after": "*", "per_page": 1})
    place = answer.headers["Next-After"]

    for other in ({"sort": "id"}, {"direction": "asc"}, {"page": "2"}):
        assert api.http.get("/api/errors", params={"after": place, **other}).status_code == 400

"""The order of lists of failed messages, however many there are."""

from datetime import timedelta
from functools import partial
from itertools import chain, product

import pytest

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.selection import Selection, WantedDisposition
from retrier.store.engine.database import Database
from retrier.store.engine.transaction import Transaction
from retrier.store.message_lists import DEEP, Order, Page, PageRequest, Sort, find_numbers
from retrier.store.selections import MOST_LOOKED_UP
from tests.support.api import Api
from tests.support.factories import FAILED_AT, failure
from tests.support.statements import statements

MINUTE = timedelta(minutes=1)
EVERYTHING = PageRequest(size=100)
BOTH = pytest.mark.parametrize("descending", [True, False], ids=["descending", "ascending"])
UNRESOLVED = frozenset({FailedMessageStatus.UNRESOLVED})
OPEN = frozenset({FailedMessageStatus.UNRESOLVED, FailedMessageStatus.RETRY_ISSUED})
FILTERS = {
    "all": Selection(),
    "one status": Selection(statuses=UNRESOLVED),
    "two statuses": Selection(statuses=OPEN),
    "queue": Selection(statuses=OPEN, queue="orders", endpoint="Sales"),
    "type": Selection(message_type="Shop.Type1"),
    "modified": Selection(modified=(FAILED_AT, FAILED_AT + 6 * MINUTE)),
}
WIDE_FILTERS = {
    "time": Selection(failed_from=FAILED_AT + MINUTE, failed_to=FAILED_AT + 4 * MINUTE),
    "time and status": Selection(failed_to=FAILED_AT + 3 * MINUTE, statuses=OPEN),
    "attempts": Selection(attempts_at_least=1),
    "disposition": Selection(disposition=WantedDisposition.MANUAL, statuses=UNRESOLVED),
    "text": Selection(text="SHOP.TYPE1"),
    "text and queue": Selection(text="shop", queue="orders"),
    "queue": Selection(statuses=UNRESOLVED, queue="payments"),
    "type": Selection(statuses=UNRESOLVED, message_type="Shop.Type1"),
    "no such type": Selection(statuses=UNRESOLVED, message_type="nobody's"),
    "nothing": Selection(text="nobody has this"),
}


def numbers_of(
    db: Database, wanted: Selection, order: Order, page: PageRequest, deep: int
) -> list[int]:
    """Find a page as if the place `deep` in a list were far from its beginning."""

    def find(tx: Transaction) -> tuple[int, ...]:
        return find_numbers(tx, wanted, order, page, deep=deep).items

    return list(db.read(find))


def fill(api: Api) -> None:
    """Failures of every status, some without what lists are sorted by, some at the same time."""
    unique_ids = api.receive(
        *(
            failure(
                queue="orders" if n % 2 else "payments",
                message_type=None if n % 5 == 0 else f"Shop.Type{n % 3}",
                time_sent=None if n % 4 == 0 else FAILED_AT - n // 2 * MINUTE,
                time_of_failure=FAILED_AT + n % 6 * MINUTE,
            )
            for n in range(24)
        )
    )
    for place, unique_id in enumerate(unique_ids):
        api.set_status(unique_id, list(FailedMessageStatus)[place % 4])


SORTED_BY = (
    ("id", "id"),
    ("message_id", "message_id"),
    ("message_type", "message_type"),
    ("status", "status"),
    ("time_sent", "time_sent"),
    ("modified", "last_modified"),
    ("time_of_failure", "time_of_failure"),
    ("", "time_sent"),
    ("time_of_retry_request", "last_modified"),
    ("processed_at", "time_of_failure"),
    ("colour", "time_sent"),
)


@BOTH
def test_a_list_is_sorted(api: Api, descending: bool) -> None:  # noqa: FBT001 - parametrised
    fill(api)
    direction = "desc" if descending else "asc"

    for sort, member in SORTED_BY:
        items = api.get("errors", sort=sort, direction=direction, status="-retry_issued")
        values = [item[member] for item in items if member in item]
        assert (sort, values) == (sort, sorted(values, reverse=descending))
        assert len(items) == 18


@BOTH
def test_messages_without_the_value_come_last(api: Api, descending: bool) -> None:  # noqa: FBT001 - parametrised
    fill(api)
    direction = "desc" if descending else "asc"

    items = api.get("errors", sort="time_sent", direction=direction)

    assert ["time_sent" in item for item in items] == [True] * 18 + [False] * 6


def test_newest_first_is_the_default(api: Api) -> None:
    older, newer = api.receive(failure(time_sent=FAILED_AT - MINUTE), failure(time_sent=FAILED_AT))

    assert api.ids() == [newer, older]


@BOTH
def test_a_list_has_the_same_order_far_from_its_beginning(api: Api, *, descending: bool) -> None:
    fill(api)
    orders = [Order(sort=sort, descending=descending) for sort in Sort]

    for name, wanted in FILTERS.items():
        near = [numbers_of(api.db, wanted, order, EVERYTHING, DEEP) for order in orders]
        far = [numbers_of(api.db, wanted, order, EVERYTHING, 0) for order in orders]

        assert (name, far) == (name, near)
        assert len({frozenset(numbers) for numbers in near}) == 1


def find_pages(tx: Transaction, wanted: Selection, order: Order, wide: int) -> list[Page[int]]:
    pages = (PageRequest(number=number, size=9) for number in range(1, 4))
    return [find_numbers(tx, wanted, order, page, wide=wide) for page in pages]


def test_many_matches_are_listed_like_few(api: Api) -> None:
    """Either direction in turns, so that each filter and each order has both."""
    fill(api)

    for (turn, name), (place, sort) in product(enumerate(WIDE_FILTERS), enumerate(Sort)):
        order = Order(sort=sort, descending=(turn + place) % 2 == 0)
        few, many = (
            api.db.read(partial(find_pages, wanted=WIDE_FILTERS[name], order=order, wide=wide))
            for wide in (100, 0)
        )
        assert (name, order, many) == (name, order, few)


NOT_SORTED = {name: WIDE_FILTERS[name] for name in ("queue", "type", "attempts", "text")}


@pytest.mark.parametrize("wanted", NOT_SORTED.values(), ids=NOT_SORTED)
def test_many_matches_are_not_all_sorted(api: Api, wanted: Selection) -> None:
    fill(api)

    with statements(api.db) as asked:
        page = api.db.read(
            lambda tx: find_numbers(tx, wanted, Order(), PageRequest(size=1), wide=0)
        )

    assert page.total > 1
    assert [each for each in asked if "OVER" in each] == []


def test_what_nobody_matches_is_looked_for_once(api: Api) -> None:
    fill(api)
    wanted = Selection(attempts_at_least=99)

    with statements(api.db) as asked:
        page = api.db.read(lambda tx: find_numbers(tx, wanted, Order(), PageRequest()))

    assert page == Page(items=(), total=0)
    assert len([each for each in asked if "FROM failed_messages" in each]) == 1


@pytest.mark.parametrize(
    ("deep", "sizes"),
    [(DEEP, (5, 7, 24)), (0, (5, 7, 24)), pytest.param(10, (1, 5, 7, 24), id="far in the middle")],
)
def test_pages_of_any_size_make_up_the_whole(api: Api, deep: int, sizes: tuple[int, ...]) -> None:
    fill(api)

    for sort, size in product(Sort, sizes):
        find = partial(numbers_of, api.db, Selection(), Order(sort=sort), deep=deep)
        pages = [find(PageRequest(number=n, size=size)) for n in range(1, 24 // size + 3)]
        assert (sort, size, list(chain(*pages))) == (sort, size, find(EVERYTHING))


def test_pages_of_a_group_make_up_the_group(api: Api) -> None:
    fill(api)
    groups = {each["title"]: each for each in api.get("recoverability/groups/Endpoint Address")}
    path = f"recoverability/groups/{groups['payments']['id']}/errors"

    pages = [api.ids(path, page=number, per_page=5) for number in (1, 2, 3, 4)]

    assert [len(page) for page in pages] == [5, 5, 2, 0]
    assert list(chain(*pages)) == api.ids(path)


def test_a_page_behind_the_last_of_a_filter_tells_how_many_there_are(api: Api) -> None:
    fill(api)

    answer = api.http.get("/api/errors", params={"queue": "payments", "page": 9})

    assert (answer.json(), answer.headers["Total-Count"]) == ([], "12")


def test_causes_that_are_too_many_to_be_looked_up_change_nothing(api: Api) -> None:
    api.receive(*(failure(exception_type=f"Shop.Error{n}") for n in range(MOST_LOOKED_UP + 1)))
    api.receive(failure(queue="payments"))

    found = api.http.head("/api/errors", params={"queue": "orders"})

    assert found.headers["Total-Count"] == str(MOST_LOOKED_UP + 1)


@BOTH
def test_a_page_of_many_message_types_is_in_the_same_order(api: Api, descending: bool) -> None:  # noqa: FBT001 - parametrised
    api.receive(*(failure(message_type=f"Shop.Type{n % 9}") for n in range(18)))
    order = Order(sort=Sort.MESSAGE_TYPE, descending=descending)

    near, far = (
        numbers_of(api.db, Selection(), order, PageRequest(number=2, size=7), deep)
        for deep in (DEEP, 0)
    )

    assert near == far
    assert len(near) == 7

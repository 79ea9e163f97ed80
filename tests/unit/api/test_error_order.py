"""The order of lists of failed messages, however many there are."""

from datetime import timedelta
from functools import partial
from itertools import chain

import pytest

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.selection import Selection
from retrier.store.engine.database import Database
from retrier.store.queries.filters import MessageFilter
from retrier.store.queries.messages import list_messages
from retrier.store.queries.ordering import FEW, Order, Sort, find_ids
from retrier.store.queries.pages import PageRequest
from tests.support.api import Api
from tests.support.factories import FAILED_AT, failure

MINUTE = timedelta(minutes=1)
EVERYTHING = PageRequest(size=100)
BOTH = pytest.mark.parametrize("descending", [True, False], ids=["descending", "ascending"])
UNRESOLVED = frozenset({FailedMessageStatus.UNRESOLVED})
OPEN = frozenset({FailedMessageStatus.UNRESOLVED, FailedMessageStatus.RETRY_ISSUED})
FILTERS = {
    "all": MessageFilter(),
    "one status": MessageFilter(statuses=UNRESOLVED),
    "two statuses": MessageFilter(statuses=OPEN),
    "queue": MessageFilter(statuses=OPEN, selection=Selection(queue="orders", endpoint="Sales")),
    "type": MessageFilter(selection=Selection(message_type="Shop.PlaceOrder")),
    "modified": MessageFilter(modified=(FAILED_AT, FAILED_AT + 6 * MINUTE)),
}


def ids_of(
    db: Database, wanted: MessageFilter, order: Order, page: PageRequest, few: int
) -> list[str]:
    """Find a page as if more than `few` messages were many."""
    total = list_messages(db, wanted, Order(), EVERYTHING).total
    return db.read(lambda conn: find_ids(conn, wanted, order, page, total=total, few=few))


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


@pytest.mark.parametrize(
    ("sort", "member"),
    [
        ("id", "id"),
        ("message_id", "message_id"),
        ("message_type", "message_type"),
        ("status", "status"),
        ("time_sent", "time_sent"),
        ("modified", "last_modified"),
        ("time_of_failure", "time_of_failure"),
        ("", "time_sent"),
        ("time_of_retry_request", "time_sent"),
    ],
)
@BOTH
def test_a_list_is_sorted(api: Api, sort: str, member: str, descending: bool) -> None:  # noqa: FBT001 - parametrised
    fill(api)
    direction = "desc" if descending else "asc"

    items = api.get("errors", sort=sort, direction=direction, status="-retry_issued")

    values = [item[member] for item in items if member in item]
    assert values == sorted(values, reverse=descending)
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


@pytest.mark.parametrize("wanted", FILTERS.values(), ids=FILTERS)
@BOTH
def test_a_list_of_many_has_the_order_of_a_list_of_few(
    api: Api,
    wanted: MessageFilter,
    descending: bool,  # noqa: FBT001 - parametrised
) -> None:
    fill(api)
    orders = [Order(sort=sort, descending=descending) for sort in Sort]

    few = [ids_of(api.db, wanted, order, EVERYTHING, FEW) for order in orders]
    many = [ids_of(api.db, wanted, order, EVERYTHING, 0) for order in orders]

    assert many == few
    assert len({frozenset(ids) for ids in few}) == 1


@pytest.mark.parametrize("few", [FEW, 0])
@pytest.mark.parametrize("size", [1, 5, 7, 24])
def test_pages_of_any_size_make_up_the_whole(api: Api, few: int, size: int) -> None:
    fill(api)

    for sort in Sort:
        find = partial(ids_of, api.db, MessageFilter(), Order(sort=sort), few=few)
        pages = [find(PageRequest(number=n, size=size)) for n in range(1, 24 // size + 3)]
        assert list(chain(*pages)) == find(EVERYTHING)


def test_a_group_of_many_has_the_order_of_a_group_of_few(api: Api) -> None:
    fill(api)
    groups = {each["title"]: each for each in api.get("recoverability/groups/Endpoint Address")}
    wanted = MessageFilter(selection=Selection(group=groups["payments"]["id"]))

    few, many = (ids_of(api.db, wanted, Order(), EVERYTHING, limit) for limit in (FEW, 0))

    assert many == few
    assert len(few) == 12

"""The demo's ledger finds what is lost, doubled or miscounted."""

import pytest

from retrier.demo.orders import BadOrder, Defect, Order, handle, make_orders
from retrier.demo.shop import Book, ListedFailure, ShopLog, compare
from retrier.worker.handlers import make_parser


def fails(order: Order, broken: set[Defect]) -> bool:
    try:
        handle(order, broken)
    except (BadOrder, KeyError, ConnectionRefusedError):
        return True
    return False


def book(**changes: object) -> Book:
    """Two orders: one handled at once, one that failed twice and was handled then."""
    values: dict[str, object] = {
        "published": frozenset({"a", "b"}),
        "handled": {"a": 1, "b": 1},
        "failed": {"b": 2},
    }
    return Book(**{**values, **changes})  # type: ignore[arg-type] # the fields of Book


def listed(message_id: str = "b", status: str = "resolved", attempts: int = 2) -> ListedFailure:
    return ListedFailure(message_id=message_id, status=status, attempts=attempts)


def test_books_that_agree_show_no_difference() -> None:
    assert compare(book(), [listed()]) == ()


@pytest.mark.parametrize(
    ("shop", "service", "difference"),
    [
        (book(published=frozenset({"a", "b", "c"})), listed(), "c was published and never seen"),
        (book(handled={"a": 2, "b": 1}), listed(), "a was handled 2 times"),
        (book(), listed(attempts=1), "b failed 2 times, the service counts 1"),
        (book(), listed(status="retryIssued"), "b should be resolved, and is retryIssued"),
        (book(handled={"a": 1}), listed(), "b should be unresolved, and is resolved"),
    ],
)
def test_a_difference_is_told(shop: Book, service: ListedFailure, difference: str) -> None:
    told = compare(shop, [service])

    assert len(told) == 1
    assert told[0].startswith(difference)


def test_a_failure_the_service_does_not_know_is_told() -> None:
    (told,) = compare(book(), [])

    assert told == "b failed 2 times, and the service knows otherwise"


def test_a_tally_counts_what_it_is_told() -> None:
    tally = ShopLog()
    tally.count_published("a")
    tally.count_failed("a")
    tally.count_failed("a")
    tally.count_handled("a")

    assert tally.read() == Book(published=frozenset({"a"}), handled={"a": 1}, failed={"a": 2})


def test_an_order_survives_its_body() -> None:
    (order,) = make_orders(1)

    assert make_parser(Order)(order.to_body()) == order


@pytest.mark.parametrize("cause", list(Defect))
def test_each_cause_fails_some_orders_and_not_all(cause: Defect) -> None:
    failed = [order for order in make_orders(300) if fails(order, {cause})]

    assert 0 < len(failed) < 150


def test_a_repaired_shop_handles_everything() -> None:
    assert [order for order in make_orders(300) if fails(order, set())] == []


def test_some_gifts_fail_for_two_causes() -> None:
    gifts: list[Order] = [
        order
        for order in make_orders(300)
        if fails(order, {Defect.GIFT_BUG}) and fails(order, {Defect.PAYMENTS_DOWN})
    ]

    assert gifts

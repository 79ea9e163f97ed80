"""The orders of the demo's shop, and why some of them cannot be handled."""

import json
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from enum import StrEnum


class Cause(StrEnum):
    """What is broken in the shop, until somebody repairs it."""

    PAYMENTS_DOWN = "payments-down"
    GIFT_BUG = "gift-bug"
    BAD_INPUT = "bad-input"


REPAIRS = {
    Cause.PAYMENTS_DOWN: "the payment service is started again",
    Cause.GIFT_BUG: "a fix for gift orders is deployed",
    Cause.BAD_INPUT: "orders without items are accepted as empty parcels",
}
"""What the removal of each cause stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One message on the queue `orders`."""

    number: int
    kind: str
    paid_by: str
    items: int

    @property
    def message_id(self) -> str:
        """The message id its producer gives it."""
        return f"order-{self.number:04d}"

    def to_body(self) -> bytes:
        """Return the body of its message."""
        return json.dumps(asdict(self)).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderFailure:
    """Why an order cannot be handled now."""

    exception_type: str
    message: str
    stack_trace: str


def from_body(body: bytes) -> Order:
    """Return the order a message carries."""
    return Order(**json.loads(body))


def make_orders(count: int) -> tuple[Order, ...]:
    """Return orders: some fail for each cause, and most fail for none."""
    return tuple(
        Order(
            number=number,
            kind="gift" if number % 7 == 0 else "parcel",
            paid_by="card" if number % 3 == 0 else "invoice",
            items=0 if number % 25 == 0 else 1 + number % 4,
        )
        for number in range(1, count + 1)
    )


def handle(order: Order, broken: AbstractSet[Cause]) -> OrderFailure | None:
    """Handle an order; return why it fails, or None."""
    if order.items == 0 and Cause.BAD_INPUT in broken:
        return _fail("BadOrder", "an order needs at least one item", "validate")
    if order.kind == "gift" and Cause.GIFT_BUG in broken:
        return _fail("KeyError", "'wrapping'", "wrap_gift")
    if order.paid_by == "card" and Cause.PAYMENTS_DOWN in broken:
        return _fail("ConnectionRefusedError", "payments.example:443 refused", "charge_card")
    return None


def _fail(exception: str, message: str, function: str) -> OrderFailure:
    trace = (
        "Traceback (most recent call last):\n"
        '  File "shop/orders.py", line 12, in handle\n'
        f"    {function}(order)\n"
        f'  File "shop/orders.py", line 34, in {function}\n'
        f"    raise {exception}(...)\n"
        f"{exception}: {message}\n"
    )
    return OrderFailure(exception_type=exception, message=message, stack_trace=trace)

"""The shop's orders, and how it handles them as long as something is broken."""

import json
from collections.abc import Set as AbstractSet
from dataclasses import asdict
from enum import StrEnum

from retrier.domain.values import dataclass


class Defect(StrEnum):
    """A thing that is broken in the shop until somebody repairs it."""

    PAYMENTS_DOWN = "payments-down"
    GIFT_BUG = "gift-bug"
    BAD_INPUT = "bad-input"


REPAIRS = {
    Defect.PAYMENTS_DOWN: "the payment service is started again",
    Defect.GIFT_BUG: "a fix for gift orders is deployed",
    Defect.BAD_INPUT: "orders without items are accepted as empty parcels",
}
"""The repair that the removal of each cause stands for."""


class BadOrder(Exception):
    """An order that nobody can pack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One message on the queue `orders`."""

    number: int
    kind: str
    paid_by: str
    items: int

    @property
    def message_id(self) -> str:
        """The message id that the producer sets."""
        return f"order-{self.number:04d}"

    def to_body(self) -> bytes:
        """Return the body of its message."""
        return json.dumps(asdict(self)).encode()


def make_orders(count: int) -> tuple[Order, ...]:
    """Return orders: some fail for each cause, and most do not fail."""
    return tuple(
        Order(
            number=number,
            kind="gift" if number % 7 == 0 else "parcel",
            paid_by="card" if number % 3 == 0 else "invoice",
            items=0 if number % 25 == 0 else 1 + number % 4,
        )
        for number in range(1, count + 1)
    )


def handle(order: Order, broken: AbstractSet[Defect]) -> None:
    """Handle an order. Raises what a real shop would, as long as the cause is there."""
    validate(order, broken)
    if order.kind == "gift":
        wrap_gift(broken)
    if order.paid_by == "card":
        charge_card(broken)


def validate(order: Order, broken: AbstractSet[Defect]) -> None:
    """Check the order. Raises BadOrder."""
    if order.items == 0 and Defect.BAD_INPUT in broken:
        raise BadOrder("an order needs at least one item")


def wrap_gift(broken: AbstractSet[Defect]) -> None:
    """Wrap the parcel. Raises KeyError: somebody has forgotten a key."""
    if Defect.GIFT_BUG in broken:
        raise KeyError("wrapping")


def charge_card(broken: AbstractSet[Defect]) -> None:
    """Charge the customer's card. Raises ConnectionRefusedError."""
    if Defect.PAYMENTS_DOWN in broken:
        raise ConnectionRefusedError("payments.example:443 refused")

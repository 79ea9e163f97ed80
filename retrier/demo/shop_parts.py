"""The three broken parts of the shop in words: what is wrong, and what a repair would be."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from retrier.demo.orders import Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopPart:
    """One part. `title` is how the title of its group begins. `repair` is the name of its button."""

    name: str
    title: str
    broken: str
    repair: str
    repaired: str


PARTS: Mapping[Cause, ShopPart] = MappingProxyType(
    {
        Cause.GIFT_BUG: ShopPart(
            name="Wrapping of gifts",
            title="KeyError",
            broken="The last release has a bug: it looks up a wrapping that is not there.",
            repair="Deploy the fix",
            repaired="The fix is deployed.",
        ),
        Cause.PAYMENTS_DOWN: ShopPart(
            name="Payment by card",
            title="ConnectionRefusedError",
            broken="The payment service is down and refuses every connection.",
            repair="Start the payment service",
            repaired="The payment service answers again.",
        ),
        Cause.BAD_INPUT: ShopPart(
            name="Orders without items",
            title="BadOrder",
            broken="Somebody sends orders that have no items, and the shop cannot pack nothing.",
            repair="Accept empty parcels",
            repaired="Such orders are accepted as empty parcels.",
        ),
    }
)
"""All parts, in the order in which the page shows them."""

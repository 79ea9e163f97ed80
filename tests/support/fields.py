"""Fields that tests declare."""

from retrier.domain.dialects.own import Place, Source
from retrier.domain.fields import DeclaredField


def declare(**places: str) -> tuple[DeclaredField, ...]:
    """Declare fields by their names: `order="/order"` in a body, `tenant="Shop.Tenant"` a header."""
    return tuple(
        DeclaredField(
            name=name, source=Source(Place.BODY if place[0] == "/" else Place.HEADER, place)
        )
        for name, place in places.items()
    )


DECLARED = declare(customer="Shop.Customer", order="/order", total="/total")

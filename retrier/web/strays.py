"""What an address says that no page reads: a note above a list, and no act on all that it shows."""

from collections.abc import Sequence

from fastapi import Depends, HTTPException, Request

from retrier.domain.parameters import Stray, find_strays, find_too_long, names_read_by
from retrier.domain.text import COLUMN_BYTES

_EVERYWHERE = frozenset({"done"})
"""Read by the frame of every page."""
_LISTS = frozenset({"id"})
_ADDRESS = 16 * COLUMN_BYTES
_BOUNDS = {
    "back": _ADDRESS,
    "next": _ADDRESS,
    "kind": 8 * COLUMN_BYTES,
    "breaker": 2 * COLUMN_BYTES,
}
"""Bytes of what is longer than a text of a message: addresses, kinds, and a name with its kind."""


def strays_of(request: Request) -> Sequence[Stray]:
    """Return them; none where no page has this address."""
    route = request.scope.get("route")
    if route is None:
        return ()
    known = _EVERYWHERE.union(names_read_by(route.dependant))
    return find_strays((name for name, _ in request.query_params.multi_items()), known, _LISTS)


async def refuse_repeated(request: Request) -> None:
    """Refuse a condition that stands twice, as one of them would be dropped, or that is too long.

    Raises HTTPException.
    """
    for stray in strays_of(request):
        if stray.is_repeated:
            raise HTTPException(400, f"The condition {stray.shown} stands twice in the address.")
    long = find_too_long(request.query_params.multi_items(), _BOUNDS)
    if long is not None:
        most = _BOUNDS.get(long, COLUMN_BYTES)
        raise HTTPException(400, f"The condition {long[:100]} has at most {most:,} bytes.")


async def _refuse_strays(request: Request) -> None:
    for stray in strays_of(request):
        nearest = f"; perhaps {stray.nearest} is meant" if stray.nearest else ""
        raise HTTPException(400, f"Nothing here reads a condition {stray.shown}{nearest}.")


IN_FULL = Depends(_refuse_strays)
"""Goes with what asks about all that match: a condition that is dropped would make it more."""

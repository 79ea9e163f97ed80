"""Places in a list of messages, as clients hand them on: opaque texts of one line."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from retrier.api.problems import WrongField
from retrier.domain.identity import is_guid
from retrier.domain.text import clean
from retrier.store.queries.ordering import Key, Order, Place, Sort

BEGINNING = "*"
"""Asks for the first page of a list that is followed by places."""

_WRONG = (
    "It is no place in a list that is sorted like this one: it is `*`, or what Next-After of the "
    "answer before said, with the same sort and direction."
)


def write_place(place: Place, order: Order) -> str:
    """Return a place in a list of this order as a text."""
    keys = [each.isoformat() if isinstance(each, datetime) else each for each in place.keys]
    said = json.dumps([order.sort, order.descending, keys, place.number], separators=(",", ":"))
    return urlsafe_b64encode(said.encode()).decode()


def read_place(text: str, order: Order) -> Place:
    """Read it again. Raises WrongField if it is none, or one of a list in another order."""
    try:
        sort, descending, keys, number = json.loads(urlsafe_b64decode(text.encode()))
        place = Place(keys=tuple(_keys(order.sort, keys)), number=_number(number))
    # A client may send anything: what cannot be taken apart, is of other types, or overflows.
    except (ValueError, TypeError, ArithmeticError, RecursionError):
        raise WrongField("query.after", _WRONG) from None
    if (sort, descending) != (order.sort, order.descending):
        raise WrongField("query.after", _WRONG)
    return place


def _keys(sort: Sort, said: Sequence[object]) -> Iterator[Key]:
    for read, key in zip(_READERS[sort], said, strict=True):
        yield None if key is None else read(key)


def _text(said: object) -> str:
    if not isinstance(said, str) or clean(said) != said:
        raise TypeError(said)
    return said


def _id(said: object) -> str:
    if not is_guid(_text(said)):
        raise TypeError(said)
    return _text(said)


def _time(said: object) -> datetime:
    return datetime.fromisoformat(_text(said)).astimezone(UTC)


def _number(said: object) -> int:
    if not isinstance(said, int) or not 0 <= said < _LARGEST:
        raise TypeError(said)
    return said


_LARGEST = 2**63
_READERS: Mapping[Sort, Sequence[Callable[[object], Key]]] = {
    Sort.ID: (_id,),
    Sort.MESSAGE_ID: (_text,),
    Sort.MESSAGE_TYPE: (_text,),
    Sort.STATUS: (_text, _time),
    Sort.TIME_SENT: (_time,),
    Sort.MODIFIED: (_time,),
    Sort.TIME_OF_FAILURE: (_time,),
}

"""The position in its stream that a sender states: a number or a time, as a text that sorts."""

import re
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Context, Decimal

from retrier.domain.times import EPOCH, parse_iso_time, parse_wire_time

NO_POSITION = "2"
"""The position of a message that states none: behind those that do, in the order of its number."""

_DIGITS = 20
_DECIMALS = 9
_WIDTH = _DIGITS + _DECIMALS
_NEGATIVE, _POSITIVE = "0", "1"
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}(\.[0-9]{1,40})?", re.ASCII)
_EXACT = Context(prec=200)
"""The usual context rounds to 28 digits, one fewer than a position has."""


def read_position(value: object) -> str | None:
    """Return a position as a text of digits that sorts as the number does; None if it is none.

    A time counts as the seconds since 1970. Numbers have at most 20 digits before the point, and 9
    decimals. All texts have one length and only digits, so every collation sorts them alike.
    """
    number = _number(value)
    if number is None or abs(number) >= 10**_DIGITS:
        return None
    shifted = number.scaleb(_DECIMALS, context=_EXACT)
    scaled = int(shifted.to_integral_value(rounding=ROUND_FLOOR))
    sign, digits = (_POSITIVE, scaled) if scaled >= 0 else (_NEGATIVE, 10**_WIDTH + scaled)
    return f"{sign}{digits:0{_WIDTH}d}"


def show_position(position: str) -> str | None:
    """Return the number of a position, for people; None if it is none."""
    if len(position) != 1 + _WIDTH:
        return None
    digits = int(position[1:])
    scaled = digits if position[0] == _POSITIVE else digits - 10**_WIDTH
    number = Decimal(scaled).scaleb(-_DECIMALS, context=_EXACT)
    return f"{number:f}".rstrip("0").rstrip(".")


def _number(value: object) -> Decimal | None:
    match value:
        case bool():
            return None
        case int() | Decimal():
            return _finite(Decimal(value))
        case float():
            return _finite(Decimal(repr(value)))
        case datetime():
            return _seconds(value if value.tzinfo else value.replace(tzinfo=UTC))
        case str():
            return _of_text(value.strip())
        case _:
            return None


def _finite(number: Decimal) -> Decimal | None:
    return number if number.is_finite() else None


def _of_text(text: str) -> Decimal | None:
    if _NUMBER.fullmatch(text):
        return Decimal(text)
    time = parse_iso_time(text) or parse_wire_time(text)
    return None if time is None else _seconds(time)


def _seconds(time: datetime) -> Decimal:
    since = time - EPOCH
    return Decimal(since.days * 86_400 + since.seconds) + Decimal(since.microseconds).scaleb(-6)

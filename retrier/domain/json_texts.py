"""JSON texts that are read, changed and written again: what nobody changed keeps what it says.

Python's own reader makes numbers of its own of what it reads: 1.10 would become 1.1, and 1e400
infinite. Here every number keeps its digits, members keep their order, and what would be lost, the
first of two members with one name, is refused.
"""

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from json.decoder import JSONDecoder
from json.encoder import encode_basestring, encode_basestring_ascii

_LONGEST_INT = 4000
"""Digits of a whole number that Python reads; it refuses some more."""


class NotJson(ValueError):
    """A text is no JSON, or none that can be written again without a loss."""


class NamedTwice(NotJson):
    """An object has two members with one name."""


class TooDeep(NotJson):
    """Values stand inside each other too often."""


class Number:
    """A number that Python would write with other digits; equal to any of the same value."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        """Compare by value, as JSON Patch does."""
        if isinstance(other, Number) and other.text == self.text:
            return True
        mine, its = _value(self), _value(other)
        return mine is not None and its is not None and mine == its

    __hash__ = None  # type: ignore[assignment] # equal ones have many texts

    def __deepcopy__(self, _memo: object) -> "Number":
        """Return the same: it never changes."""
        return self

    def __repr__(self) -> str:
        return self.text


def _value(number: object) -> Decimal | None:
    match number:
        case bool():
            return None
        case int():
            return Decimal(number)
        case float():
            return Decimal(repr(number))
        case Number():
            try:
                return Decimal(number.text)
            except InvalidOperation:  # an exponent of more digits than any number needs
                return None
        case _:
            return None


_WITHOUT, _WITH_SPACES = (",", ":"), (", ", ": ")
"""How libraries write what stands between values."""


def why_no_json(text: str) -> str | None:
    """Say why a text is no JSON; None if it is, of any depth and with numbers of any length."""
    try:
        # Numbers stay texts: Python refuses to read one of more than 4300 digits.
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        return f"{error.msg} in line {error.lineno}, column {error.colno}"
    except NotJson as error:
        return str(error)
    except RecursionError:
        return _why_not_nested(text)
    return None


_TOKEN = re.compile(
    r"""[ \t\r\n]*+(?:("(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+")"""
    r"""|(-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+|true|false|null)"""
    r"""|([\[\]{},:]))"""
)
_TEXT, _SCALAR = "t", "s"
_VALUE = "ts[{"


def _why_not_nested(text: str) -> str | None:
    """Check JSON token by part: Python's own reader calls itself for each level."""
    inside: list[str] = []
    allowed, is_name, at = _VALUE, False, 0
    while found := _TOKEN.match(text, at):
        part = found[3] or (_TEXT if found[1] else _SCALAR)
        if part not in allowed:
            break
        at = found.end()
        if part in "[{":
            inside.append(part)
            is_name = part == "{"
            allowed = f"{_TEXT}}}" if is_name else f"{_VALUE}]"
        elif part == ",":
            is_name = inside[-1] == "{"
            allowed = _TEXT if is_name else _VALUE
        elif is_name and part == _TEXT:
            is_name, allowed = False, ":"
        elif part == ":":
            allowed = _VALUE
        else:
            if part in "]}":
                inside.pop()
            is_name = False
            allowed = (",]" if inside[-1] == "[" else ",}") if inside else ""
    if allowed or text[at:].strip(" \t\r\n"):
        return f"Something else is expected behind character {at:,}"
    return None


def read_json(text: str) -> object:
    """Return what a text says. Raises NotJson, NamedTwice, TooDeep."""
    try:
        value = json.loads(text, parse_constant=_refuse)
        if _is_plain(value, text.strip()):
            return value
        return _read(text, _whole if "-0" in text else int)
    except NotJson:
        raise
    except json.JSONDecodeError as error:
        raise NotJson(str(error)) from None
    except ValueError:  # a whole number of too many digits
        return _read(text, _whole)
    except RecursionError:
        raise TooDeep from None


def _is_plain(value: object, text: str) -> bool:
    """Say whether Python itself writes the value as it was: then there is nothing to keep.

    To write and compare is much faster than to look at each number and each object.
    """
    style = _WITH_SPACES if '": ' in text else _WITHOUT
    return json.dumps(value, ensure_ascii=text.isascii(), separators=style) == text


def _read(text: str, parse_int: type[int] | object) -> object:
    return json.loads(
        text,
        parse_int=parse_int,  # type: ignore[arg-type] # it may return anything
        parse_float=_fraction,
        parse_constant=_refuse,
        object_pairs_hook=_make_object,
    )


def _whole(text: str) -> int | Number:
    return Number(text) if text == "-0" or len(text) > _LONGEST_INT else int(text)


def _fraction(text: str) -> float | Number:
    found = float(text)
    return found if repr(found) == text else Number(text)


def _refuse(constant: str) -> object:
    raise NotJson(f"{constant} is no JSON")


def _make_object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise NamedTwice
    return made


def write_json(value: object, *, ascii_only: bool) -> str:
    """Return a value as a text without spaces between its parts.

    `ascii_only` escapes all other characters.
    """
    try:
        return json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"), default=_is_odd)
    except _OddNumber:
        out: list[str] = []
        _write(value, out, ascii_only=ascii_only)
        return "".join(out)


class _OddNumber(Exception):
    """Python's writer, which is fast, does not know how a number is written."""


def _is_odd(_value: object) -> object:
    raise _OddNumber


def _write(value: object, out: list[str], *, ascii_only: bool) -> None:
    quote = encode_basestring_ascii if ascii_only else encode_basestring
    match value:
        case Number():
            out.append(value.text)
        case str():
            out.append(quote(value))
        case dict():
            out.append("{")
            for at, (name, each) in enumerate(value.items()):
                out.append(f"{',' if at else ''}{quote(name)}:")
                _write(each, out, ascii_only=ascii_only)
            out.append("}")
        case list():
            out.append("[")
            for at, each in enumerate(value):
                if at:
                    out.append(",")
                _write(each, out, ascii_only=ascii_only)
            out.append("]")
        case _:
            out.append(json.dumps(value))


_BETWEEN = re.compile(r"[ \t\r\n]*")


def texts_of_members(text: str) -> Mapping[str, str]:
    """Return the text of each member of an object, as it stands there; nothing of anything else.

    Nothing either of an object that has two members with one name: which one counts is not known.
    """
    # Numbers stay texts: Python refuses to read one of more than 4300 digits.
    reader = JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse)
    found: dict[str, str] = {}
    try:
        if not isinstance(reader.decode(text), dict):
            return {}
        at = text.index("{") + 1
        while (at := _behind_spaces(text, at)) < len(text) and text[at] != "}":
            name, at = reader.raw_decode(text, at)
            start = _behind_spaces(text, text.index(":", at) + 1)
            _, at = reader.raw_decode(text, start)
            if name in found:
                return {}
            found[name] = text[start:at]
            at = _behind_spaces(text, at)
            at += text[at] == ","
    except (ValueError, RecursionError):
        return {}
    return found


def _behind_spaces(text: str, at: int) -> int:
    spaces = _BETWEEN.match(text, at)
    return spaces.end() if spaces else at


def depth_of(value: object) -> int:
    """Return how deep a value nests: 1 for a text."""
    level, depth = [value] if isinstance(value, dict | list) else [], 1
    while level:
        depth += 1
        level = [
            inside
            for each in level
            for inside in (each.values() if isinstance(each, dict) else each)
            if isinstance(inside, dict | list)
        ]
    return depth

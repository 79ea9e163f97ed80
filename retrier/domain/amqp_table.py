"""AMQP 0-9-1 field tables: walked by size without being interpreted, decoded only to be read.

The letters are RabbitMQ's: `s` is a 16 bit integer, `l` and `L` are signed, `x` is a byte array.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from retrier.domain.wire import UnreadableProperties

FIXED_SIZES: Mapping[str, int] = {
    **dict.fromkeys("tbB", 1),
    **dict.fromkeys("sUu", 2),
    **dict.fromkeys("Iif", 4),
    **dict.fromkeys("lLdT", 8),
    "D": 5,
    "V": 0,
}
WITH_LENGTH = frozenset("SAFx")
LENGTH = 4
DEEPEST = 64
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a table: its name, and all its bytes (name, letter, value)."""

    name: str
    encoded: bytes
    letter: str
    value: bytes


def entries(table: bytes) -> Iterator[Entry]:
    """Walk the entries of a table given without its length. Raises UnreadableProperties."""
    offset = 0
    while offset < len(table):
        start_of_value = offset + 1 + table[offset]
        name = text(take(table, offset + 1, table[offset]))
        letter, value, end = _field(table, start_of_value)
        yield Entry(name=name, encoded=table[offset:end], letter=letter, value=value)
        offset = end


def text_entry(name: str, value: str) -> bytes:
    """Encode an entry whose value is a long string in UTF-8. Raises ValueError."""
    key = name.encode()
    content = value.encode()
    return bytes([len(key)]) + key + b"S" + len(content).to_bytes(LENGTH) + content


def decode_table(table: bytes, depth: int = 0) -> dict[str, object]:
    """Decode a table given without its length. Raises UnreadableProperties."""
    return {entry.name: _decode(entry.letter, entry.value, depth) for entry in entries(table)}


def text(content: bytes) -> str:
    """Show bytes as text; what is not UTF-8 is shown with backslash escapes."""
    return content.decode("utf-8", "backslashreplace")


def take(content: bytes, offset: int, size: int) -> bytes:
    """Cut so many bytes out. Raises UnreadableProperties when there are fewer."""
    end = offset + size
    if end > len(content):
        raise UnreadableProperties(f"{size} bytes expected at {offset}, {len(content)} in all")
    return content[offset:end]


def _field(content: bytes, offset: int) -> tuple[str, bytes, int]:
    letter = chr(take(content, offset, 1)[0])
    start = offset + 1
    size = FIXED_SIZES.get(letter)
    if size is None:
        if letter not in WITH_LENGTH:
            raise UnreadableProperties(f"no field type {letter!r} (at {offset})")
        size = int.from_bytes(take(content, start, LENGTH))
        start += LENGTH
    return letter, take(content, start, size), start + size


def _decode(letter: str, value: bytes, depth: int) -> object:
    if letter not in "FA":
        return DECODERS[letter](value)
    if depth == DEEPEST:
        raise UnreadableProperties(f"headers nested more than {DEEPEST} deep")
    return decode_table(value, depth + 1) if letter == "F" else _decode_array(value, depth + 1)


def _decode_array(array: bytes, depth: int) -> list[object]:
    values: list[object] = []
    offset = 0
    while offset < len(array):
        letter, value, offset = _field(array, offset)
        values.append(_decode(letter, value, depth))
    return values


def _decimal(value: bytes) -> Decimal:
    return Decimal(_signed(value[1:])).scaleb(-value[0])


def _time(value: bytes) -> datetime | int:
    seconds = int.from_bytes(value)
    try:
        return EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return seconds  # milliseconds since the epoch, as Java and .NET clients write them


def _signed(value: bytes) -> int:
    return int.from_bytes(value, signed=True)


def _nothing(_value: bytes) -> None:
    return None


def _float(value: bytes) -> float:
    (number,) = struct.unpack(">f" if len(value) == FIXED_SIZES["f"] else ">d", value)
    return float(number)


DECODERS: Mapping[str, Callable[[bytes], object]] = {
    **dict.fromkeys("bsUIlL", _signed),
    **dict.fromkeys("Bui", int.from_bytes),
    **dict.fromkeys("fd", _float),
    "t": any,
    "D": _decimal,
    "T": _time,
    "S": text,
    "x": bytes,
    "V": _nothing,
}

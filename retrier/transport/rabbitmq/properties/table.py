"""AMQP 0-9-1 field tables: split into entries by their sizes, and decoded only for reading."""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache

from retrier.domain.wire import UnreadableProperties

LENGTH = 4
"""Bytes of the length that precedes tables, arrays, long strings and byte arrays."""
FIXED_SIZES: Mapping[int, int] = {
    **dict.fromkeys(b"tbB", 1),
    **dict.fromkeys(b"sUu", 2),
    **dict.fromkeys(b"Iif", 4),
    **dict.fromkeys(b"lLdT", 8),
    ord("D"): 5,
    ord("V"): 0,
}
WITH_LENGTH = frozenset(b"SAFx")
TABLE, ARRAY, FLOAT, LONG_STRING = b"FAfS"
DEEPEST = 64
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HEAD = struct.Struct(">BI")
"""The head of a value: its type letter, and the length that nearly all values have."""

HEAD_SIZE = HEAD.size
PADDING = bytes(0xFF + HEAD_SIZE)
"""Added to a table: the head of a value is read up to this far after the last byte."""

Span = tuple[int, int]
"""Start, and end (exclusive)."""


def entries(table: bytes) -> list[bytes]:
    """Split a table, without its length, into its entries. Raises UnreadableProperties."""
    return entries_and_others(table)[0]


def entries_and_others(table: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return all entries, and apart those that are not long strings. Raises UnreadableProperties.

    This runs for every ingested message, so it is one plain loop; nearly every value is a long
    string.
    """
    found, others = [], []
    start, size = 0, len(table)
    # A name that is cut short ends in the padding. Its type letter is 0 then, which is no type.
    padded = table + PADDING
    while start < size:
        value = start + 1 + padded[start]
        letter, length = HEAD.unpack_from(padded, value)
        end = value + HEAD_SIZE + length
        if letter != LONG_STRING or end > size:
            end = end_of_value(table, value)
            others.append(table[start:end])
        found.append(table[start:end])
        start = end
    return found, others


def names(found: Iterable[bytes]) -> list[str]:
    """Return the names of entries; what is not UTF-8 is shown with backslash escapes."""
    octets = [entry[1 : entry[0] + 1] for entry in found]
    try:
        return [name.decode() for name in octets]
    except UnicodeDecodeError:
        return [text(name) for name in octets]


def runs_without(table: bytes, leaves_out: Callable[[bytes], bool]) -> list[bytes]:
    """Return the pieces between the entries that are left out. Raises UnreadableProperties.

    The same loop as `entries_and_others`, but for copying: it makes no object per entry, and
    returns what is kept in few pieces.
    """
    runs = []
    start = run = 0
    size = len(table)
    while start < size:
        value = start + 1 + table[start]
        end = value + HEAD_SIZE
        letter, length = HEAD.unpack_from(table, value) if end <= size else (0, 0)
        end += length
        if letter != LONG_STRING or end > size:
            end = end_of_value(table, value)
        if leaves_out(table[start + 1 : value]):
            runs.append(table[run:start])
            run = end
        start = end
    runs.append(table[run:])
    return runs


def end_of_value(content: bytes, start: int) -> int:
    """Return the end of the value whose type letter is at `start`. Raises UnreadableProperties."""
    if start >= len(content):
        raise UnreadableProperties("a table ends within a name")
    letter = content[start]
    if letter in WITH_LENGTH:
        size = LENGTH + int.from_bytes(content[start + 1 : start + 1 + LENGTH])
    elif letter in FIXED_SIZES:
        size = FIXED_SIZES[letter]
    else:
        raise UnreadableProperties(f"no field type {chr(letter)!r} at {start} of a table")
    end = start + 1 + size
    if end > len(content):
        raise UnreadableProperties(f"a table ends within the value at {start}")
    return end


def text_entry(name: str, value: str) -> bytes:
    """Encode an entry whose value is a long string in UTF-8. Raises ValueError."""
    content = value.encode()
    return text_head(name) + len(content).to_bytes(LENGTH) + content


@lru_cache(maxsize=256)
def text_head(name: str) -> bytes:
    """Encode the start of a long string's entry: name and type letter. Raises ValueError."""
    key = name.encode()
    return bytes([len(key)]) + key + b"S"


def decode_table(table: bytes, depth: int = 0) -> dict[str, object]:
    """Decode a table, without its length. Raises UnreadableProperties."""
    return decode_entries(entries(table), depth)


def decode_entries(found: Sequence[bytes], depth: int = 0) -> dict[str, object]:
    """Decode entries; of several with one name the last counts. Raises UnreadableProperties."""
    values = [
        entry[entry[0] + 1 + HEAD_SIZE :].decode("utf-8", "backslashreplace")
        if entry[entry[0] + 1] == LONG_STRING
        else _decode(entry[entry[0] + 1 :], depth)
        for entry in found
    ]
    return dict(zip(names(found), values, strict=True))


def decode_some(table: bytes, wanted: frozenset[str]) -> dict[str, object]:
    """Decode only the entries with these names. Raises UnreadableProperties."""
    found = entries(table)
    pairs = zip(names(found), found, strict=True)
    return decode_entries([entry for name, entry in pairs if name in wanted])


def text(content: bytes) -> str:
    """Return bytes as text; what is not UTF-8 is shown with backslash escapes."""
    return content.decode("utf-8", "backslashreplace")


def _decode(value: bytes, depth: int) -> object:
    letter = value[0]
    content = value[1 + LENGTH :] if letter in WITH_LENGTH else value[1:]
    if letter not in (TABLE, ARRAY):
        return DECODERS[letter](content)
    if depth == DEEPEST:
        raise UnreadableProperties(f"headers nested more than {DEEPEST} deep")
    nested = decode_table if letter == TABLE else _decode_array
    return nested(content, depth + 1)


def _decode_array(array: bytes, depth: int) -> list[object]:
    values: list[object] = []
    start = 0
    while start < len(array):
        end = end_of_value(array, start)
        values.append(_decode(array[start:end], depth))
        start = end
    return values


def _decimal(content: bytes) -> Decimal:
    return Decimal(_signed(content[1:])).scaleb(-content[0])


def _time(content: bytes) -> datetime | int:
    seconds = int.from_bytes(content)
    try:
        return EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return seconds  # milliseconds since the epoch, as Java and .NET clients write them


def _signed(content: bytes) -> int:
    return int.from_bytes(content, signed=True)


def _float(content: bytes) -> float:
    (number,) = struct.unpack(">f" if len(content) == FIXED_SIZES[FLOAT] else ">d", content)
    return float(number)


def _nothing(_content: bytes) -> None:
    return None


DECODERS: Mapping[int, Callable[[bytes], object]] = {
    **dict.fromkeys(b"bsUIlL", _signed),
    **dict.fromkeys(b"Bui", int.from_bytes),
    **dict.fromkeys(b"fd", _float),
    ord("t"): any,
    ord("D"): _decimal,
    ord("T"): _time,
    ord("S"): text,
    ord("x"): bytes,
    ord("V"): _nothing,
}

"""The properties of an AMQP 0-9-1 message, read and edited as the bytes of the content header."""

import struct
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Literal

from retrier.domain.headers import BROKER_COUNTERS
from retrier.domain.wire import SETTABLE_TEXTS, Edit, Properties, UnreadableProperties

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
"""Added to a table: the head of a value is read up to this far after the last byte.

A name that is cut short ends in it. Its type letter is 0 then, which is no type.
"""

Span = tuple[int, int]
"""Start, and end (exclusive)."""


def entries(table: bytes) -> list[bytes]:
    """Split a table, without its length, into its entries. Raises UnreadableProperties."""
    found = []
    start, size = 0, len(table)
    padded = table + PADDING
    while start < size:
        value = start + 1 + padded[start]
        letter, length = HEAD.unpack_from(padded, value)
        end = value + HEAD_SIZE + length
        if letter != LONG_STRING or end > size:
            end = end_of_value(table, value)
        found.append(table[start:end])
        start = end
    return found


def names(found: Iterable[bytes]) -> list[str]:
    """Return the names of entries; what is not UTF-8 is shown with backslash escapes."""
    octets = [entry[1 : entry[0] + 1] for entry in found]
    try:
        return [name.decode() for name in octets]
    except UnicodeDecodeError:
        return [text(name) for name in octets]


def runs_without(table: bytes, leaves_out: Callable[[bytes], bool]) -> list[bytes]:
    """Return the pieces between the entries that are left out. Raises UnreadableProperties.

    The same loop as `entries`, but for copying: it makes no object per entry, and
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


Kind = Literal["text", "table", "octet", "time"]

FIELDS: Mapping[str, Kind] = {
    "content_type": "text",
    "content_encoding": "text",
    "headers": "table",
    "delivery_mode": "octet",
    "priority": "octet",
    "correlation_id": "text",
    "reply_to": "text",
    "expiration": "text",
    "message_id": "text",
    "timestamp": "time",
    "type": "text",
    "user_id": "text",
    "app_id": "text",
    "cluster_id": "text",
}
FLAGS: Mapping[str, int] = {name: 0x8000 >> place for place, name in enumerate(FIELDS)}
LENGTHS: Mapping[Kind, int] = {"text": 1, "table": LENGTH}
"""Bytes of the length that precedes a property of varying size."""
SIZES: Mapping[Kind, int] = {"text": 0, "table": 0, "octet": 1, "time": 8}
UNDEFINED_FLAGS = 0x0003
FLAGS_SIZE = 2
_LONG = 8
"""Bytes of a whole number, and of a time."""
OCTETS = tuple(name for name, kind in FIELDS.items() if kind == "octet")


def find_fields(raw: bytes, wanted: frozenset[str]) -> dict[str, Span]:
    """Return start and end of each of these fields. Raises UnreadableProperties."""
    found = {}
    start = FLAGS_SIZE
    for name, size, length in _present_up_to(int.from_bytes(raw[:FLAGS_SIZE]), wanted):
        end = start + size + (int.from_bytes(raw[start : start + length]) if length else 0)
        if name in wanted:
            found[name] = start, end
        start = end
    if start > len(raw):
        raise UnreadableProperties(f"{start} bytes of properties expected, found {len(raw)}")
    return found


@lru_cache(maxsize=1024)
def _present_up_to(flags: int, wanted: frozenset[str]) -> tuple[tuple[str, int, int], ...]:
    """Return what `present` does, but only up to the last of the wanted fields."""
    names = [name for name, *_ in present(flags)]
    return present(flags)[: max((names.index(name) + 1 for name in wanted & {*names}), default=0)]


@lru_cache(maxsize=1024)
def present(flags: int) -> tuple[tuple[str, int, int], ...]:
    """Return for each property in the flags: name, least size, and size of its length, in bytes."""
    return tuple(
        (name, SIZES[kind] + LENGTHS.get(kind, 0), LENGTHS.get(kind, 0))
        for name, kind in FIELDS.items()
        if flags & FLAGS[name]
    )


class AmqpFields(Mapping[str, str | int]):
    """All fields except the headers; kept as bytes, and each is decoded when it is read."""

    __slots__ = ("_bytes",)

    def __init__(self, found: Mapping[str, bytes]) -> None:
        self._bytes = found

    def __getitem__(self, name: str) -> str | int:
        return decode_field(name, self._bytes[name])

    def __contains__(self, name: object) -> bool:
        return name in self._bytes

    def __iter__(self) -> Iterator[str]:
        return iter(self._bytes)

    def __len__(self) -> int:
        return len(self._bytes)


def read_entries(table: bytes) -> tuple[dict[str, object], list[bytes]]:
    """Return the headers of a table, and its entries; the table comes without its length.

    Raises UnreadableProperties.
    """
    try:
        return _read_texts(table)
    except (UnicodeDecodeError, UnreadableProperties):
        # Of several faults the one that `read` names: a failed import may be read by either.
        found = entries(table)
        return decode_entries(found), found


def _read_texts(table: bytes) -> tuple[dict[str, object], list[bytes]]:
    """Do so if all texts are UTF-8. Raises UnicodeDecodeError, UnreadableProperties.

    This runs for every ingested message, so it is one plain loop; nearly every value is a text. A
    plain dict of decoded values takes less than values that are decoded when they are read: twenty
    are asked for, and each question would be a call.
    """
    headers: dict[str, object] = {}
    found = []
    start, size = 0, len(table)
    padded = table + PADDING
    while start < size:
        value = start + 1 + padded[start]
        letter, length = HEAD.unpack_from(padded, value)
        end = value + HEAD_SIZE + length
        if letter == LONG_STRING and end <= size:
            headers[padded[start + 1 : value].decode()] = padded[value + HEAD_SIZE : end].decode()
        else:
            end = end_of_value(table, value)
            headers[padded[start + 1 : value].decode()] = _decode(table[value:end], 0)
        found.append(padded[start:end])
        start = end
    return headers, found


def decode_field(name: str, part: bytes) -> str | int:
    """Decode a field other than the headers."""
    return text(part[1:]) if FIELDS[name] == "text" else int.from_bytes(part)


UNREADABLE = "(unreadable)"
"""Stands for a value whose end is known and whose content is not."""


def read_what_can_be(raw: bytes) -> tuple[Properties, str | None]:
    """Return the fields and headers up to the first byte that makes no sense, and why it makes none."""
    fields: dict[str, str | int] = {}
    headers: dict[str, object] = {}
    problem = None if len(raw) >= FLAGS_SIZE else "no property flags"
    start = FLAGS_SIZE
    for name, size, length in present(int.from_bytes(raw[:FLAGS_SIZE])) if problem is None else ():
        end = start + size + (int.from_bytes(raw[start : start + length]) if length else 0)
        part = raw[start:end]
        if FIELDS[name] == "table":
            headers, problem = _read_table(part[LENGTH:])
        if end > len(raw):
            problem = f"the properties end within {name}"
            break
        if FIELDS[name] != "table":
            fields[name] = decode_field(name, part)
        start = end
    if problem is None and start != len(raw):
        problem = f"{start} bytes of properties expected, found {len(raw)}"
    return Properties(headers=headers, fields=fields), problem


def _read_table(table: bytes) -> tuple[dict[str, object], str | None]:
    """Read a table entry by entry; behind one that has no end nothing can be found."""
    found: dict[str, object] = {}
    problem = None
    start = 0
    while start < len(table):
        value = start + 1 + table[start]
        try:
            end = end_of_value(table, value)
        except UnreadableProperties as error:
            return found, str(error)
        try:
            found |= decode_table(table[start:end])
        except UnreadableProperties as error:
            problem = str(error)
            found[text(table[start + 1 : value])] = UNREADABLE
        start = end
    return found, problem


_COUNTERS = tuple(bytes([len(name)]) + name.encode() for name in BROKER_COUNTERS)
"""The first bytes of an entry whose name is a broker's counter: its length and its name."""


USUAL_FRAME = 128 * 1024
"""Bytes of a frame, unless the address of the broker says another number."""
ROOM_IN_FRAME = 1024
"""Bytes of it that are left for what a retry stamps on a message, and for the frame itself."""
_GROWTH = 4096
"""Bytes by which properties grow at most as a retry is made of them."""


class AmqpPropertyCodec:
    """Reads and edits the raw properties of AMQP 0-9-1 messages."""

    empty = b"\0\0"
    of_rabbitmq = True
    """Flags without any field."""

    def __init__(self, frame_max: int = USUAL_FRAME) -> None:
        """`frame_max` is the largest frame of the connections that publish, in bytes."""
        self._largest = frame_max - ROOM_IN_FRAME
        self.surely_fits: int | None = self._largest - _GROWTH

    def why_too_large(self, raw: bytes, body: bytes) -> str | None:  # noqa: ARG002 - a body is split
        """See the seam: all properties have to fit into one frame."""
        if len(raw) <= self._largest:
            return None
        return f"{len(raw):,} bytes of headers and properties: one frame holds {self._largest:,}"

    def read(self, raw: bytes) -> Properties:
        """Decode for reading. Raises UnreadableProperties."""
        _, parts = _split(raw)
        table = parts.pop("headers", b"")
        return Properties(headers=decode_table(table[LENGTH:]), fields=dict(AmqpFields(parts)))

    def read_what_can_be(self, raw: bytes) -> tuple[Properties, str | None]:
        """Decode as much as can be; return it with why the rest cannot. Never raises."""
        return read_what_can_be(raw)

    def read_with_canonical(self, raw: bytes) -> tuple[Properties, bytes]:
        """Return both. Raises UnreadableProperties."""
        undefined, parts = _split(raw)
        headers, found = read_entries(parts.pop("headers", b"")[LENGTH:])
        properties = Properties(headers=headers, fields=AmqpFields(parts))
        return properties, _join(undefined, parts) + _in_order(found, headers)

    def read_fields(self, raw: bytes, wanted: frozenset[str]) -> Mapping[str, str | int]:
        """Decode only these fields, checking nothing after them. Raises UnreadableProperties."""
        return {
            name: decode_field(name, raw[start:end])
            for name, (start, end) in find_fields(raw, wanted).items()
        }

    def read_headers(self, raw: bytes, wanted: frozenset[str]) -> Mapping[str, object]:
        """Decode these headers only. Raises UnreadableProperties."""
        _, parts = _split(raw)
        return decode_some(parts.get("headers", b"")[LENGTH:], wanted)

    def edit(self, raw: bytes, edit: Edit) -> bytes:
        """Return the properties with the edit applied.

        Headers are compared by name and never decoded; those that are set are appended, texts
        as long strings in UTF-8. Raises UnreadableProperties; ValueError for what AMQP cannot hold.
        """
        undefined, parts = _split(raw)
        for name in edit.drop_fields:
            parts.pop(name, None)
        parts.update(_encode(edit.set_fields))
        if "headers" in parts or edit.set_headers:
            parts["headers"] = _edit_table(parts.get("headers", b""), edit)
        return _join(undefined, parts)

    def canonical(self, raw: bytes) -> bytes:
        """Return the properties without the broker's counters and with headers in one order.

        When a quorum queue redelivers, it adds `x-delivery-count`, also to a message that had no
        headers, and sorts the table by name [seen on RabbitMQ 3.10].
        """
        undefined, parts = _split(raw)
        found = entries(parts.pop("headers", b"")[LENGTH:])
        return _join(undefined, parts) + _in_order(found, names(found))


def _in_order(found: Iterable[bytes], known: Container[str]) -> bytes:
    """Join the entries of a table in sorted order, without the broker's counters.

    `known` has the names of all entries: checked first, because hardly any table has a counter.
    """
    if [name for name in BROKER_COUNTERS if name in known]:
        found = [entry for entry in found if not entry.startswith(_COUNTERS)]
    return b"".join(sorted(found))


def _split(raw: bytes) -> tuple[int, dict[str, bytes]]:
    if len(raw) < FLAGS_SIZE:
        raise UnreadableProperties("no property flags")
    flags = int.from_bytes(raw[:FLAGS_SIZE])
    parts: dict[str, bytes] = {}
    start = FLAGS_SIZE
    for name, size, length in present(flags):
        # If the length itself is cut short, `end` is after the last byte, which is refused below.
        end = start + size + (int.from_bytes(raw[start : start + length]) if length else 0)
        parts[name] = raw[start:end]
        start = end
    if start != len(raw):
        raise UnreadableProperties(f"{start} bytes of properties expected, found {len(raw)}")
    return flags & UNDEFINED_FLAGS, parts


def _join(undefined: int, parts: Mapping[str, bytes]) -> bytes:
    flags, names = _arrange(tuple(parts))
    return b"".join([(undefined | flags).to_bytes(FLAGS_SIZE), *[parts[name] for name in names]])


@lru_cache(maxsize=1024)
def _arrange(names: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    """Return the flags of these properties, and their names in the order of the flags."""
    return sum(FLAGS[name] for name in names), tuple(name for name in FIELDS if name in names)


def _encode(fields: Mapping[str, int | str]) -> dict[str, bytes]:
    return {name: _encode_field(name, value) for name, value in fields.items()}


def _encode_field(name: str, value: int | str) -> bytes:
    match value:
        case int() if name in OCTETS:
            return bytes([value])
        case int() if name == "timestamp":
            return value.to_bytes(_LONG)
        case str() if name in SETTABLE_TEXTS:
            encoded = value.encode()
            return bytes([len(encoded)]) + encoded
        case _:
            raise ValueError(f"cannot set {name} to {value!r}")


def _edit_table(table: bytes, edit: Edit) -> bytes:
    leaves_out = _leaving_out(edit.drop_headers, frozenset(edit.set_headers))
    kept = runs_without(table[LENGTH:], leaves_out)
    kept += [_entry(name, value) for name, value in edit.set_headers.items()]
    edited = b"".join(kept)
    return len(edited).to_bytes(LENGTH) + edited


def _entry(name: str, value: str | int) -> bytes:
    """Encode an entry: a text, a truth value, or a whole number of 64 bits. Raises ValueError."""
    if isinstance(value, str):
        return text_entry(name, value)
    key = name.encode()
    is_truth = isinstance(value, bool)
    content = b"t" + bytes([value]) if is_truth else b"l" + value.to_bytes(_LONG, signed=True)
    return bytes([len(key)]) + key + content


@lru_cache(maxsize=64)
def _leaving_out(drop: Callable[[str], bool], replaced: frozenset[str]) -> Callable[[bytes], bool]:
    """Return a function of a header's name: whether an edit leaves that header out.

    Cached, as are its answers: there are many messages, and their headers have few names.
    """
    return lru_cache(maxsize=4096)(lambda name: text(name) in replaced or drop(text(name)))

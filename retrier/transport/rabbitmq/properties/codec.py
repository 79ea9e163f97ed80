"""The properties of an AMQP 0-9-1 message, read and edited as the bytes of the content header."""

from collections.abc import Callable, Container, Iterable, Mapping
from functools import lru_cache

from retrier.domain.headers import BROKER_COUNTERS
from retrier.domain.wire import SETTABLE_TEXTS, Edit, Properties, UnreadableProperties
from retrier.transport.rabbitmq.properties.fields import (
    FIELDS,
    FLAGS,
    FLAGS_SIZE,
    OCTETS,
    UNDEFINED_FLAGS,
    AmqpFields,
    decode_field,
    find_fields,
    present,
    read_entries,
)
from retrier.transport.rabbitmq.properties.salvage import read_what_can_be
from retrier.transport.rabbitmq.properties.table import (
    LENGTH,
    decode_some,
    decode_table,
    entries,
    names,
    runs_without,
    text,
    text_entry,
)

_COUNTERS = tuple(bytes([len(name)]) + name.encode() for name in BROKER_COUNTERS)
"""The first bytes of an entry whose name is a broker's counter: its length and its name."""


class AmqpPropertyCodec:
    """Reads and edits the raw properties of AMQP 0-9-1 messages."""

    empty = b"\0\0"
    """Flags without any field."""

    def read(self, raw: bytes) -> Properties:
        """Decode for reading. Raises UnreadableProperties."""
        _, parts = _split(raw)
        table = parts.pop("headers", b"")
        return Properties(headers=decode_table(table[LENGTH:]), fields=dict(AmqpFields(parts)))

    def read_what_can_be(self, raw: bytes) -> tuple[Properties, str | None]:
        """Decode as much as can be; return it with why the rest cannot. Never raises."""
        return read_what_can_be(raw)

    def read_with_canonical(self, raw: bytes) -> tuple[Properties, bytes]:
        """Return both; most values are decoded when read. Raises UnreadableProperties."""
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

        Headers are compared by name and never decoded; those that are set are appended, as long
        strings in UTF-8. Raises UnreadableProperties; ValueError for what AMQP cannot hold.
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
        case str() if name in SETTABLE_TEXTS:
            encoded = value.encode()
            return bytes([len(encoded)]) + encoded
        case _:
            raise ValueError(f"cannot set {name} to {value!r}")


def _edit_table(table: bytes, edit: Edit) -> bytes:
    leaves_out = _leaving_out(edit.drop_headers, frozenset(edit.set_headers))
    kept = runs_without(table[LENGTH:], leaves_out)
    kept += [text_entry(name, value) for name, value in edit.set_headers.items()]
    edited = b"".join(kept)
    return len(edited).to_bytes(LENGTH) + edited


@lru_cache(maxsize=64)
def _leaving_out(drop: Callable[[str], bool], replaced: frozenset[str]) -> Callable[[bytes], bool]:
    """Return a function of a header's name: whether an edit leaves that header out.

    Cached, as are its answers: there are many messages, and their headers have few names.
    """
    return lru_cache(maxsize=4096)(lambda name: text(name) in replaced or drop(text(name)))

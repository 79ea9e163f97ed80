"""Reads as much of unreadable AMQP properties as can be read, for people who have to decide."""

from retrier.domain.wire import Properties, UnreadableProperties
from retrier.transport.rabbitmq.properties.fields import FIELDS, FLAGS_SIZE, decode_field, present
from retrier.transport.rabbitmq.properties.table import LENGTH, decode_table, end_of_value, text

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

"""Fields and headers of an AMQP message that are decoded when somebody asks for one.

Ingestion asks for a dozen of a few dozen, and nobody for most of the text that a message carries.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import TypeVar

from retrier.domain.amqp_fields import FIELDS
from retrier.domain.amqp_table import (
    HEAD_SIZE,
    LONG_STRING,
    decode_entries,
    entries_and_others,
    names,
    text,
)

Value_co = TypeVar("Value_co", covariant=True)


class _Late(Mapping[str, Value_co]):
    """What is there under which name, as bytes."""

    __slots__ = ("_bytes",)

    def __init__(self, found: Mapping[str, bytes]) -> None:
        self._bytes = found

    @abstractmethod
    def __getitem__(self, name: str) -> Value_co: ...

    def __contains__(self, name: object) -> bool:
        return name in self._bytes

    def __iter__(self) -> Iterator[str]:
        return iter(self._bytes)

    def __len__(self) -> int:
        return len(self._bytes)


class AmqpFields(_Late[str | int]):
    """The fields but the headers."""

    __slots__ = ()

    def __getitem__(self, name: str) -> str | int:
        return decode_field(name, self._bytes[name])


class AmqpHeaders(_Late[object]):
    """The headers; only long strings are left to be decoded."""

    __slots__ = ("_others",)

    def __init__(self, found: Mapping[str, bytes], others: Mapping[str, object]) -> None:
        self._bytes = found
        self._others = others

    def __getitem__(self, name: str) -> object:
        if name not in self._bytes:
            raise KeyError(name)
        return self.get(name)

    def get(self, name: str, default: object = None) -> object:
        """Return a header. All of ingestion asks here, so nothing else is called for a text."""
        entry = self._bytes.get(name)
        if entry is None:
            return default
        value = entry[0] + 1
        if entry[value] != LONG_STRING:
            return self._others[name]
        return entry[value + HEAD_SIZE :].decode("utf-8", "backslashreplace")


def read_entries(table: bytes) -> tuple[AmqpHeaders, list[bytes]]:
    """Return the headers of a table given without its length, and its entries.

    What is no long string is decoded here: it may be unreadable. Raises UnreadableProperties.
    """
    found, others = entries_and_others(table)
    by_name = dict(zip(names(found), found, strict=True))
    return AmqpHeaders(by_name, decode_entries(others) if others else {}), found


def decode_field(name: str, part: bytes) -> str | int:
    """Decode a field that is no table."""
    return text(part[1:]) if FIELDS[name] == "text" else int.from_bytes(part)

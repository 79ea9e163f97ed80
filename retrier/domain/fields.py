"""Declared fields: what the settings name in a message, so that it is found by that.

A body may be anything. What cannot be read yields no value, and never an error.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import Any
from xml.parsers import expat

from retrier.domain.access import QueuePatterns, matches_queue
from retrier.domain.dialects import by_name
from retrier.domain.dialects.dialect import LARGEST_BODY, Original, amqp_field
from retrier.domain.dialects.own import Place, Source, as_text, read_document, resolve
from retrier.domain.text import clean
from retrier.domain.times import (
    EPOCH,
    NoTime,
    last_moment_of,
    parse_wire_time,
    read_moment,
)
from retrier.domain.values import dataclass
from retrier.domain.wire import MARK, Properties, charset_of

MOST_FIELDS = 20
"""Fields that the settings may declare."""

LONGEST_VALUE = 256
"""Bytes of UTF-8 that are kept of a value, and compared."""

PREFIX = "field."
"""What the name of a condition begins with, in addresses, in JSON and in the database."""

NAME_PATTERN = r"[a-z][a-z0-9_-]{0,63}"
_NAME = re.compile(NAME_PATTERN)
_STEP = re.compile(r"[^\W\d][\w.-]*")
_MOST_STEPS = 20


def is_name(text: str) -> bool:
    """Say whether a field may be called so."""
    return _NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class XmlPath:
    """A place in XML: the names of the elements from the root, without their prefixes.

    With `attribute` the value is that attribute of the last of them.
    """

    steps: tuple[str, ...]
    attribute: str | None = None


def read_xml_path(text: str) -> XmlPath | None:
    """Return the path that is written as `/order/customer/id` or `/order/@id`; None if it is none."""
    begin, *steps = text.split("/")
    attribute = steps.pop()[1:] if steps and steps[-1].startswith("@") else None
    names = steps if attribute is None else [*steps, attribute]
    if begin or not 1 <= len(steps) <= _MOST_STEPS or not all(map(_STEP.fullmatch, names)):
        return None
    return XmlPath(tuple(steps), attribute)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredField:
    """A field of the settings: its name, where it stands, and on which queues; None is all."""

    name: str
    source: Source | XmlPath
    queues: QueuePatterns | None = None

    def is_of(self, queue: str) -> bool:
        """Say whether it is read of what failed on this queue."""
        return self.queues is None or matches_queue(self.queues, queue)


def names_of(declared: Iterable[DeclaredField]) -> tuple[str, ...]:
    """Return the names of declared fields, each once, in order."""
    return tuple(sorted({each.name for each in declared}))


def share_a_queue(one: QueuePatterns | None, other: QueuePatterns | None) -> bool:
    """Say whether a queue may match patterns of both; None is every queue."""
    if one is None or other is None:
        return True
    return any(_meet(each, another) for each in one for another in other)


def _meet(one: str, other: str) -> bool:
    """Say whether some text matches both patterns."""
    # `row[at]`: what was gone through of `one`, and so many characters of `other`, can be one text.
    row = [not other[:at].strip("*") for at in range(len(other) + 1)]
    for character in one:
        following = [row[0] and character == "*"]
        for at, another in enumerate(other):
            if "*" in (character, another):
                # Where one has a star, it takes what the other has, or nothing.
                following.append(following[at] or row[at + 1])
            else:
                following.append(character == another and row[at])
        row = following
    return row[-1]


def read_fields(
    declared: Sequence[DeclaredField],
    queue: str,
    properties: Properties,
    body: bytes,
    inside: Original | None = None,
) -> Mapping[str, str]:
    """Return the values, by name, of what failed on this queue. Never raises.

    `inside` is the message in an error envelope: its headers come first, and its body is read.
    """
    wanted = [each for each in declared if each.queues is None or each.is_of(queue)]
    message = _Message(
        (properties,) if inside is None else (inside.properties, properties),
        body if inside is None else inside.body,
        wanted,
    )
    values = {}
    for each in wanted:
        value = message.read(each.source)
        if value:
            values[each.name] = value
    return values


def read_stored(
    declared: Sequence[DeclaredField],
    queue: str,
    dialect: str,
    properties: Properties,
    body: bytes,
) -> Mapping[str, str]:
    """Return the values of a failure that was stored, as it was read in this dialect."""
    known = by_name(dialect)
    inside = None if known is None else known.unwrap(properties, body)
    return read_fields(declared, queue, properties, body, inside)


_NOT_READ = object()
"""Stands for a body that nobody has taken apart yet."""


class _Message:
    """A message of which fields are read; its body is taken apart once, if any stands there."""

    __slots__ = ("_body", "_document", "_properties", "_wanted", "_xml")

    def __init__(
        self, properties: Sequence[Properties], body: bytes, wanted: Sequence[DeclaredField]
    ) -> None:
        self._properties = properties
        self._body = body
        self._wanted = wanted
        self._document: object = _NOT_READ
        self._xml: Mapping[XmlPath, str] | None = None

    def read(self, source: Source | XmlPath) -> str:
        """Return the value that stands there, cut to its length; empty if there is none."""
        try:
            text = self._find(source)
        except (ValueError, RecursionError):
            return ""
        return clean(text.strip(), LONGEST_VALUE).strip() if text else ""

    def _find(self, source: Source | XmlPath) -> str | None:
        if isinstance(source, XmlPath):
            if self._xml is None:
                sources = (each.source for each in self._wanted)
                paths = [each for each in sources if isinstance(each, XmlPath)]
                self._xml = _read_xml(self._in_utf_8(), paths)
            return self._xml.get(source)
        if source.place is not Place.BODY:
            for properties in self._properties:
                if told := source.read(properties, None):
                    return told
            return None
        if self._document is _NOT_READ:
            self._document = read_document(self._in_utf_8())
        value = resolve(self._document, source.name)
        if isinstance(value, str):
            return value
        if type(value) is int or (type(value) is float and isfinite(value)):
            return str(value)
        return None if isinstance(value, dict | list) else as_text(value)

    def _in_utf_8(self) -> bytes:
        """Return the body, which may be in any charset. Raises UnicodeError."""
        if len(self._body) > LARGEST_BODY:
            return b""
        # The first are the properties of the message whose body it is.
        content_type = amqp_field(self._properties[0], "content_type") or ""
        charset = charset_of(content_type, self._body)
        if charset.lower() == "utf-8":
            return self._body
        return self._body.decode(charset).removeprefix(MARK).encode()


class _Enough(Exception):
    """Nothing more is wanted of a document, or it is one that is not read."""


def _read_xml(body: bytes, paths: Sequence[XmlPath]) -> Mapping[XmlPath, str]:
    """Return what stands at these places; nothing of what is no XML, or declares a type.

    `body` is in UTF-8, whatever it declares.
    Read as a stream, without a tree: however deep it is, only the way to the places is kept. What
    a document type declares may be a thousand times as large as the document.
    """
    reader = _XmlReader(paths)
    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler = reader.begin
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.hear
    parser.StartDoctypeDeclHandler = reader.refuse
    try:
        parser.Parse(body, True)  # noqa: FBT003 - expat's signature: there is no more
    except _Enough:
        pass
    except (expat.ExpatError, ValueError, LookupError):
        return {}
    return reader.found


class _XmlReader:
    """Hears the elements of a document in their order, and keeps the first value at each place."""

    def __init__(self, paths: Sequence[XmlPath]) -> None:
        self.found: dict[XmlPath, str] = {}
        self._wanted = frozenset(paths)
        self._longest = max(len(each.steps) for each in paths)
        self._depth = 0
        self._way: list[str] = []
        self._heard: dict[int, tuple[XmlPath, list[str]]] = {}

    def begin(self, name: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth > self._longest:
            return
        self._way.append(_local(name))
        steps = tuple(self._way)
        if (path := XmlPath(steps)) in self._wanted and path not in self.found:
            self._heard[self._depth] = (path, [])
        for attribute, value in attributes.items():
            self._keep(XmlPath(steps, _local(attribute)), value)

    def hear(self, text: str) -> None:
        heard = self._heard.get(self._depth)
        if heard is not None and len(heard[1]) < LONGEST_VALUE:
            heard[1].append(text[:_MOST_HEARD])

    def end(self, _name: str) -> None:
        if self._depth <= self._longest:
            self._way.pop()
        heard = self._heard.pop(self._depth, None)
        self._depth -= 1
        if heard is not None:
            self._keep(heard[0], "".join(heard[1]))

    def refuse(self, *_: Any) -> None:
        self.found.clear()
        raise _Enough

    def _keep(self, path: XmlPath, value: str) -> None:
        if path in self._wanted and path not in self.found and value.strip():
            self.found[path] = value
            if len(self.found) == len(self._wanted):
                raise _Enough


_MOST_HEARD = 4 * LONGEST_VALUE
"""Characters of one piece of text: blanks around a value are cut off later."""


def _local(name: str) -> str:
    return name.rpartition(":")[2]


_NUMBER = re.compile(r"[+-]?[0-9]{1,300}(\.[0-9]{1,300})?([eE][+-]?[0-9]{1,3})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?![0-9])")
_BEGINS = frozenset("+-0123456789")
"""How numbers and times begin: nearly all other texts are told apart by that alone."""


def comparable(text: str) -> float | None:
    """Return a number by which a value is compared in a range: the number it is, or its time.

    A time is in seconds since 1970; without an offset it is in UTC. None for any other text.
    """
    if text[:1] not in _BEGINS:
        return None
    if _NUMBER.fullmatch(text):
        number = float(text)
        return number if isfinite(number) else None
    time = _time(text)
    return None if time is None else _seconds(time)


def _time(text: str) -> datetime | None:
    if not _DATE.match(text):
        return None
    try:
        return parse_wire_time(text) or read_moment(text, datetime.min.replace(tzinfo=UTC))
    except NoTime:
        return None


def _seconds(time: datetime) -> float:
    return (time - EPOCH).total_seconds()


BETWEEN = ".."
"""What stands between the ends of a range; either end may be left out."""


class NoCondition(ValueError):
    """A condition on a field that cannot be meant; the words are a sentence."""


@dataclass(frozen=True, slots=True)
class FieldCondition:
    """A condition on a field, as it is written: a text, or two ends with `..` between them."""

    name: str
    text: str

    @property
    def key(self) -> str:
        """What it is called in addresses, in JSON and in the database."""
        return f"{PREFIX}{self.name}"

    @property
    def value(self) -> str:
        """The value that is looked for where it is no range, cut as values are."""
        return clean(self.text.strip(), LONGEST_VALUE).strip()

    @property
    def bounds(self) -> tuple[float | None, float | None] | None:
        """The ends of a range, both included; None if it is none. Raises NoCondition."""
        first, dots, last = (each.strip() for each in self.text.partition(BETWEEN))
        if not dots:
            return None
        lowest, highest = comparable(first), _last(last)
        if lowest is None and highest is None:
            return None
        for text, end in ((first, lowest), (last, highest)):
            if text and end is None:
                raise NoCondition(_HALF.format(self.name, text[:_SHOWN]))
        if lowest is not None and highest is not None:
            if _is_time(first) != _is_time(last):
                raise NoCondition(_MIXED.format(self.name))
            if lowest > highest:
                raise NoCondition(_TURNED.format(self.name))
        return lowest, highest

    @property
    def is_of_times(self) -> bool:
        """Whether the ends of a range are times: then no number lies between them."""
        first, _, last = (each.strip() for each in self.text.partition(BETWEEN))
        return _is_time(first or last)


TIMES_LIKE = "____-__-__%"
"""The pattern (LIKE) of a time, which no number has: both have their `comparable` in one column."""

_SHOWN = 40
_HALF = (
    "A range of {} has numbers or times at its ends, as in 10..20, 10.. or 2026-05-04..2026-05-05: "
    "{} is neither."
)
_MIXED = "A range of {} has two numbers or two times at its ends."
_TURNED = "The end of the range of {} lies before its beginning, so that nothing would match."
_EMPTY = "A condition on {} has a value."
_NO_NAME = (
    "The name of a field is a lower-case letter, then letters, digits, _ and -, up to 64 in all."
)
_UNKNOWN = "No field is called {}. Declared in search.fields: {}."
_NONE = "no field at all"


def _last(text: str) -> float | None:
    time = _time(text)
    return comparable(text) if time is None else _seconds(last_moment_of(time, text))


def _is_time(text: str) -> bool:
    return _time(text) is not None


def is_askable(name: str, value: str) -> bool:
    """Say whether a condition with this value finds it: one that reads as a range means others."""
    try:
        return FieldCondition(name, value).bounds is None
    except NoCondition:
        return False


FieldConditions = tuple[FieldCondition, ...]


def read_conditions(
    given: Iterable[tuple[str, str]], known: Sequence[str] | None = None
) -> FieldConditions:
    """Return the conditions on fields of these names and texts, in order of the names.

    With `known` a name that is none of them is refused. Raises NoCondition.
    """
    return tuple(sorted(_read(given, known), key=lambda each: each.name))


def _read(
    given: Iterable[tuple[str, str]], known: Sequence[str] | None
) -> Iterator[FieldCondition]:
    for name, text in given:
        if not is_name(name):
            raise NoCondition(_NO_NAME)
        if known is not None:
            check_name(name, known)
        condition = FieldCondition(name, text)
        if not condition.value:
            raise NoCondition(_EMPTY.format(name))
        _ = condition.bounds
        yield condition


def check_name(name: str, known: Sequence[str]) -> None:
    """Refuse the name of a field that is none of these, which are named. Raises NoCondition."""
    if name not in known:
        raise NoCondition(_UNKNOWN.format(name, ", ".join(known) or _NONE))


def conditions_in(parts: Mapping[str, object]) -> FieldConditions:
    """Return the conditions on fields among stored parts, which were checked once."""
    found = (
        FieldCondition(key.removeprefix(PREFIX), str(value))
        for key, value in parts.items()
        if key.startswith(PREFIX)
    )
    return tuple(sorted(found, key=lambda each: each.name))

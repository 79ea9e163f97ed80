"""What is searched by: the fields that `search.fields` declares, and what does not fit in them."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from retrier.domain.access import QueuePatterns
from retrier.domain.dialects.own import Place, Source
from retrier.domain.fields import (
    MOST_FIELDS,
    DeclaredField,
    XmlPath,
    is_name,
    read_xml_path,
    share_a_queue,
)
from retrier.settings.dialects import PROPERTIES, Clash
from retrier.settings.fields import QueueName, Section

_XML = "xml"
_PLACES = "header:NAME, property:NAME, body:/POINTER or xml:/PATH"
_POINTER = re.compile(r"(/([^~/]|~[01])*)+")


def _check_name(name: str) -> str:
    if not is_name(name):
        raise ValueError("must be a lower-case letter, then up to 63 letters, digits, - and _")
    return name


def _check_place(text: str) -> str:
    place, colon, name = text.partition(":")
    if place not in (Place.HEADER, Place.PROPERTY, Place.BODY, _XML) or not colon or not name:
        raise ValueError(f"must be {_PLACES}")
    if place == Place.BODY and not _POINTER.fullmatch(name):
        raise ValueError("must be a JSON pointer into the body, as in body:/order/id")
    if place == Place.PROPERTY and name not in PROPERTIES:
        raise ValueError(f"must be property: and one of {', '.join(sorted(PROPERTIES))}")
    if place == _XML and read_xml_path(name) is None:
        raise ValueError(
            "must be names of elements, as in xml:/order/customer/id or xml:/order/@id"
        )
    return text


def _check_queues(queues: tuple[str, ...]) -> tuple[str, ...]:
    if not queues:
        raise ValueError("must name a queue; left out, it is every queue")
    return queues


Queues = Annotated[tuple[QueueName, ...], AfterValidator(_check_queues)]


class FieldSection(Section):
    """A declared field: what it is called, where it stands, and on which queues."""

    name: Annotated[str, AfterValidator(_check_name)]
    place: Annotated[str, AfterValidator(_check_place)] = Field(alias="from")
    queues: Queues | None = None

    @property
    def declared(self) -> DeclaredField:
        """The same for ingestion."""
        return DeclaredField(name=self.name, source=self._source(), queues=self.queues)

    def _source(self) -> Source | XmlPath:
        place, _, name = self.place.partition(":")
        path = read_xml_path(name) if place == _XML else None
        return Source(Place(place), name) if path is None else path


def _check_count(fields: tuple[FieldSection, ...]) -> tuple[FieldSection, ...]:
    if len(fields) > MOST_FIELDS:
        raise ValueError(f"must be {MOST_FIELDS} fields at most: each is a row for each message")
    return fields


LARGEST_TEXT = 256 * 1024
"""Bytes of a body of which words are kept, at most."""


class FullText(Section):
    """Whether messages are found by the words in them, and how much of a body is read for it."""

    enabled: bool = False
    body_bytes: Annotated[int, Field(ge=0, le=LARGEST_TEXT)] = 16 * 1024


class Search(Section):
    """What failed messages are found by, beside what Retrier knows of each."""

    text: FullText = FullText()
    fields: Annotated[tuple[FieldSection, ...], AfterValidator(_check_count)] = ()

    @property
    def declared(self) -> tuple[DeclaredField, ...]:
        """The declared fields."""
        return tuple(each.declared for each in self.fields)


FIELD_KEYS = ("name", "from", "queues")


def find_field_clashes(tree: Mapping[str, object]) -> Iterator[Clash]:
    """Find fields of one name that are read on the same queue: one value would hide the other.

    It reads values that are not checked yet.
    """
    match tree:
        case {"search": {"fields": [*given]}}:
            pass
        case _:
            return
    fields = [each if isinstance(each, dict) else {} for each in given]
    for index, each in enumerate(fields):
        name = each.get("name")
        others = (other for other in fields[:index] if other.get("name") == name)
        if name is not None and any(
            share_a_queue(_queues(each.get("queues")), _queues(other.get("queues")))
            for other in others
        ):
            yield ("search", "fields", index, "name"), f"{name} is there twice for the same queues"


def _queues(value: object) -> QueuePatterns | None:
    return tuple(map(str, value)) if isinstance(value, list | tuple) else None

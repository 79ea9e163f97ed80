"""A dialect of an operator's own, made of settings: where each fact of a failure stands."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from functools import cache

from pydantic_core import from_json

from retrier.domain.dialects.dialect import (
    LARGEST_BODY,
    NOT_KNOWN,
    NOWHERE,
    Declared,
    FoundOn,
    Original,
    amqp_field,
    count,
)
from retrier.domain.failed_message import FailureDetails
from retrier.domain.headers import is_among
from retrier.domain.identity import computed_id
from retrier.domain.times import from_epoch, parse_iso_time, parse_wire_time
from retrier.domain.values import dataclass
from retrier.domain.wire import Properties


class Place(StrEnum):
    """Where a fact can stand; TEXT is the fact itself."""

    HEADER = "header"
    PROPERTY = "property"
    BODY = "body"
    TEXT = "text"


def _whole(text: str) -> str | None:
    return text


@dataclass(frozen=True, slots=True)
class Source:
    """Where a fact stands: a name or a JSON pointer there, and what is taken of the text.

    `find` returns the part that an expression finds, None if it finds none.
    """

    place: Place
    name: str
    find: Callable[[str], str | None] = _whole

    def read(self, properties: Properties, document: object) -> str | None:
        """Return the fact as text; None if it is not there."""
        text = self._whole(properties, document)
        return (self.find(text) or None) if text else None

    def _whole(self, properties: Properties, document: object) -> str | None:
        match self.place:
            case Place.HEADER:
                return properties.text(self.name)
            case Place.PROPERTY:
                return amqp_field(properties, self.name)
            case Place.BODY:
                return as_text(resolve(document, self.name))
            case Place.TEXT:
                return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnDialect:
    """Reads what the settings say. `when` has to be there; `sources` are by the fields they feed.

    `queue` is where it failed. `strip` are patterns of headers that no retry carries.
    """

    name: str
    when: Source
    sources: Mapping[str, Source] = field(default_factory=dict)
    strip: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        """By what it is recognised."""
        return self.when.name

    @property
    def reads_body(self) -> bool:
        """Always: what it reads is stored, for the settings may change."""
        return True

    @property
    def declared(self) -> Declared:
        """What the settings say."""
        return Declared(
            library=self.name,
            recognised_by=f"{self.when.place} `{self.when.name}`",
            feeds={name: f"{each.place} `{each.name}`" for name, each in self.sources.items()},
            removes=self.strip,
            comes_back="what your consumer does",
        )

    def recognises(self, properties: Properties, body: bytes = b"") -> bool:
        """Say whether what the settings name is there."""
        document = read_document(body) if self.when.place is Place.BODY else None
        return self.when.read(properties, document) is not None

    def read(
        self,
        properties: Properties,
        *,
        otherwise: str | None = None,
        body: bytes = b"",
        found_on: FoundOn = NOWHERE,  # noqa: ARG002 - the settings say where to look
    ) -> FailureDetails:
        """Read what is there; the rest is as if it had not been said."""
        in_body = any(each.place is Place.BODY for each in self.sources.values())
        document = read_document(body) if in_body else None
        told = {name: each.read(properties, document) for name, each in self.sources.items()}
        queue = told.get("queue") or otherwise or NOT_KNOWN
        time = told.get("time_of_failure")
        return FailureDetails(
            queue=queue,
            destination=queue,
            endpoint=told.get("endpoint"),
            message_type=told.get("message_type"),
            exception_type=told.get("exception_type"),
            exception_message=told.get("exception_message"),
            stack_trace=told.get("stack_trace"),
            failure_reason=told.get("failure_reason"),
            time_of_failure=parse_iso_time(time) or parse_wire_time(time) or _epoch(time),
            time_sent=from_epoch(properties.fields.get("timestamp")),
            attempts_reported=count(told.get("attempts_reported")),
            id_in_body=told.get("message_id"),
        )

    def message_id(self, properties: Properties) -> str | None:
        """Return AMQP's message id; `read` tells another one."""
        return amqp_field(properties, "message_id")

    def computed_id(self, message_id: str, endpoint: str) -> str:
        """Return the unique message id computed from message id and failing endpoint."""
        return computed_id(message_id, endpoint)

    def strips(self, header: str) -> bool:
        """Say whether the settings leave the header out of retries."""
        return is_among(header, self.strip)

    def unwrap(self, properties: Properties, body: bytes) -> Original | None:  # noqa: ARG002 - it wraps nothing
        """Return None: what came is the message itself."""
        return None


def resolve(document: object, pointer: str) -> object:
    """Return what a JSON pointer (RFC 6901) meets in a document; None if it meets nothing."""
    for step in _steps(pointer):
        if isinstance(document, dict):
            document = document.get(step)
        elif isinstance(document, list) and step.isascii() and step.isdigit():
            place = count(step)
            document = document[place] if place is not None and place < len(document) else None
        else:
            return None
    return document


@cache
def _steps(pointer: str) -> Sequence[str]:
    """Return the names that a pointer goes through; pointers are of the settings, so they are few."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def as_text(value: object) -> str | None:
    """Return a value of JSON as text; None for nothing."""
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def read_document(body: bytes) -> object:
    """Return the JSON of a body; None for anything else."""
    if len(body) > LARGEST_BODY:
        return None
    try:
        # In a third of the time of Python's own reader. It refuses more than that (lone surrogates,
        # 200 levels, UTF-16, a mark of the byte order), but never reads anything else.
        return from_json(body)
    except ValueError:
        pass
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


_MOST_DIGITS = 18


def _epoch(text: str | None) -> datetime | None:
    is_number = text is not None and text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return from_epoch(int(text)) if text and is_number else None

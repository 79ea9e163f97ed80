"""Formats of failures of an operator's own: `ingestion.dialects`, and what does not fit in them."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from retrier.domain.dialects import BUILT_IN
from retrier.domain.dialects.own import OwnDialect, Place, Source
from retrier.policy.patterns import Extract
from retrier.settings.fields import DroppedHeader, Section

_LONGEST_NAME = 32
"""Characters: the column."""
_PLACES = "header:NAME, property:NAME, body:/POINTER or text:VALUE"
PROPERTIES = frozenset(
    {"content_type", "content_encoding", "correlation_id", "reply_to", "message_id"}
    | {"timestamp", "type", "app_id", "user_id", "cluster_id"}
)
_MARKS = ("header", "property", "body")

Clash = tuple[tuple[int | str, ...], str]


def _check_name(name: str) -> str:
    if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
        raise ValueError(f"must be a name of 1 to {_LONGEST_NAME} characters")
    if name in BUILT_IN:
        raise ValueError("is the name of a format that Retrier knows by itself: choose another")
    return name


def _check_place(text: str) -> str:
    place, colon, name = text.partition(":")
    if place not in tuple(Place) or not colon or not name:
        raise ValueError(f"must be {_PLACES}")
    if place == Place.BODY and not name.startswith("/"):
        raise ValueError("must be a JSON pointer into the body, as in body:/order/id")
    if place == Place.PROPERTY and name not in PROPERTIES:
        raise ValueError(f"must be property: and one of {', '.join(sorted(PROPERTIES))}")
    return text


def _check_pattern(pattern: str) -> str:
    Extract(pattern)
    return pattern


def _read_source(value: object) -> object:
    return {"from": value} if isinstance(value, str) else value


class SourceSection(Section):
    """Where a fact stands, and which part of the text it is."""

    place: Annotated[str, AfterValidator(_check_place)] = Field(alias="from")
    pattern: Annotated[str, AfterValidator(_check_pattern)] | None = None

    @property
    def source(self) -> Source:
        """The same for the dialect."""
        place, _, name = self.place.partition(":")
        if self.pattern is None:
            return Source(Place(place), name)
        return Source(Place(place), name, Extract(self.pattern).find)


def _read_when(value: object) -> object:
    """Read `{header: NAME}` as the source that it names."""
    match value:
        case {**given} if len(named := [each for each in _MARKS if each in given]) == 1:
            name = given.pop(named[0])
            return {"from": f"{named[0]}:{name}", **given}
        case {**given} if not [each for each in _MARKS if each in given] and "from" not in given:
            raise ValueError("must name a header, a property or a body, as in {header: X-Error}")
        case _:
            return value


SourceField = Annotated[SourceSection, BeforeValidator(_read_source)]
WhenField = Annotated[SourceSection, BeforeValidator(_read_when)]


class DialectSection(Section):
    """One format: by what it is recognised, where each fact stands, what no retry carries."""

    name: Annotated[str, AfterValidator(_check_name)]
    when: WhenField
    queue: SourceField | None = None
    endpoint: SourceField | None = None
    exception_type: SourceField | None = None
    message: SourceField | None = None
    stack: SourceField | None = None
    reason: SourceField | None = None
    time: SourceField | None = None
    attempts: SourceField | None = None
    message_type: SourceField | None = None
    message_id: SourceField | None = None
    strip: tuple[DroppedHeader, ...] = ()

    @property
    def dialect(self) -> OwnDialect:
        """The dialect that reads it."""
        sections = {field: getattr(self, key) for key, field in FEEDS.items()}
        return OwnDialect(
            name=self.name,
            when=self.when.source,
            sources={name: each.source for name, each in sections.items() if each is not None},
            strip=self.strip,
        )


FEEDS: Mapping[str, str] = MappingProxyType(
    {
        "queue": "queue",
        "endpoint": "endpoint",
        "exception_type": "exception_type",
        "message": "exception_message",
        "stack": "stack_trace",
        "reason": "failure_reason",
        "time": "time_of_failure",
        "attempts": "attempts_reported",
        "message_type": "message_type",
        "message_id": "message_id",
    }
)
"""Keys of the settings, and what each feeds."""


def find_dialect_clashes(tree: Mapping[str, object]) -> Iterator[Clash]:
    """Find formats with one name, and queues that name a format that nobody knows.

    It reads values that are not checked yet.
    """
    ingestion = tree.get("ingestion")
    ingestion = ingestion if isinstance(ingestion, dict) else {}
    own = [each.get("name") for each in _tables(ingestion.get("dialects"))]
    for index, name in enumerate(own):
        if name in own[:index]:
            yield ("ingestion", "dialects", index, "name"), f"{name} is there twice"
    known = [*BUILT_IN, *map(str, own)]
    for index, queue in enumerate(_tables(ingestion.get("error_queues"))):
        wanted = queue.get("dialect")
        if isinstance(wanted, str) and wanted not in known:
            place = ("ingestion", "error_queues", index, "dialect")
            yield place, f"must be one of {', '.join(known)}, is {wanted}"


def list_dialect_fields(place: Sequence[int | str]) -> list[str]:
    """Return the keys that are known at a place below `ingestion.dialects`."""
    match place:
        case [int(), "when", *_]:
            return [*_MARKS, "pattern"]
        case [int(), str(), *_]:
            return ["from", "pattern"]
        case _:
            return list(DialectSection.model_fields)


def _tables(value: object) -> list[Mapping[Any, Any]]:
    if not isinstance(value, list | tuple):
        return []
    return [each if isinstance(each, dict) else {} for each in value]

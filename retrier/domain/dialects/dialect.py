"""What a dialect is: a set of headers that say that a message failed, where and why."""

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from typing import ClassVar, Protocol

from retrier.domain.failed_message import FailureDetails
from retrier.domain.identity import computed_id
from retrier.domain.values import dataclass
from retrier.domain.wire import Properties

LARGEST_COUNT = 2**31 - 1
LARGEST_BODY = 1024 * 1024
"""Bytes. Of a larger body nothing is read."""

NOT_KNOWN = ""
"""The queue of a failure, and the destination of its retry, where nothing names them."""

LOST_NEXT = "lost if it fails again"
"""The reason of a failure whose library drops the next one, which a retry cannot prevent."""


def have_none(_queue: str) -> bool:
    """Take it that the broker has no queue of that name."""
    return False


@dataclass(frozen=True, slots=True)
class FoundOn:
    """The error queue that a message was found on, and the key with which an exchange routed it there.

    The key is empty if it was sent to the queue by its name. `exists` says of a queue whether the
    broker has it.
    """

    queue: str = ""
    routing_key: str = ""
    exists: Callable[[str], bool] = have_none

    @property
    def routed_as(self) -> str | None:
        """The queue of which the routing key is the name; None if there is none."""
        key = self.routing_key
        return key if key and key != self.queue and self.exists(key) else None


NOWHERE = FoundOn()


@dataclass(frozen=True, slots=True)
class Unintelligible:
    """The headers lack something that is needed; the reason names it."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What a dialect is, for docs/dialects.md and for what is left out and compared.

    `feeds` says by field of FailureDetails where it stands. `removes` are patterns of headers that
    no retry carries, whatever dialect read the message; `removes_own` those that other programs
    use as well, so that they go only if this dialect read it. `varies` are headers that change
    when the message fails again, beside those. `comes_back` says what the library does with the
    headers of a retry that fails again.
    """

    library: str
    recognised_by: str
    feeds: Mapping[str, str]
    removes: tuple[str, ...] = ()
    removes_own: tuple[str, ...] = ()
    varies: tuple[str, ...] = ()
    comes_back: str


@dataclass(frozen=True, slots=True)
class Original:
    """A message that stands inside an error envelope: that is what goes back.

    `keeps_properties` says that only the body wraps it: headers and properties are those that came.
    """

    body: bytes
    headers: Mapping[str, object] = field(default_factory=dict)
    fields: Mapping[str, str | int] = field(default_factory=dict)
    keeps_properties: bool = field(default=False, kw_only=True)

    @property
    def properties(self) -> Properties:
        """Its properties as those of any other message."""
        return Properties(headers=self.headers, fields=self.fields)


class Dialect(Protocol):
    """Reads one way of writing failure headers, and knows which of them a retry must not carry."""

    @property
    def name(self) -> str:
        """What the dialect is called in the settings and in the database."""
        ...

    @property
    def mark(self) -> str:
        """The header by which it is recognised: it says where the message failed."""
        ...

    @property
    def reads_body(self) -> bool:
        """Whether part of what it tells is in the body: that is read once, when it is stored."""
        ...

    @property
    def declared(self) -> Declared:
        """What it reads, and what a retry leaves out."""
        ...

    def recognises(self, properties: Properties, body: bytes = b"") -> bool:
        """Say whether the message is written in this dialect."""
        ...

    def read(
        self,
        properties: Properties,
        *,
        otherwise: str | None = None,
        body: bytes = b"",
        found_on: FoundOn = NOWHERE,
    ) -> FailureDetails | Unintelligible:
        """Read the headers; `otherwise` is the queue it failed on, used if they name none.

        `body` is for a dialect that `reads_body`, and empty where only the headers are at hand.
        `found_on` is the error queue: its name, or how it came there, may say what no header says. The queue of the result
        is NOT_KNOWN where nothing names one.
        """
        ...

    def message_id(self, properties: Properties) -> str | None:
        """Return the id that the sender gave the message."""
        ...

    def computed_id(self, message_id: str, endpoint: str) -> str:
        """Return the unique message id computed from message id and failing endpoint."""
        ...

    def strips(self, header: str) -> bool:
        """Say whether a retry must not carry this header, whatever dialect read the message."""
        ...

    def unwrap(self, properties: Properties, body: bytes) -> Original | None:
        """Return the message inside an error envelope; None if this is none."""
        ...


class Library:
    """What the dialects of libraries have in common. `declared` says the rest."""

    name: ClassVar[str]
    mark: ClassVar[str]
    reads_body: ClassVar[bool] = False
    declared: ClassVar[Declared]

    def message_id(self, properties: Properties) -> str | None:
        """Return AMQP's message id."""
        return amqp_field(properties, "message_id")

    def computed_id(self, message_id: str, endpoint: str) -> str:
        """Return the unique message id computed from message id and failing endpoint."""
        return computed_id(message_id, endpoint)

    def strips(self, header: str) -> bool:
        """Say whether the library wrote the header when the message failed."""
        return any(fnmatchcase(header, each) for each in self.declared.removes)

    def unwrap(self, properties: Properties, body: bytes) -> Original | None:  # noqa: ARG002 - most wrap nothing
        """Return None: what came is the message itself."""
        return None


def table_of(body: bytes | str, most: int = LARGEST_BODY) -> Mapping[str, object]:
    """Return the JSON object of a text; an empty one for anything else, however deep it nests."""
    if len(body) > most:
        return {}
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        return {}
    return found if isinstance(found, dict) else {}


def is_text(value: object) -> str | None:
    """Return a text that is not empty; None for anything else."""
    return value if isinstance(value, str) and value else None


def amqp_field(properties: Properties, name: str) -> str | None:
    """Return an AMQP property as text; None when it is absent or empty."""
    value = properties.fields.get(name)
    return str(value) if value not in (None, "") else None


def count(value: object) -> int | None:
    """Return a count that a header gives as a number or as digits; None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[: len(str(LARGEST_COUNT)) + 1])
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= LARGEST_COUNT else None

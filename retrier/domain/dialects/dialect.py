"""What a dialect is: a set of headers that say that a message failed, where and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from retrier.domain.failed_message import FailureDetails
from retrier.domain.wire import Properties

LARGEST_COUNT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Unintelligible:
    """The headers lack something that is needed; the reason names it."""

    reason: str


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

    def recognises(self, headers: Mapping[str, object]) -> bool:
        """Say whether the headers are written in this dialect."""
        ...

    def read(
        self, properties: Properties, *, otherwise: str | None = None, body: bytes = b""
    ) -> FailureDetails | Unintelligible:
        """Read the headers; `otherwise` is the queue it failed on, used if they name none.

        `body` is for a dialect that `reads_body`, and empty where only the headers are at hand.
        """
        ...

    def message_id(self, properties: Properties) -> str | None:
        """Return the id that the sender gave the message."""
        ...

    def computed_id(self, message_id: str, endpoint: str) -> str:
        """Return the unique message id computed from message id and failing endpoint."""
        ...

    def strips(self, header: str) -> bool:
        """Say whether a retry must not carry this header."""
        ...


def field(properties: Properties, name: str) -> str | None:
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

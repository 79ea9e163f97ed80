"""What a handler may say, and what became of a message."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class InvalidMessage(Exception):
    """Raised by a handler: the message can never be handled. It is not tried again."""

    def __init__(self, details: object = "") -> None:
        super().__init__(str(details))
        self.details = details


class Transient(Exception):
    """Raised by a handler: something it needs is away. The message waits, for ever, uncounted."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Returned by a handler: the work was done, and its result is a failure."""

    details: Any = None


class TaskStatus(StrEnum):
    """The status of a result on the output queue."""

    SUCCESS = "RESULT_SUCCESS"
    FAILURE = "RESULT_FAILURE"
    EXCEPTION = "RESULT_EXCEPTION"
    INVALID = "INVALID_TASK"


class Reason(StrEnum):
    """Why a message goes to the error queue: the header `Retrier.Reason`.

    An ordinary exception writes none: Retrier derives the reason from its type.
    """

    EXCEPTION = "handler_exception"
    INVALID = "invalid_message"
    POISON = "poison_message"
    TIMEOUT = "timeout_exceeded"


@dataclass(frozen=True, slots=True)
class Done:
    """The handler returned. `result` is JSON; `by_own_account` says that it returned a Failed.

    `untold` says why its result cannot be told: the work is done all the same, and never done again.
    """

    result: bytes = b"null"
    by_own_account: bool = field(default=False, kw_only=True)
    attempts: int = field(default=1, kw_only=True)
    untold: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What a failure is told with, on the error queue and on the output queue."""

    reason: Reason
    type: str
    message: str
    stack_trace: str = ""
    steps: tuple[str, ...] = ()
    """What the exception says of completed steps."""


@dataclass(frozen=True, slots=True)
class Broken:
    """The message goes to the error queue."""

    problem: Problem
    attempts: int


@dataclass(frozen=True, slots=True)
class Postponed:
    """Something was away (`why` is the name of the exception): the message is tried later."""

    why: str


@dataclass(frozen=True, slots=True)
class SecondCopy:
    """The retry was handled before: this is the second copy of it. `result` is the first one's."""

    result: bytes | None


Ended = Done | Broken | Postponed | SecondCopy

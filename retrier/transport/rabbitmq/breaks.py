"""What breaks a connection, and why a declaration is refused, in words for people.

Only the refusal of a declaration says with which arguments a queue was declared: the first that
differs. The words are cut off at 255 bytes, so that the value may be missing.
"""

import re
import struct
from dataclasses import dataclass

from amqp.exceptions import AMQPError, ConsumerCancelled

from retrier.errors import BrokerUnavailable
from retrier.transport.rabbitmq.library import NoAnswer

INTERNAL_ERROR = 541

# Everything py-amqp lets out when a connection breaks or says something it cannot parse.
BREAKS = (
    AMQPError,
    OSError,
    ValueError,
    ArithmeticError,
    LookupError,
    AttributeError,
    TypeError,
    struct.error,
)


class Refusal(BrokerUnavailable):
    """The broker closed the connection, and said why."""

    def __init__(self, message: str, code: int, words: str) -> None:
        super().__init__(message)
        self.code = code
        self.words = words


class ChannelLost(Refusal):
    """The broker closed the channel alone; we drop the connection with it."""


def is_silence(error: Exception) -> bool:
    """Say whether a queue, and not the broker, has failed to answer.

    The broker may lose its patience with the queue before we do.
    """
    internal = isinstance(error, AMQPError) and error.reply_code == INTERNAL_ERROR
    return internal or isinstance(error, NoAnswer)


def words_of(error: Exception) -> str:
    """Say what has happened: the broker's words, if there are any."""
    match error:
        case ConsumerCancelled():
            return "the queue was deleted, or the broker cancelled its consumer"
        case AMQPError(reply_code=code, reply_text=str(text)):
            return f"{code} {text}" if code else text
        case OSError(strerror=str(text)):
            return text
        case _:
            return str(error) or type(error).__name__


_ARGUMENT = re.compile(r"inequivalent arg '([^']+)'")
_VALUE = re.compile(r"current is the value '(.*)' of type '(\w+)'", re.DOTALL)
_NUMBERS = frozenset({"byte", "short", "signedint", "long", "unsignedbyte", "unsignedint"})

Value = int | str | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """An argument of a queue. `value` is None where it is not there or was not told.

    `argument` is empty where something else was refused than an argument.
    """

    argument: str
    value: Value | None


def read_difference(words: str) -> Difference:
    """Take the broker's words apart."""
    argument, value = _ARGUMENT.search(words), _VALUE.search(words)
    return Difference(
        argument=argument[1] if argument else "",
        value=_read(value[1], value[2]) if value else None,
    )


def _read(content: str, kind: str) -> Value | None:
    if kind == "longstr":
        return content
    if kind == "bool":
        return content == "true"
    return int(content) if kind in _NUMBERS else None

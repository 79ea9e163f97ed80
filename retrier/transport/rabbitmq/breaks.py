"""What breaks a connection, and why a declaration is refused, in words for people.

Only the refusal of a declaration shows arguments of an existing queue: it names the first one that
differs. The broker cuts its text off at 255 bytes, so the value may be missing.
"""

import re
import struct
from dataclasses import dataclass

from amqp.exceptions import AMQPError, ChannelError, ConsumerCancelled

from retrier.errors import BrokerUnavailable, QueueSilent
from retrier.transport.rabbitmq.address import Address
from retrier.transport.rabbitmq.library import NoAnswer

UNREACHABLE = "cannot reach the broker at "
ACCESS_REFUSED = 403
INTERNAL_ERROR = 541
STREAM_TYPE = "rabbit_stream_queue"
A_STREAM = (
    "it is a stream, which keeps what is taken off it: nothing of it can be ingested. "
    "List a queue, of type quorum or classic, in its place."
)

# All that py-amqp raises when a connection breaks, or sends something it cannot parse.
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
    """The broker closed only the channel; BrokerConnection drops the connection as well."""


def is_silence(error: Exception) -> bool:
    """Return whether a queue, and not the broker, has failed to answer.

    The broker may give the queue up before we do, with an internal error (541).
    """
    internal = isinstance(error, AMQPError) and error.reply_code == INTERNAL_ERROR
    return internal or isinstance(error, NoAnswer)


def translate(error: Exception, address: Address, queue: str | None = None) -> BrokerUnavailable:
    """Return the error to raise for one that broke a connection, in a question about `queue`."""
    if queue is not None and is_silence(error):
        return QueueSilent(queue, words_of(error))
    if isinstance(error, AMQPError) and error.reply_code:
        kind = ChannelLost if isinstance(error, ChannelError) else Refusal
        words = words_of(error)
        return kind(f"the broker at {address} refused: {words}", error.reply_code, words)
    return BrokerUnavailable(f"{UNREACHABLE}{address}: {words_of(error)}")


def words_of(error: Exception) -> str:
    """Return a description of the error: the broker's own text, if there is any."""
    match error:
        case ConsumerCancelled():
            return "the queue was deleted, or the broker cancelled its consumer"
        case AMQPError(reply_code=code, reply_text=str(text)):
            return f"{code} {text}" if code else text
        case OSError(strerror=str(text)):
            return text
        case _:
            return str(error) or type(error).__name__


def is_of_access(refusal: Refusal | None) -> bool:
    """Return whether a right is missing."""
    return refusal is not None and refusal.code == ACCESS_REFUSED


def is_of_a_stream(refusal: Refusal | None) -> bool:
    """Return whether a stream has refused the consumer: it names its type."""
    return refusal is not None and STREAM_TYPE in refusal.words


def name_missing_right(user: str, right: str, queue: str) -> str:
    """Say which right (`configure` or `read`) the user needs on the queue."""
    return f"the user {user} may not {right} the queue {queue}: grant it `{right}` on that queue"


_ARGUMENT = re.compile(r"inequivalent arg '([^']+)'")
_VALUE = re.compile(r"current is the value '(.*)' of type '(\w+)'", re.DOTALL)
_FLAG = re.compile(r"current is '(true|false)'")
_GIVEN = re.compile(r"current is (none|the value '|')")
_NUMBERS = frozenset({"byte", "short", "signedint", "long", "unsignedbyte", "unsignedint"})

Value = int | str | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """An argument in which a queue differs from its declaration, with its value in the queue.

    `value` is None if absent or not shown. `given` says whether the queue has the argument, which
    may be known of a value that is cut off; None if it is not shown. `argument` is empty if the
    refusal names none.
    """

    argument: str
    value: Value | None
    given: bool | None


def read_difference(words: str) -> Difference:
    """Read the difference from the text of a refusal."""
    argument, given = _ARGUMENT.search(words), _GIVEN.search(words)
    return Difference(
        argument=argument[1] if argument else "",
        value=_find_value(words),
        given=given[1] != "none" if given else None,
    )


def _find_value(words: str) -> Value | None:
    if flag := _FLAG.search(words):
        return flag[1] == "true"
    value = _VALUE.search(words)
    return _read(value[1], value[2]) if value else None


def _read(content: str, kind: str) -> Value | None:
    if kind == "longstr":
        return content
    if kind == "bool":
        return content == "true"
    return int(content) if kind in _NUMBERS else None

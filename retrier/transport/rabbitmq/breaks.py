"""What breaks a connection, in words for people."""

import struct

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

"""Which errors of a connection tell of a queue, and not of the broker."""

import pytest
from amqp.exceptions import ConnectionForced, InternalError, NotFound

from retrier.transport.rabbitmq.connection import QueueDifference, is_silence, read_difference
from retrier.transport.rabbitmq.library import NoAnswer


@pytest.mark.parametrize(
    "error", [NoAnswer("nothing came for 10 s"), InternalError("timed out consuming")], ids=repr
)
def test_a_queue_is_silent_for_us_or_for_the_broker_itself(error: Exception) -> None:
    assert is_silence(error)


@pytest.mark.parametrize(
    "error",
    [ConnectionForced("Too many heartbeats missed"), NotFound("no queue"), TimeoutError()],
    ids=repr,
)
def test_a_lost_connection_or_a_refusal_is_no_silence(error: Exception) -> None:
    assert not is_silence(error)


DIFFERENCES = {
    "'x-expires' for queue 'a': received none but current is the value '7' of type 'signedint'": (
        QueueDifference(argument="x-expires", value=7, given=True)
    ),
    "'x-dead-letter-exchange' for queue 'a': received '0' but current is 'some.dlx'": (
        QueueDifference(argument="x-dead-letter-exchange", value=None, given=True)
    ),
    "'x-dead-letter-exchange' for queue 'a': received the value '0' but current is none": (
        QueueDifference(argument="x-dead-letter-exchange", value=None, given=False)
    ),
    "'durable' for queue 'a': received 'true' but current is 'false'": (
        QueueDifference(argument="durable", value=False, given=True)
    ),
    "'x-dead-letter-exchange' for queue 'a name that is so long that nothing": (
        QueueDifference(argument="x-dead-letter-exchange", value=None, given=None)
    ),
}


@pytest.mark.parametrize(("words", "found"), DIFFERENCES.items(), ids=str)
def test_a_refusal_reveals_an_argument_as_far_as_it_is_shown(
    words: str, found: QueueDifference
) -> None:
    assert read_difference(f"PRECONDITION_FAILED - inequivalent arg {words}") == found

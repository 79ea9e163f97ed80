"""Which errors of a connection tell of a queue, and not of the broker."""

import pytest
from amqp.exceptions import ConnectionForced, InternalError, NotFound

from retrier.transport.rabbitmq.breaks import is_silence
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

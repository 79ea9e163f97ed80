"""When a broker that is there has left a question without an answer for too long."""

import pytest

from retrier.transport.rabbitmq.library import Silence
from tests.support.frozen_clock import FrozenClock

HEARTBEAT = 5.0


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def silence(clock: FrozenClock) -> Silence:
    return Silence(HEARTBEAT, clock.monotonic)


def hear_every(seconds: float, times: int, silence: Silence, clock: FrozenClock) -> None:
    for _ in range(times):
        clock.advance(seconds)
        silence.hear()


def test_lasts_while_only_heartbeats_come(silence: Silence, clock: FrozenClock) -> None:
    silence.begin()

    hear_every(2.5, 4, silence, clock)

    assert silence.seconds == 10


def test_begins_with_the_question(silence: Silence, clock: FrozenClock) -> None:
    hear_every(2.5, 40, silence, clock)

    silence.begin()
    clock.advance(2)

    assert silence.seconds == 2


def test_of_a_broker_that_is_not_heard_either_is_none(silence: Silence, clock: FrozenClock) -> None:
    silence.begin()

    clock.advance(HEARTBEAT + 1)

    assert silence.seconds == 0


def test_begins_anew_when_a_broker_that_was_frozen_is_heard_again(
    silence: Silence, clock: FrozenClock
) -> None:
    silence.begin()
    clock.advance(HEARTBEAT + 1)

    silence.hear()
    clock.advance(1)

    assert silence.seconds == 1

"""When the broker may have given a connection up, and with it what it had sent there."""

import pytest

from retrier.transport.rabbitmq.library import SignsOfLife
from tests.support.frozen_clock import FrozenClock

HEARTBEAT = 5.0
KEPT, GIVEN_UP = 9.0, 10.0
"""Seconds of silence: RabbitMQ gives a connection up after 10 to 15."""


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def signs(clock: FrozenClock) -> SignsOfLife:
    return SignsOfLife(HEARTBEAT, clock.monotonic)


def test_suffice_for_almost_two_heartbeats(signs: SignsOfLife, clock: FrozenClock) -> None:
    clock.advance(KEPT)
    assert signs.suffice
    clock.advance(GIVEN_UP - KEPT)
    assert not signs.suffice


def test_suffice_while_something_is_sent(signs: SignsOfLife, clock: FrozenClock) -> None:
    for _ in range(5):
        clock.advance(KEPT)
        signs.sent(clock.monotonic())

    assert signs.suffice


def test_what_is_sent_after_a_gap_is_no_sign(signs: SignsOfLife, clock: FrozenClock) -> None:
    clock.advance(GIVEN_UP)

    signs.sent(clock.monotonic())

    assert not signs.suffice


def test_what_was_sent_too_slowly_is_no_sign(signs: SignsOfLife, clock: FrozenClock) -> None:
    # Given a process that is frozen after it has decided to send, and before it does
    clock.advance(KEPT)
    began = clock.monotonic()
    clock.advance(GIVEN_UP - KEPT)

    signs.sent(began)

    assert not signs.suffice


def test_count_from_when_the_sending_began(signs: SignsOfLife, clock: FrozenClock) -> None:
    began = clock.monotonic()
    clock.advance(KEPT)
    signs.sent(began)

    clock.advance(GIVEN_UP - KEPT)

    assert not signs.suffice


def test_an_answer_is_one_after_any_gap(signs: SignsOfLife, clock: FrozenClock) -> None:
    clock.advance(GIVEN_UP)

    signs.answered(clock.monotonic())

    assert signs.suffice


def test_an_answer_counts_from_its_question(signs: SignsOfLife, clock: FrozenClock) -> None:
    asked = clock.monotonic()
    clock.advance(GIVEN_UP)

    signs.answered(asked)

    assert not signs.suffice


def test_an_answer_takes_nothing_back(signs: SignsOfLife, clock: FrozenClock) -> None:
    # Given a question during which heartbeats were sent
    asked = clock.monotonic()
    clock.advance(KEPT)
    signs.sent(clock.monotonic())

    signs.answered(asked)

    clock.advance(KEPT)
    assert signs.suffice


def test_without_heartbeats_no_silence_is_too_long(clock: FrozenClock) -> None:
    signs = SignsOfLife(0, clock.monotonic)

    clock.advance(86_400)

    assert signs.suffice

"""When the breaker of a worker opens, tries one message, and closes."""

import pytest

from retrier.worker.breaker import Breaker, Circuit, State

BREAKER = Breaker(window=4, threshold=0.5, cooldown=30)


def circuit_after(outcomes: str, breaker: Breaker | None = BREAKER) -> Circuit:
    """Return the circuit after these outcomes: F is a failure."""
    circuit = Circuit(breaker)
    for outcome in outcomes:
        circuit.note(0, failed=outcome == "F")
    return circuit


def test_the_defaults_are_half_of_the_last_twenty() -> None:
    assert (Breaker().window, Breaker().threshold, Breaker().cooldown) == (20, 0.5, 30)


def test_it_opens_when_half_of_the_last_messages_failed() -> None:
    circuit = circuit_after(".F.F")

    assert circuit.state is State.OPEN
    assert circuit.why == "2 of the last 4 messages failed; one is tried after 30 s"


def test_it_stays_closed_below_its_threshold() -> None:
    assert circuit_after(".F..").state is State.CLOSED


def test_it_stays_closed_until_there_are_as_many_as_its_window() -> None:
    assert circuit_after("FFF").state is State.CLOSED


def test_what_is_older_than_its_window_is_forgotten() -> None:
    assert circuit_after("F...F..").state is State.CLOSED


def test_nothing_is_taken_before_its_time_is_over_and_then_one_is_tried() -> None:
    circuit = circuit_after("FFFF")

    assert circuit.check(29.9)
    assert not circuit.check(30)
    assert circuit.state is State.HALF_OPEN


def test_what_was_begun_before_it_opened_changes_nothing() -> None:
    circuit = circuit_after("FFFF")

    assert not circuit.note(1, failed=False)
    assert circuit.state is State.OPEN


def test_it_closes_when_the_message_that_is_tried_succeeds_and_begins_anew() -> None:
    circuit = circuit_after("FFFF")
    circuit.check(30)

    assert circuit.note(31, failed=False)
    assert circuit.state is State.CLOSED
    assert not circuit.note(32, failed=True)


def test_it_opens_again_when_that_message_fails() -> None:
    circuit = circuit_after("FFFF")
    circuit.check(30)

    assert circuit.note(31, failed=True)
    assert circuit.why == "the message that was tried failed; one is tried after 30 s"
    assert circuit.check(60.9)
    assert not circuit.check(61)


def test_without_a_breaker_it_never_opens() -> None:
    circuit = circuit_after("F" * 100, breaker=None)

    assert circuit.state is State.CLOSED


@pytest.mark.parametrize(
    ("breaker", "problem"),
    [
        (Breaker(window=0), "the window of the breaker must be at least 1, not 0"),
        (
            Breaker(threshold=50),
            "the threshold of the breaker must be above 0, at most 1, not 50",
        ),
        (Breaker(cooldown=0), "the cooldown of the breaker must be more than 0 seconds, not 0"),
    ],
)
def test_what_cannot_be_is_said(breaker: Breaker, problem: str) -> None:
    assert list(breaker.find_problems()) == [problem]

"""How long a message waits after its nth failure."""

from datetime import timedelta

import pytest

from retrier.policy.delays import (
    LONGEST,
    PRESETS,
    Additive,
    Backoff,
    DelayRange,
    Exponential,
    Fixed,
    Jitter,
    Linear,
    ListedDelays,
    Spread,
    delay_after,
    range_of,
    spread,
)
from retrier.policy.policy_set import Match, Rule

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def seconds_of(backoff: Backoff, failures: int) -> list[float]:
    return [delay_after(backoff, each).total_seconds() for each in range(1, failures + 1)]


def test_exponential_multiplies_by_its_factor() -> None:
    assert seconds_of(Exponential(first=SECOND, factor=3), 4) == [1, 3, 9, 27]


def test_exponential_stays_at_its_cap() -> None:
    assert seconds_of(Exponential(first=SECOND, cap=5 * SECOND), 5) == [1, 2, 4, 5, 5]


def test_linear_adds_its_step_up_to_its_cap() -> None:
    backoff = Linear(first=SECOND, step=2 * SECOND, cap=6 * SECOND)

    assert seconds_of(backoff, 4) == [1, 3, 5, 6]


def test_fixed_is_always_the_same() -> None:
    assert seconds_of(Fixed(first=7 * SECOND), 3) == [7, 7, 7]


def test_a_list_ends_with_its_last() -> None:
    assert seconds_of(ListedDelays(delays=(SECOND, HOUR)), 4) == [1, 3600, 3600, 3600]


@pytest.mark.parametrize(
    "backoff", [Exponential(first=SECOND), Linear(first=SECOND, step=HOUR), Exponential(first=HOUR)]
)
def test_no_number_of_failures_is_too_large(backoff: Backoff) -> None:
    assert delay_after(backoff, 10**9) == LONGEST


def test_a_factor_of_one_never_grows() -> None:
    assert delay_after(Exponential(first=SECOND, factor=1), 10**9) == SECOND


@pytest.mark.parametrize(
    ("jitter", "shortest", "longest"),
    [
        (Spread.NONE, 10, 10),
        (Spread.FULL, 0, 10),
        (Spread.EQUAL, 5, 10),
        (Additive(most=3 * SECOND), 10, 13),
    ],
)
def test_jitter_makes_a_range_of_a_delay(jitter: Jitter, shortest: int, longest: int) -> None:
    found = range_of(Fixed(first=10 * SECOND), jitter, 1)

    assert found == DelayRange(shortest=shortest * SECOND, longest=longest * SECOND)


def test_what_is_added_may_exceed_the_cap() -> None:
    backoff = Exponential(first=SECOND, cap=SECOND)

    assert range_of(backoff, Additive(most=HOUR), 9).longest == SECOND + HOUR


@pytest.mark.parametrize(("rolled", "seconds"), [(0.0, 10), (0.5, 15), (0.999, 19.99)])
def test_the_dice_say_where_in_the_range(rolled: float, seconds: float) -> None:
    range_ = DelayRange(shortest=10 * SECOND, longest=20 * SECOND)

    assert spread(range_, lambda: rolled) == timedelta(seconds=seconds)


def make_rule(name: str) -> Rule:
    preset = PRESETS[name]
    assert preset.backoff is not None
    assert preset.attempts is not None
    return Rule(
        name=name,
        match=Match(),
        attempts=preset.attempts,
        backoff=preset.backoff,
        jitter=preset.jitter,
    )


def test_the_preset_outbox_doubles_a_minute_up_to_an_hour() -> None:
    minutes = [each.shortest / MINUTE for each in make_rule("outbox").delays()]

    assert minutes == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_the_preset_gateway_retries_twice_with_up_to_5_seconds_more() -> None:
    assert make_rule("gateway").delays() == [
        DelayRange(shortest=5 * SECOND, longest=10 * SECOND),
        DelayRange(shortest=10 * SECOND, longest=15 * SECOND),
    ]


@pytest.mark.parametrize("attempts", [0, 1])
def test_a_rule_of_no_or_one_attempt_makes_no_retry(attempts: int) -> None:
    rule = Rule(name="a", match=Match(), attempts=attempts, backoff=Fixed(first=SECOND))

    assert rule.delays() == []

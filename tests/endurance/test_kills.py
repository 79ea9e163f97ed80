"""The short form of the endurance run; the account of a run, where it is easy to be wrong."""

import pytest

from tests.endurance.account import Kill, attribute, find_lost
from tests.endurance.kills import Plan, endure
from tests.endurance.report import report, tell

SHORT = Plan(messages=400, kills=4, seed=4)


@pytest.mark.journey
@pytest.mark.rabbitmq
@pytest.mark.postgres
def test_random_kills_lose_nothing_and_double_only_what_was_in_doubt(
    amqp_url: str, postgres_url: str
) -> None:
    """Kill a process four times; some pending retries must have been asked for again."""
    account = endure(SHORT, amqp_url, postgres_url)

    tell(*report(account))
    assert account.violations == []
    assert account.again > 0
    assert len(account.kills) == SHORT.kills


def kill(*in_doubt: str) -> Kill:
    """Make a kill at which these retries were in doubt."""
    return Kill(number=1, after=1.0, in_doubt=frozenset(in_doubt), stored=0)


def test_a_second_copy_belongs_to_the_kill_at_which_it_was_in_doubt() -> None:
    """Give it to the second of three kills, and nothing to the others."""
    kills = [kill("a"), kill("b"), kill("c")]

    assert attribute({"a": 1, "b": 2}, kills) == []

    assert [each.doubled for each in kills] == [set(), {"b"}, set()]


def test_a_second_copy_that_was_never_in_doubt_is_not_explained() -> None:
    """Let another retry be in doubt at the only kill."""
    assert attribute({"a": 2}, [kill("b")]) == ["a"]


def test_one_kill_explains_one_copy_of_a_retry() -> None:
    """Let three copies come of what was in doubt once: the third is unexplained."""
    assert attribute({"a": 3}, [kill("a")]) == ["a"]


@pytest.mark.parametrize(
    ("stored", "given_out", "seen", "lost"),
    [
        (["m"], ["r"], {"r": "m"}, set()),
        ([], ["r"], {"r": "m"}, {"m"}),
        (["m"], [], {}, {"m"}),
        (["m"], ["r", "s"], {"r": "m"}, {"s"}),
    ],
    ids=["all is there", "not stored", "never retried", "a retry never came"],
)
def test_what_is_lost_is_found(
    stored: list[str], given_out: list[str], seen: dict[str, str], lost: set[str]
) -> None:
    """Compare the one message that failed with what is stored, given out and seen."""
    assert find_lost(["m"], stored, given_out, seen) == lost

"""What other policies would have decided, counted and with examples."""

from datetime import UTC, datetime, timedelta

from retrier.domain.failed_message import Disposition
from retrier.policy.delays import Fixed
from retrier.policy.facts import Facts
from retrier.policy.policy_set import Definition, GivingUp, Match, PolicySet, Rule
from retrier.policy.simulation import (
    DecisionChange,
    RuleDecision,
    Simulation,
    StoredFailure,
    rule_of,
)

NOW = datetime(2026, 11, 23, tzinfo=UTC)
NOTHING = RuleDecision(rule=None, decision=Disposition.MANUAL)
BACKOFF = Fixed(first=timedelta(seconds=1))
SET = PolicySet(
    Definition(
        rules=(
            Rule(name="once", match=Match(queue=("once",)), attempts=1, backoff=BACKOFF),
            Rule(
                name="asked",
                match=Match(queue=("asked",)),
                attempts=0,
                backoff=BACKOFF,
                then=GivingUp.MANUAL,
            ),
            Rule(name="twice", match=Match(queue=("twice*",)), attempts=2, backoff=BACKOFF),
        )
    )
)


def failure(
    queue: str, failures: int = 1, verdict: RuleDecision = NOTHING, ago: int = 0
) -> StoredFailure:
    return StoredFailure(
        unique_message_id="m",
        received_at=NOW - timedelta(days=ago),
        facts=Facts(queue=queue),
        failures=failures,
        reason=None,
        verdict=verdict,
    )


def test_decisions_are_counted_by_rule_the_most_frequent_first() -> None:
    simulation = Simulation(SET)

    for each in ("once", "asked", "twice", "twice", "other"):
        simulation.judge(failure(each, ago=2))

    found = simulation.result()
    assert found.judged == 5
    assert found.oldest == NOW - timedelta(days=2)
    assert next(iter(found.counts.items())) == (
        DecisionChange(old=NOTHING, new=RuleDecision(rule="twice", decision=Disposition.SCHEDULED)),
        2,
    )
    assert {each.new: count for each, count in found.counts.items()} == {
        RuleDecision(rule="once", decision=Disposition.DEAD): 1,
        RuleDecision(rule="asked", decision=Disposition.MANUAL): 1,
        RuleDecision(rule="twice", decision=Disposition.SCHEDULED): 2,
        RuleDecision(rule=None, decision=Disposition.MANUAL): 1,
    }


def test_what_stays_as_it_was_is_no_example() -> None:
    simulation = Simulation(SET)

    simulation.judge(failure("other"))

    assert simulation.result().samples == ()


def test_the_examples_show_each_kind_of_change() -> None:
    simulation = Simulation(SET)
    for _ in range(20):
        simulation.judge(failure("twice"))
    simulation.judge(failure("once"))

    samples = simulation.result().samples

    assert [each.change.new.rule for each in samples] == ["twice", "once", *["twice"] * 8]
    assert samples[1].why == "failed once; rule once gives up after the first"


def test_of_nothing_there_is_nothing_to_show() -> None:
    found = Simulation(SET).result()

    assert (found.judged, found.oldest, found.samples) == (0, None, ())


def test_a_policy_names_its_rule() -> None:
    assert (rule_of("payments@1a2b3c4d"), rule_of(None)) == ("payments", None)

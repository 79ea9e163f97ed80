"""What a set of policies decides, and the words it says."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import product

import pytest

from retrier.domain.breakers import BreakerTerms
from retrier.domain.decision import Dead, Decision, Judgement, Manual, RetryAt
from retrier.domain.dialects.dialect import LOST_NEXT
from retrier.domain.failed_message import FailureDetails
from retrier.domain.streams import StreamRule
from retrier.policy.classification import ReasonRule, make_gateway_rules
from retrier.policy.delays import PRESETS, Exponential, Fixed, Spread
from retrier.policy.facts import Facts, facts_of
from retrier.policy.policy_set import (
    WAITING,
    Definition,
    GivingUp,
    InForce,
    Match,
    PolicySet,
    Rule,
    Unmatched,
    hash_definition,
    show_time,
)
from tests.support.project import ROOT

NOW = datetime(2026, 11, 23, 6, 45, 41, tzinfo=UTC)
TIMED_OUT = Facts(queue="orders", exception_type="TimeoutError")


def make_rule(name: str = "payments", **more: object) -> Rule:
    given = {
        "match": Match(),
        "attempts": 3,
        "backoff": Exponential(first=timedelta(seconds=1)),
    }
    return Rule(name=name, **(given | more))


def set_of(*rules: Rule, **more: object) -> PolicySet:
    return PolicySet(Definition(rules=rules, **more))


def decide(policies: PolicySet, failures: int = 1, facts: Facts = TIMED_OUT) -> Decision:
    return policies.judge(facts, failures=failures, now=NOW, dice=lambda: 0.5).decision


def test_a_failure_is_retried_after_its_delay() -> None:
    policies = set_of(make_rule())

    decision = decide(policies, failures=2)

    assert decision == RetryAt(
        at=NOW + timedelta(seconds=2),
        why=(
            "failed 2 of 3 times; rule payments set its next retry for 2026-11-23 06:45:43.000 UTC"
        ),
        policy=f"payments@{policies.hash[:8]}",
    )


def test_what_its_library_would_lose_next_is_left_to_a_person_and_keeps_its_stream_rule() -> None:
    policies = set_of(make_rule(stream=StreamRule.STRICT))
    facts = replace(TIMED_OUT, failure_reason=LOST_NEXT)

    found = policies.judge(facts, failures=1, now=NOW, dice=lambda: 0.5)

    assert isinstance(found.decision, Manual)
    assert found.decision.policy == f"payments@{policies.hash[:8]}"
    assert found.stream is StreamRule.STRICT


@pytest.mark.parametrize("failures", [1, 3])
def test_a_judgement_says_the_reason_and_the_rule_of_the_stream(failures: int) -> None:
    policies = set_of(make_rule(stream=StreamRule.STRICT))

    found = policies.judge(TIMED_OUT, failures=failures, now=NOW, dice=lambda: 0.5)

    assert (found.reason, found.stream) == ("timeout_exceeded", StreamRule.STRICT)


def test_more_crashes_than_the_set_allows_make_a_message_poison() -> None:
    facts = replace(TIMED_OUT, crashes=2)

    assert set_of(crashes=1).find(facts)[0] == "poison_message"
    assert set_of(crashes=2).find(facts)[0] == "timeout_exceeded"


def test_a_rule_may_ask_for_the_reason() -> None:
    decision = decide(set_of(make_rule(match=Match(reason=("timeout_*",)))))

    assert isinstance(decision, RetryAt)


def test_a_reason_that_is_not_among_those_never_retried_is_retried() -> None:
    assert isinstance(decide(set_of(make_rule(never=("busy",)))), RetryAt)


def test_two_attempts_are_two_failures() -> None:
    decision = decide(set_of(make_rule(attempts=2)), failures=2)

    assert decision.why == "failed 2 times; rule payments gives up after 2 failures"


def test_what_was_decided_before_changes_no_decision() -> None:
    rules = (
        make_rule("orders", match=Match(queue=("orders",))),
        make_rule(
            "bills", match=Match(queue=("bills",)), backoff=Fixed(first=timedelta(minutes=1))
        ),
    )
    used = set_of(*rules)
    cases = list(product((1, 2), (TIMED_OUT, Facts(queue="bills"), Facts(queue="else"))))

    fresh = [decide(set_of(*rules), failures, facts) for failures, facts in cases]

    assert [decide(used, failures, facts) for failures, facts in cases * 2] == fresh * 2


def test_what_equal_decisions_have_in_common_is_made_once() -> None:
    policies, nothing = set_of(make_rule()), set_of()

    retries = [decide(policies), decide(policies)]
    waits = [decide(nothing), decide(nothing)]

    assert retries[0].policy is retries[1].policy
    assert waits[0] is waits[1]


def test_times_are_shown_in_utc() -> None:
    there = NOW.astimezone(timezone(timedelta(hours=2)))

    assert show_time(there) == show_time(NOW) == "2026-11-23 06:45:41.000 UTC"


def test_the_dice_are_used_for_jitter() -> None:
    decision = decide(set_of(make_rule(jitter=Spread.EQUAL)))

    assert isinstance(decision, RetryAt)
    assert decision.at == NOW + timedelta(seconds=0.75)


def test_the_last_attempt_is_the_end() -> None:
    policies = set_of(make_rule())

    assert decide(policies, failures=3) == Dead(
        why="failed 3 times; rule payments gives up after 3 failures",
        policy=f"payments@{policies.hash[:8]}",
    )


@pytest.mark.parametrize("attempts", [0, 1])
def test_no_attempt_and_one_attempt_are_dead_at_the_first_failure(attempts: int) -> None:
    decision = decide(set_of(make_rule(attempts=attempts)))

    assert isinstance(decision, Dead)
    assert decision.why == "failed once; rule payments gives up after the first"


def test_what_has_failed_more_often_than_a_new_rule_allows_is_dead() -> None:
    decision = decide(set_of(make_rule()), failures=8)

    assert isinstance(decision, Dead)
    assert decision.why == "failed 8 times; rule payments gives up after 3 failures"


def test_a_reason_that_is_never_retried_is_given_up_at_once() -> None:
    decision = decide(set_of(make_rule(never=("timeout_*",))))

    assert isinstance(decision, Dead)
    assert decision.why == "failed with timeout_exceeded, which rule payments never retries"


@pytest.mark.parametrize("reason", ["timeout_exceeded", "time*"])
def test_a_reason_that_is_among_the_only_ones_is_retried(reason: str) -> None:
    assert isinstance(decide(set_of(make_rule(only=("busy", reason)))), RetryAt)


def test_any_other_reason_is_given_up_at_once() -> None:
    decision = decide(set_of(make_rule(only=("busy", "full"))))

    assert isinstance(decision, Dead)
    assert decision.why == "failed with timeout_exceeded, and rule payments retries only busy, full"


def test_what_could_not_be_sent_is_retried_whatever_the_only_reasons_are() -> None:
    facts = replace(TIMED_OUT, unsent=True)

    assert isinstance(decide(set_of(make_rule(only=("busy",))), facts=facts), RetryAt)


@pytest.mark.parametrize(
    ("then", "kind"), [(GivingUp.DEAD, Dead), (GivingUp.MANUAL, Manual)], ids=str
)
def test_what_can_never_be_sent_is_given_up_at_once(then: GivingUp, kind: type) -> None:
    facts = replace(TIMED_OUT, unsent=True, unsendable=True)

    decision = decide(set_of(make_rule(only=("busy",), then=then)), facts=facts)

    assert isinstance(decision, kind)
    assert "rule payments gives up what can never be sent" in str(decision.why)


@pytest.mark.parametrize("code", ["GW_5XX", "GW_TIMEOUT", "IO_ERROR", "UNKNOWN"])
def test_the_preset_gateway_retries_what_may_pass(code: str) -> None:
    assert isinstance(decide(gateway(), facts=Facts(queue="a", failure_reason=code)), RetryAt)


@pytest.mark.parametrize(
    "code",
    ["NOT_READY", "GW_4XX", "NOT_PDF", "TOO_LARGE", "EXPIRED", "FORBIDDEN", "poison_message"],
)
def test_the_preset_gateway_retries_nothing_else(code: str) -> None:
    assert isinstance(decide(gateway(), facts=Facts(queue="a", failure_reason=code)), Dead)


def gateway() -> PolicySet:
    rule = make_rule(only=PRESETS["gateway"].only)
    return set_of(rule, classify=make_gateway_rules())


def test_what_is_given_up_may_wait_for_a_person() -> None:
    policies = set_of(make_rule(then=GivingUp.MANUAL))

    assert decide(policies, failures=3) == Manual(
        why="failed 3 times; rule payments gives up after 3 failures, and leaves it to a person",
        policy=f"payments@{policies.hash[:8]}",
    )


def test_the_first_rule_that_matches_decides() -> None:
    rules = [make_rule("bills", match=Match(queue=("bills",))), make_rule("one"), make_rule("two")]

    decision = decide(set_of(*rules))

    assert isinstance(decision, RetryAt)
    assert decision.policy is not None
    assert decision.policy.startswith("one@")


@pytest.mark.parametrize(
    "match",
    [
        Match(queue=("bills",)),
        Match(endpoint=("*",)),
        Match(message_type=("Order*",)),
        Match(exception=("*Connection*",)),
        Match(reason=("poison_message",)),
        Match(queue=("orders",), reason=("poison_message",)),
    ],
)
def test_a_rule_matches_only_if_all_its_conditions_hold(match: Match) -> None:
    assert decide(set_of(make_rule(match=match))) == Manual()


def test_what_no_rule_matches_waits_for_a_person() -> None:
    assert decide(set_of()) == Manual()


def test_what_no_rule_matches_may_be_dead() -> None:
    policies = set_of(default=Unmatched.DEAD)

    assert decide(policies) == Dead(
        why="no rule matches the failure, and policies.default was dead",
        policy=f"default@{policies.hash[:8]}",
    )


def test_without_a_definition_failures_are_classified_and_wait() -> None:
    judged = PolicySet().judge(TIMED_OUT, failures=1, now=NOW, dice=lambda: 0.0)

    assert (judged.reason, judged.decision) == ("timeout_exceeded", Manual())


def test_a_text_is_searched_once_for_equal_failures() -> None:
    policies = set_of(classify=(ReasonRule(reason="mine", message="5.."),))
    first = Facts(queue="orders", exception_message="502")

    found = [policies.find(each) for each in (first, Facts(queue="orders", exception_message="4"))]

    assert [reason for reason, _ in found] == ["mine", "unknown"]
    assert policies.find(first) is found[0]


def test_failures_that_differ_in_their_message_only_share_what_else_was_found() -> None:
    policies = set_of(make_rule(), classify=(ReasonRule(reason="mine", message="5.."),))

    found = [policies.find(Facts(queue="a", exception_message=text)) for text in ("501", "502")]

    assert found[0] == found[1]
    assert found[0][1] is policies.definition.rules[0]


def test_texts_that_no_rule_reads_make_no_difference() -> None:
    policies = set_of(make_rule())

    found = [policies.find(Facts(queue="a", exception_message=text)) for text in ("1", "2")]

    assert found[0] is found[1]


def test_not_more_than_a_thousand_failures_are_kept() -> None:
    policies = set_of()
    first = policies.find(Facts(queue="0"))

    for number in range(1, 1001):
        policies.find(Facts(queue=str(number)))

    assert policies.find(Facts(queue="0")) is not first


def test_the_same_definition_has_the_same_hash() -> None:
    classify = (ReasonRule(reason="mine", message="5.."),)
    one, two = (Definition(rules=(make_rule(),), classify=classify) for _ in range(2))

    assert hash_definition(one) == hash_definition(two)


@pytest.mark.parametrize(
    "other",
    [
        Definition(rules=(make_rule(attempts=4),)),
        Definition(rules=(make_rule(backoff=Fixed(first=timedelta(seconds=1))),)),
        Definition(rules=(make_rule(),), per_second=5),
        Definition(rules=(make_rule(),), notices="dead"),
        Definition(rules=(make_rule("a"), make_rule("b"))),
        Definition(rules=(make_rule("b"), make_rule("a"))),
    ],
)
def test_another_definition_has_another_hash(other: Definition) -> None:
    assert hash_definition(other) != hash_definition(Definition(rules=(make_rule(),)))


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (Match(), Match(queue=("a",))),
        (Match(queue=("a*",)), Match(queue=("ab", "ac*"), reason=("unknown",))),
        (Match(queue=("*",), reason=("x", "*")), Match(queue=("a",))),
        (Match(endpoint=("*",)), Match(endpoint=("Sales",))),
    ],
)
def test_a_match_covers_what_asks_for_more(earlier: Match, later: Match) -> None:
    assert earlier.covers(later)
    assert not later.covers(earlier)


def test_a_match_does_not_cover_what_asks_for_something_else() -> None:
    assert not Match(queue=("a",)).covers(Match(reason=("unknown",)))
    assert not Match(queue=("a",)).covers(Match())


def test_any_text_covers_what_may_be_missing_only_where_something_is_asked_for() -> None:
    assert Match(queue=("*",), reason=("*",)).covers(Match())
    for name in ("endpoint", "message_type", "exception"):
        asks = Match(**{name: ("*",)})

        assert not asks.covers(Match()), name
        assert not asks.matches(Facts(queue="a"), "unknown"), name


def test_what_is_in_force_has_no_problems_at_first() -> None:
    assert InForce(policies=PolicySet(), is_configured=False, loaded_at=NOW).problems == ()


def test_the_facts_are_those_of_the_headers() -> None:
    details = FailureDetails(
        queue="orders", destination="orders", exception_type="TimeoutError", failure_reason="late"
    )

    assert facts_of(details) == replace(TIMED_OUT, failure_reason="late")


def test_a_set_is_configured_if_it_has_a_definition() -> None:
    assert set_of().configured is True
    assert PolicySet().configured is False


def test_a_set_names_the_breakers_of_the_rules_that_have_one() -> None:
    terms = BreakerTerms(least=3)

    assert set_of(make_rule("a", breaker=terms), make_rule("b")).breakers == {"a": terms}


def test_the_set_names_the_queue_of_its_notices() -> None:
    assert (set_of(notices="dead").notices, set_of().notices) == ("dead", None)


def test_without_policies_a_person_decides_about_what_is_classified() -> None:
    policies = WAITING.in_force()

    judged = policies.judge(TIMED_OUT, failures=9, now=NOW, dice=WAITING.dice)

    assert judged == Judgement(reason="timeout_exceeded", decision=Manual())
    assert WAITING.dice() == 0


def test_a_reason_that_is_known_is_not_derived_anew() -> None:
    policies = set_of()

    found = [policies.find(replace(TIMED_OUT, known=each))[0] for each in (None, "mine", None)]

    assert found == ["timeout_exceeded", "mine", "timeout_exceeded"]


def test_the_notice_on_the_page_says_what_is_decided() -> None:
    page = (ROOT / "docs" / "publishing.md").read_text()
    shown = re.search(r'^(\{"notice_id".+?\})\n```', page, re.MULTILINE | re.DOTALL)
    assert shown is not None

    notice = json.loads(shown[1])

    decision = decide(set_of(make_rule(attempts=6)), failures=notice["failure_count"])
    assert isinstance(decision, Dead)
    assert notice["disposition_reason"] == decision.why

"""Policies, whatever the rules, the failures, the dice and the patterns are."""

import re
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from retrier.domain.decision import Dead, Manual, RetryAt
from retrier.policy.delays import (
    LONGEST,
    Additive,
    Exponential,
    Fixed,
    Linear,
    ListedDelays,
    Spread,
    delay_after,
    range_of,
    spread,
)
from retrier.policy.facts import Facts
from retrier.policy.patterns import LOOKED_AT, Patterns, count_steps, covers, matches
from retrier.policy.policy_set import Definition, GivingUp, Match, PolicySet, Rule, Unmatched
from tests.support.processor_time import can_take

durations = st.timedeltas(min_value=timedelta(milliseconds=1), max_value=LONGEST)
counts = st.integers(min_value=1, max_value=10**9)
backoffs = st.one_of(
    st.builds(Exponential, first=durations, factor=st.floats(1, 1000), cap=durations),
    st.builds(Linear, first=durations, step=durations, cap=durations),
    st.builds(Fixed, first=durations),
    st.builds(ListedDelays, delays=st.lists(durations, min_size=1).map(tuple)),
)
jitters = st.one_of(st.sampled_from(Spread), st.builds(Additive, most=durations))
rolls = st.floats(0, 1, exclude_max=True)
words = st.text("ab*?", max_size=6)
globs = st.lists(words, min_size=1, max_size=3).map(tuple)
maybe_globs = st.one_of(st.just(()), globs)
times = st.datetimes(datetime(1970, 1, 1), datetime(9000, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
rules = st.builds(
    Rule,
    name=st.sampled_from(["one", "two", "three"]),
    match=st.builds(Match, queue=maybe_globs, reason=maybe_globs),
    attempts=st.integers(0, 1000),
    backoff=backoffs,
    jitter=jitters,
    never=maybe_globs,
    then=st.sampled_from(GivingUp),
)
sets = st.builds(
    Definition,
    default=st.sampled_from(Unmatched),
    rules=st.lists(rules, max_size=4).map(tuple),
).map(PolicySet)
texts = st.one_of(st.none(), st.text(max_size=40))
facts = st.builds(
    Facts,
    queue=st.text("ab", max_size=6),
    exception_type=texts,
    exception_message=texts,
    failure_reason=texts,
    crashes=st.integers(0, 20),
    rejected=texts,
    unsent=st.booleans(),
    unsendable=st.booleans(),
)


@given(backoffs, counts)
def test_a_delay_is_never_negative_and_never_too_long(backoff, failures):
    assert timedelta(0) < delay_after(backoff, failures) <= LONGEST


@given(st.one_of(st.builds(Exponential, first=durations, cap=durations)), counts, counts)
def test_a_later_failure_waits_no_shorter(backoff, one, other):
    early, late = sorted((one, other))

    assert delay_after(backoff, early) <= delay_after(backoff, late)


@given(backoffs, jitters, counts, rolls)
def test_a_delay_stays_in_its_range(backoff, jitter, failures, roll):
    range_ = range_of(backoff, jitter, failures)

    assert range_.shortest <= spread(range_, lambda: roll) <= range_.longest


@given(sets, facts, counts, times, rolls)
def test_each_failure_gets_one_decision_with_its_reason(policies, failure, failures, now, roll):
    judged = policies.judge(failure, failures=failures, now=now, dice=lambda: roll)

    reason, rule = policies.find(failure)
    assert judged.reason == reason
    match judged.decision:
        case RetryAt(at=at, why=why, policy=policy):
            assert at >= now
            assert failures < rule.attempts
            assert policy == f"{rule.name}@{policies.hash[:8]}"
            assert f"failed {failures} of {rule.attempts} times" in why
        case Dead(why=why, policy=policy):
            assert why
            assert policy.endswith(policies.hash[:8])
        case Manual(why=why, policy=policy):
            assert (why is None) == (policy is None)
            assert rule is None or rule.then is GivingUp.MANUAL


@given(rules, facts, counts)
def test_no_message_is_retried_more_often_than_its_rule_allows(rule, failure, failures):
    policies = PolicySet(Definition(rules=(rule,)))
    now = datetime(2026, 11, 23, tzinfo=UTC)

    judged = policies.judge(failure, failures=failures, now=now, dice=lambda: 0.0)

    assert not isinstance(judged.decision, RetryAt) or failures < max(1, rule.attempts)


@given(sets, facts)
def test_the_order_of_questions_does_not_matter(policies, failure):
    again = PolicySet(policies.definition)

    assert policies.find(failure) == again.find(failure)
    assert policies.hash == again.hash


@given(globs, globs, st.text("ab", max_size=8))
def test_what_covers_others_matches_whatever_they_match(ours, theirs, text):
    if covers(ours, theirs) and matches(theirs, text):
        assert matches(ours, text)


@given(words, st.text("ab", max_size=8))
def test_a_glob_matches_as_the_plain_expression_does(glob, text):
    parts = {"*": ".*", "?": "."}
    plain = "".join(parts.get(each, each) for each in glob)

    assert matches((glob,), text) == (re.fullmatch(plain, text) is not None)


pieces = st.sampled_from(
    ["a", "b", "ab", ".", r"\d", r"\w", "[ab]", "[^a]", " ", "a|b", "^", "$", r"\b"]
)
repeats = st.sampled_from(["", "", "*", "+", "?", "*?", "{2}", "{0,9}", "{3,}"])
patterns = st.recursive(
    st.builds("{}{}".format, pieces.map("(?:{})".format), repeats),
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("(?:{}){}".format, inner, repeats),
        st.builds("(?:{}|{})".format, inner, inner),
    ),
    max_leaves=5,
)


ends = st.sampled_from(["", "b", "\nb"])


@given(patterns, st.text("ab 1\n", max_size=9), ends)
def test_a_pattern_finds_what_python_finds_with_it(pattern, text, end):
    assert (Patterns([pattern]).find_in(text + end) != set()) == (
        re.search(pattern, text + end) is not None
    )


@given(st.lists(patterns, max_size=5), st.text("ab 1", max_size=9))
def test_patterns_that_are_searched_together_find_what_each_finds_alone(several, text):
    alone = {each for each in several if Patterns([each]).find_in(text)}

    assert Patterns(several).find_in(text) == alone


@settings(max_examples=150, deadline=None)
@given(patterns, st.text("ab 1", min_size=1, max_size=3), ends)
def test_no_text_holds_a_search_up(pattern, hostile, end):
    count_steps(pattern)
    text = (hostile * LOOKED_AT)[: LOOKED_AT - len(end)] + end

    assert can_take(0.5, lambda: Patterns([pattern]).find_in(text))

"""A set of policies: classifies a failure, finds the rule, and decides."""

import json
from collections.abc import Hashable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from operator import attrgetter
from re import Pattern
from typing import TypeVar, assert_never

from retrier.domain.decision import Dead, Decision, Judgement, Manual, RetryAt
from retrier.policy import globs
from retrier.policy.classification import (
    MOST_CRASHES,
    Candidates,
    ReasonRule,
    find_candidates,
)
from retrier.policy.facts import Facts
from retrier.policy.jitter import DelayRange, spread
from retrier.policy.judging import Dice
from retrier.policy.pattern_time import LOOKED_AT
from retrier.policy.rules import GivingUp, Rule, Unmatched

T = TypeVar("T")

UNMATCHED = "default"
"""Stands for the name of a rule where none matches."""

PER_SECOND = 1000

_SHOWN_DIGITS = 8
_MOST_KEPT = 1000
"""Failures whose reason and rule are kept: messages may all differ, and be long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What a set consists of, as its file says it.

    `per_second` bounds automatic retries, and `notices` is the queue that hears of dead messages.
    `crashes` is after how many crashes of a worker a message is poison.
    """

    default: Unmatched = Unmatched.WAIT
    per_second: int = PER_SECOND
    notices: str | None = None
    classify: tuple[ReasonRule, ...] = ()
    rules: tuple[Rule, ...] = ()
    crashes: int = MOST_CRASHES


class PolicySet:
    """The set of one definition; the same definition has the same hash, wherever it was read.

    Threads may share it: an entry of its memory that is lost or made twice does no harm.
    """

    def __init__(self, definition: Definition | None = None) -> None:
        """Make the set; without a definition it classifies, and leaves all else to a person."""
        self.definition = definition or Definition()
        self.hash = hash_definition(self.definition)
        self.configured = definition is not None
        self.breakers = {
            rule.name: rule.breaker for rule in self.definition.rules if rule.breaker is not None
        }
        self._known: dict[Hashable, tuple[str, Rule | None]] = {}
        self._candidates: dict[Hashable, Candidates] = {}
        self._rules: dict[Hashable, tuple[Rule | None]] = {}
        self._unmatched: dict[Hashable, Judgement] = {}
        self._retries: dict[Hashable, tuple[DelayRange, str, str]] = {}
        self._reads_messages = any(each.message for each in self.definition.classify)

    @property
    def notices(self) -> str | None:
        """The queue for notices of dead messages; None if there are none."""
        return self.definition.notices

    def judge(self, facts: Facts, *, failures: int, now: datetime, dice: Dice) -> Judgement:
        """Decide about a message that has failed `failures` times, this time included."""
        reason, rule = self.find(facts)
        if rule is None:
            return self._judge_unmatched(reason)
        why = _why_give_up(rule, reason, failures, unsent=facts.unsent)
        if why is not None:
            return Judgement(reason=reason, decision=self._give_up(rule, why), stream=rule.stream)
        delays, words, policy = self._plan_retry(rule, failures)
        at = now + spread(delays, dice)
        decision = RetryAt(at=at, why=f"{words}{show_time(at)}", policy=policy)
        return Judgement(reason=reason, decision=decision, stream=rule.stream)

    def find(self, facts: Facts) -> tuple[str, Rule | None]:
        """Return the reason of a failure, and the rule that decides about it; equal ones once."""
        named = _named(facts)
        text = facts.exception_message if self._reads_messages else None
        key = named, text and text[:LOOKED_AT]
        found = self._known.get(key)
        if found is None:
            reason = self._find_candidates(named, facts).reason_of(text)
            found = reason, self._find_rule((named, reason), facts, reason)
            _keep(self._known, key, found)
        return found

    def _find_candidates(self, named: Hashable, facts: Facts) -> Candidates:
        found = self._candidates.get(named)
        if found is None:
            found = find_candidates(facts, self.definition.classify, self.definition.crashes)
            _keep(self._candidates, named, found)
        return found

    def _find_rule(self, key: Hashable, facts: Facts, reason: str) -> Rule | None:
        # A tuple around it: another thread may clear the memory, and None is an answer.
        found = self._rules.get(key)
        if found is None:
            rules = self.definition.rules
            found = (next((each for each in rules if each.match.matches(facts, reason)), None),)
            _keep(self._rules, key, found)
        return found[0]

    def _plan_retry(self, rule: Rule, failures: int) -> tuple[DelayRange, str, str]:
        """Return what all retries after so many failures have in common, made once."""
        key = rule.name, failures
        found = self._retries.get(key)
        if found is None:
            words = (
                f"failed {failures} of {rule.attempts} times; "
                f"rule {rule.name} set its next retry for "
            )
            found = rule.delay_after(failures), words, self._name(rule.name)
            _keep(self._retries, key, found)
        return found

    def _judge_unmatched(self, reason: str) -> Judgement:
        """Return what is made of all failures of a reason that no rule matches, made once."""
        found = self._unmatched.get(reason)
        if found is None:
            found = Judgement(reason=reason, decision=self._decide_unmatched())
            _keep(self._unmatched, reason, found)
        return found

    def _decide_unmatched(self) -> Decision:
        match self.definition.default:
            case Unmatched.WAIT:
                return Manual()
            case Unmatched.DEAD:
                why = "no rule matches the failure, and policies.default was dead"
                return Dead(why=why, policy=self._name(UNMATCHED))
            case _ as never:
                assert_never(never)

    def _give_up(self, rule: Rule, why: str) -> Decision:
        policy = self._name(rule.name)
        match rule.then:
            case GivingUp.DEAD:
                return Dead(why=why, policy=policy)
            case GivingUp.MANUAL:
                return Manual(why=f"{why}, and leaves it to a person", policy=policy)
            case _ as never:
                assert_never(never)

    def _name(self, rule: str) -> str:
        return f"{rule}@{self.hash[:_SHOWN_DIGITS]}"


def show_time(moment: datetime) -> str:
    """Show a moment in UTC, to the millisecond."""
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return f"{utc.isoformat(' ', 'milliseconds').removesuffix('+00:00')} UTC"


def _keep(known: dict[Hashable, T], key: Hashable, found: T) -> None:
    if len(known) >= _MOST_KEPT:
        known.clear()
    known[key] = found


_named = attrgetter(
    "queue",
    "endpoint",
    "message_type",
    "exception_type",
    "failure_reason",
    "crashes",
    "rejected",
    "inner",
    "unsent",
    "known",
)


def _why_give_up(rule: Rule, reason: str, failures: int, *, unsent: bool) -> str | None:
    """Return why a rule retries no more; None if it does.

    What could not be sent has not failed: `only` lists failures of the consumer.
    """
    if rule.never and globs.matches(rule.never, reason):
        return f"failed with {reason}, which rule {rule.name} never retries"
    if rule.only and not unsent and not globs.matches(rule.only, reason):
        return f"failed with {reason}, and rule {rule.name} retries only {', '.join(rule.only)}"
    if failures >= rule.attempts:
        most = "the first" if rule.attempts <= 1 else f"{rule.attempts} failures"
        return f"failed {_times(failures)}; rule {rule.name} gives up after {most}"
    return None


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def hash_definition(definition: Definition) -> str:
    """Return the hash of a definition, which comments and order of keys do not change."""
    text = json.dumps(asdict(definition), sort_keys=True, default=_plain)
    return sha256(text.encode()).hexdigest()


def _plain(value: timedelta | Pattern[str]) -> object:
    return value.total_seconds() if isinstance(value, timedelta) else value.pattern

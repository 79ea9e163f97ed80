"""A set of policies: classifies a failure, finds the rule, and decides; and what overrules it."""

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from operator import attrgetter
from re import Pattern
from types import MappingProxyType
from typing import Protocol, TypeVar, assert_never

from retrier.domain.breakers import BreakerTerms
from retrier.domain.decision import AGAIN, Dead, Decision, Judgement, Manual, RetryAt
from retrier.domain.dialects.dialect import LOST_NEXT
from retrier.domain.failed_message import LastWord
from retrier.domain.recording import Standing, Stands, what_stands
from retrier.domain.retry_batch import Ejected
from retrier.domain.streams import StreamRule
from retrier.domain.text import COLUMN_BYTES, clean
from retrier.domain.values import dataclass
from retrier.policy import patterns
from retrier.policy.classification import (
    MOST_CRASHES,
    Candidates,
    ReasonRule,
    find_candidates,
)
from retrier.policy.delays import Backoff, DelayRange, Jitter, Spread, range_of, spread
from retrier.policy.facts import Facts
from retrier.policy.patterns import LOOKED_AT, Globs, Patterns


class GivingUp(StrEnum):
    """What becomes of a message that a rule gives up: it is dead, or waits for a person."""

    DEAD = "dead"
    MANUAL = "manual"


class Unmatched(StrEnum):
    """What becomes of a failure that no rule matches: it waits for a person, or is dead."""

    WAIT = "wait"
    DEAD = "dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Conditions, joined by *and*; one without globs asks nothing."""

    queue: Globs = ()
    endpoint: Globs = ()
    message_type: Globs = ()
    exception: Globs = ()
    reason: Globs = ()

    def matches(self, facts: Facts, reason: str) -> bool:
        """Say whether a failure that has this reason matches all conditions."""
        pairs = (
            (self.queue, facts.queue),
            (self.endpoint, facts.endpoint),
            (self.message_type, facts.message_type),
            (self.exception, facts.exception_type),
            (self.reason, reason),
        )
        return all(patterns.matches(wanted, text) for wanted, text in pairs if wanted)

    def covers(self, other: "Match") -> bool:
        """Say whether whatever matches the other matches this one, too.

        Each failure has a queue and a reason, so `*` there asks nothing; the rest may be missing.
        """
        pairs = (
            (self.queue, other.queue or patterns.ANYTHING),
            (self.endpoint, other.endpoint),
            (self.message_type, other.message_type),
            (self.exception, other.exception),
            (self.reason, other.reason or patterns.ANYTHING),
        )
        return all(theirs and patterns.covers(ours, theirs) for ours, theirs in pairs if ours)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Retries what it matches until it has failed `attempts` times, then gives it up.

    0 and 1 attempts are the same: given up at the first failure. A reason in `never` is given up
    at once, and so is one that is not in `only`, if that names any. `stream` is stored with what it matches: whether earlier messages of a stream hold it.
    """

    name: str
    match: Match
    attempts: int
    backoff: Backoff
    jitter: Jitter = Spread.NONE
    never: Globs = ()
    only: Globs = ()
    then: GivingUp = GivingUp.DEAD
    stream: StreamRule | None = None
    breaker: BreakerTerms | None = None

    def delay_after(self, failures: int) -> DelayRange:
        """Return between which delays a message is retried after so many failures."""
        return range_of(self.backoff, self.jitter, failures)

    def delays(self) -> list[DelayRange]:
        """Return the delays of all retries that it makes, in their order."""
        return [self.delay_after(failures) for failures in range(1, self.attempts)]


Dice = Callable[[], float]
"""Returns a random number from 0 up to, not including, 1."""


class Policies(Protocol):
    """A set of policies, as who stores failures and reverts uses it.

    `configured` says whether somebody asked for it: without, everything waits for a person, by no
    rule and at any time. `notices` is the queue that is told of each message that becomes dead.
    """

    @property
    def configured(self) -> bool:
        """Whether the settings have policies."""
        ...

    @property
    def notices(self) -> str | None:
        """The queue for notices of dead messages; None if there are none."""
        ...

    def judge(self, facts: Facts, *, failures: int, now: datetime, dice: Dice) -> Judgement:
        """Decide about a message that has failed `failures` times, this time included.

        They are counted since the first, or since the last retry that a person asked for.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Who is asked about failures: the policies in force, and the dice for their jitter.

    A transaction takes the policies once: they may be replaced at any time.
    """

    in_force: Callable[[], Policies]
    dice: Dice


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
        searched = [rule.message for rule in self.definition.classify if rule.message is not None]
        self._reads_messages = bool(searched)
        self._patterns = Patterns(each for each in searched if isinstance(each, str))

    @property
    def notices(self) -> str | None:
        """The queue for notices of dead messages; None if there are none."""
        return self.definition.notices

    def judge(self, facts: Facts, *, failures: int, now: datetime, dice: Dice) -> Judgement:
        """Decide about a message that has failed `failures` times, this time included."""
        reason, rule = self.find(facts)
        if rule is None:
            return self._judge_unmatched(reason)
        why = _why_give_up(rule, reason, failures, facts)
        if why is not None:
            return Judgement(reason=reason, decision=self._give_up(rule, why), stream=rule.stream)
        delays, words, policy = self._plan_retry(rule, failures)
        if facts.failure_reason == LOST_NEXT:
            left = Manual(why=_LOST, policy=policy)
            return Judgement(reason=reason, decision=left, stream=rule.stream)
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
            reason = self._find_candidates(named, facts).reason_of(text, self._patterns)
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
    "unsendable",
    "known",
)


def _why_give_up(rule: Rule, reason: str, failures: int, facts: Facts) -> str | None:
    """Return why a rule retries no more; None if it does.

    What could not be sent has not failed: `only` lists failures of the consumer.
    """
    if facts.unsendable:
        return f"rule {rule.name} gives up what can never be sent"
    if rule.never and patterns.matches(rule.never, reason):
        return f"failed with {reason}, which rule {rule.name} never retries"
    if rule.only and not facts.unsent and not patterns.matches(rule.only, reason):
        return f"failed with {reason}, and rule {rule.name} retries only {', '.join(rule.only)}"
    if failures >= rule.attempts:
        most = "the first" if rule.attempts <= 1 else f"{rule.attempts} failures"
        return f"failed {_times(failures)}; rule {rule.name} gives up after {most}"
    return None


_LOST = "its library drops it if it fails again, so it is not retried by itself"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def hash_definition(definition: Definition) -> str:
    """Return the hash of a definition, which comments and order of keys do not change."""
    text = json.dumps(asdict(definition), sort_keys=True, default=_plain)
    return sha256(text.encode()).hexdigest()


def _plain(value: timedelta | Pattern[str]) -> object:
    return value.total_seconds() if isinstance(value, timedelta) else value.pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """The set by which failures are judged.

    `is_configured` is false if there is no section `policies`. `problems` are those of a newer file
    that was not taken.
    """

    policies: PolicySet
    is_configured: bool
    loaded_at: datetime
    file_time: datetime | None = None
    problems: tuple[str, ...] = ()


_NOTHING_SET = PolicySet()

WAITING = Judge(in_force=lambda: _NOTHING_SET, dice=lambda: 0.0)
"""The policies of settings that have none."""


_BROKERS_WORDS = 600
"""Bytes of the broker's words where a decision adds its own: the column holds 1024."""

_A_PERSON = ", so a person decides"
_SAID: Mapping[LastWord, str] = MappingProxyType(
    {
        LastWord.DEAD: "declared {} dead",
        LastWord.ARCHIVED: "archived {}",
        LastWord.RESOLVED: "resolved {}",
    }
)


def unless_copy(judgement: Judgement, copy_of: str | None) -> Judgement:
    """Let a person decide about a message that may be a copy: a retry might do its work twice."""
    decision = judgement.decision
    if copy_of is None or not isinstance(decision, RetryAt):
        return judgement
    why = f"it may be a copy of the message {copy_of}, so it is not retried by itself"
    return replace(judgement, decision=Manual(why=why, policy=decision.policy))


def unless_stands(judgement: Judgement, standing: Standing, before: Judgement) -> Judgement:
    """Leave what a person, or an earlier failure, has decided about the message as it was.

    `before` is what was decided; a message that is dead keeps its reason too.
    """
    decision, reason = before.decision, judgement.reason
    match what_stands(standing, decision):
        case Stands.NOTHING:
            return judgement
        case Stands.WORD:
            decision = Manual(why=_why_person(standing))
        case Stands.DECISION:
            reason = before.reason if isinstance(decision, Dead) and before.reason else reason
            decision = _told_again(decision)
        case _ as never:
            assert_never(never)
    own = judgement.failure_reason
    return replace(judgement, reason=reason, decision=decision, own_reason=own)


def _told_again(decision: Decision) -> Decision:
    """Add to the words of what is given up that it has failed again, once."""
    why = decision.why
    if why is None or isinstance(decision, RetryAt) or why.endswith((AGAIN, _A_PERSON)):
        return decision
    return replace(decision, why=clean(why, COLUMN_BYTES - len(AGAIN)) + AGAIN)


def _why_person(standing: Standing) -> str:
    if standing.word is None:
        return f"a second copy of a retry that had failed before failed, too{_A_PERSON}"
    said = _SAID[standing.word].format(standing.of or "it")
    then = "it failed again" if standing.of is None else "it came under a retry of that"
    return f"a person had {said}, and {then}{_A_PERSON}"


def judge_revert(judgement: Judgement, item: Ejected, *, configured: bool) -> Judgement:
    """Return the judgement with why the retry was reverted; one that can never go is given up.

    One that may have arrived waits for a person: by itself it would be sent twice.

    A retry that the settings or the headers send to no queue, or to one of Retrier's own, would be
    ejected again each time: with policies the message is dead, without them a person decides.
    """
    decision = judgement.decision
    if item.hopeless and configured:
        dead = Dead(why=item.reason, policy=decision.policy)
        return replace(judgement, decision=dead)
    if item.unknown or item.may_have_arrived:
        return replace(judgement, decision=Manual(why=item.reason, policy=decision.policy))
    why = _both(item.reason, decision.why) if decision.why else item.reason
    return replace(judgement, decision=replace(decision, why=why))


def _both(reason: str, why: str) -> str:
    return f"{clean(reason, _BROKERS_WORDS)}; {why}"

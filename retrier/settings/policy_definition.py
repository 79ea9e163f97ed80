"""Makes a set of policies of the section `policies`, and warns of what cannot be meant."""

import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import assert_never

from retrier.policy import globs
from retrier.policy.classification import ReasonRule, make_gateway_rules
from retrier.policy.delays import (
    LONGEST,
    PRESETS,
    Backoff,
    Exponential,
    Fixed,
    Linear,
    Listed,
    Preset,
)
from retrier.policy.policy_set import Definition, Match, Rule
from retrier.policy.reasons import BUILT_IN, GATEWAY_CODES
from retrier.settings.policies import BackoffSection, PoliciesSection, ReasonSection, RuleSection

_AT_ONCE = Fixed(first=timedelta(0))
"""Of the preset `cooldown` without a time, and of a rule that retries nothing: there it is never asked."""
_NO_PRESET = Preset(attempts=None, backoff=None)


def make_definition(section: PoliciesSection) -> Definition:
    """Return what the section says, with all presets and sets filled in."""
    return Definition(
        default=section.default,
        per_second=section.per_second,
        notices=section.notices,
        classify=tuple(rule for each in section.classify for rule in _make_reasons(each)),
        rules=tuple(map(_make_rule, section.rules)),
        crashes=section.poison.crashes,
    )


def _make_reasons(section: ReasonSection) -> tuple[ReasonRule, ...]:
    if section.set is not None:
        return make_gateway_rules(queue=section.queue, message_type=section.message_type)
    message = None if section.message is None else re.compile(section.message)
    conditions = section.model_dump(
        include={"queue", "message_type", "exception", "failure_reason"}
    )
    return (ReasonRule(reason=section.reason or "", message=message, **conditions),)


def _make_rule(section: RuleSection) -> Rule:
    preset = _NO_PRESET if section.preset is None else PRESETS[section.preset]
    attempts = preset.attempts if section.attempts is None else section.attempts
    jitter = preset.jitter if section.jitter is None else section.jitter
    return Rule(
        name=section.name,
        match=Match(**section.match.model_dump()),
        attempts=attempts or 0,
        backoff=_choose_backoff(section, preset),
        jitter=jitter,
        never=preset.never if section.never is None else section.never,
        only=preset.only if section.only is None else section.only,
        then=section.then,
        stream=section.stream,
        breaker=None if section.breaker is None else section.breaker.terms,
    )


def _choose_backoff(section: RuleSection, preset: Preset) -> Backoff:
    if section.cooldown is not None:
        return Fixed(first=section.cooldown)
    if section.backoff is not None:
        return _make_backoff(section.backoff)
    return preset.backoff or _AT_ONCE


def _make_backoff(section: BackoffSection) -> Backoff:
    first, cap = section.first or LONGEST, section.cap or LONGEST
    match section.kind:
        case "exponential":
            return Exponential(first=first, factor=section.factor or 2.0, cap=cap)
        case "linear":
            return Linear(first=first, step=section.step or LONGEST, cap=cap)
        case "fixed":
            return Fixed(first=first)
        case "list":
            return Listed(delays=section.delays or (LONGEST,))
        case _ as never:
            assert_never(never)


def find_policy_warnings(section: PoliciesSection) -> Iterator[str]:
    """Find what is allowed and hardly meant: a line each, with its place."""
    definition = make_definition(section)
    given = {each.reason for each in definition.classify}
    if definition.default.value == "dead" and not definition.rules:
        yield "policies.default: every failure is dead at once: there is no rule"
    for index, rule in enumerate(definition.rules):
        place = f"policies.rules[{index}]"
        covering = [each for each in definition.rules[:index] if each.match.covers(rule.match)]
        if covering:
            yield f"{place}: never decides: rule {covering[0].name} matches all of it before"
        yield from _find_unknown(f"{place}.match.reason", rule.match.reason, given)
        yield from _find_any_text(place, rule.match)
        if rule.attempts == 0 and section.rules[index].attempts is None:
            yield f"{place}.attempts: is 0 if it is left out: nothing is retried"
        if section.rules[index].never is not None:
            yield from _find_unknown(f"{place}.never", rule.never, given)
        if section.rules[index].only is not None:
            yield from _find_unknown(f"{place}.only", rule.only, given)
        if section.rules[index].preset == "gateway" and not given & set(GATEWAY_CODES):
            yield (
                f"{place}.preset: its codes are given to no failure, and it retries nothing else: "
                "add {set: gateway}, or entries of your own, to policies.classify"
            )


def _find_any_text(place: str, match: Match) -> Iterator[str]:
    """Find `*` where a failure may have no value: it is easily taken for "or none"."""
    for name in ("endpoint", "message_type", "exception"):
        if any(set(glob) == {"*"} for glob in getattr(match, name)):
            yield (
                f"{place}.match.{name}: * is any text, and matches no failure that has none: "
                "leave the key out to match those, too"
            )


def _find_unknown(place: str, wanted: Iterable[str], given: set[str]) -> Iterator[str]:
    for reason in globs.plain(wanted):
        if reason not in BUILT_IN and reason not in given:
            yield f"{place}: no failure gets the reason {reason}"

"""The sections `policies` and `breakers`: keys, values, clashes, and the set that they make."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self, assert_never

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    Field,
    model_validator,
)

from retrier.domain.breakers import BreakerTerms, Per
from retrier.domain.streams import StreamRule
from retrier.policy import patterns
from retrier.policy.classification import GATEWAY_SET, MOST_CRASHES, ReasonRule, make_gateway_rules
from retrier.policy.delays import (
    COOLDOWN,
    LONGEST,
    PRESETS,
    Additive,
    Backoff,
    Exponential,
    Fixed,
    Jitter,
    Linear,
    ListedDelays,
    Preset,
    Spread,
)
from retrier.policy.patterns import MOST_STEPS, count_steps
from retrier.policy.policy_set import (
    PER_SECOND,
    UNMATCHED,
    Definition,
    GivingUp,
    Match,
    Rule,
    Unmatched,
)
from retrier.policy.reasons import BUILT_IN, GATEWAY_CODES
from retrier.settings.fields import (
    Count,
    Duration,
    DurationOrNone,
    OptionalQueue,
    Section,
    at_least,
    between,
    check_duration,
    parse_duration,
)

MOST_OUTCOMES = 1000
_SHORTEST, _LONGEST = timedelta(seconds=1), timedelta(days=1)
_NUMBER = re.compile(r"[0-9]{1,9}")
_PERCENT = re.compile(r"([0-9]{1,9})%?")
_WINDOW = "must be a number of outcomes like 20, or a duration like 2m"


def _read_window(value: object) -> object:
    if isinstance(value, int | timedelta) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value)
    try:
        return parse_duration(value)
    except ValueError:
        raise ValueError(_WINDOW) from None


def _check_window(value: timedelta | int) -> timedelta | int:
    if isinstance(value, int):
        if not 1 <= value <= MOST_OUTCOMES:
            raise ValueError(f"must be between 1 and {MOST_OUTCOMES} outcomes")
    elif not _SHORTEST <= value <= _LONGEST:
        raise ValueError("must be between 1s and 1d")
    return value


def _read_percent(value: object) -> object:
    found = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    return value if found is None else int(found[1])


Window = Annotated[timedelta | int, BeforeValidator(_read_window), AfterValidator(_check_window)]
Percent = Annotated[Count, BeforeValidator(_read_percent), between(1, 100)]


class BreakerSettings(Section):
    """When a breaker opens, and how long it waits before one message tries it."""

    per: Literal["destination", "message_type"] = "destination"
    window: Window = timedelta(minutes=2)
    threshold: Percent = 50
    min: Annotated[Count, between(1, 100_000)] = 10
    cooldown: Annotated[Duration, at_least("1s")] = timedelta(seconds=60)

    @model_validator(mode="after")
    def _can_open(self) -> Self:
        if isinstance(self.window, int) and self.min > self.window:
            raise ValueError("min must not be larger than window: the breaker would never open")
        return self

    @property
    def terms(self) -> BreakerTerms:
        """The same, as breakers use it."""
        return BreakerTerms(
            per=Per(self.per),
            window=self.window,
            threshold=self.threshold,
            least=self.min,
            cooldown=self.cooldown,
        )


def _read_switch(value: object) -> object:
    # YAML 1.1 reads a bare `on` as true and `off` as false; from the environment it comes as text.
    if value in (True, "on"):
        return {}
    return None if value in (False, "off", "") else value


BreakersSection = Annotated[BreakerSettings | None, BeforeValidator(_read_switch)]
"""The section: `off`, `on` with the defaults, or keys of its own."""


MOST_ATTEMPTS = 1000

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_JITTER = "must be none, full, equal or {additive: DURATION}"
_MOST_PER_SECOND = 1_000_000


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("must be 1 to 64 letters, digits, dots, dashes and underscores")
    return name


def _read_globs(value: object) -> object:
    globs = [value] if isinstance(value, str) else value
    if not isinstance(globs, list | tuple) or not all(isinstance(each, str) for each in globs):
        raise ValueError("must be a text or a list of texts")
    if not globs or "" in globs:
        raise ValueError("must name something")
    return tuple(globs)


def _read_globs_or_none(value: object) -> object:
    """Take an empty list as none at all: it is how a rule empties a list of its preset."""
    return () if value in ([], ()) else _read_globs(value)


def _check_pattern(pattern: str) -> str:
    count_steps(pattern)
    return pattern


def _read_jitter(value: object) -> object:
    match value:
        case Additive():
            return value
        case str() if value in set(Spread):
            return Spread(value)
        case {"additive": most, **others} if not others:
            try:
                return Additive(most=check_duration(parse_duration(most)))
            except ValueError as error:
                raise ValueError(f"additive {error}") from None
        case _:
            raise ValueError(_JITTER)


def _one_of(*words: str) -> AfterValidator:
    *others, last = words
    known = f"{', '.join(others)} or {last}" if others else last

    def check(word: str) -> str:
        if word not in words:
            raise ValueError(f"must be {known}")
        return word

    return AfterValidator(check)


PresetName = Annotated[str, _one_of(*PRESETS)]
ReasonSet = Annotated[str, _one_of(GATEWAY_SET)]
Name = Annotated[str, AfterValidator(_check_name)]
Globs = Annotated[tuple[str, ...], BeforeValidator(_read_globs)]
GlobsOrNone = Annotated[tuple[str, ...], BeforeValidator(_read_globs_or_none)]
PatternText = Annotated[str, AfterValidator(_check_pattern)]


def _check_factor(factor: float) -> float:
    if not 1 <= factor <= 1000:  # noqa: PLR2004 - said in the same line
        raise ValueError("must be between 1 and 1000")
    return factor


def _refuse_no_delay(delays: Sequence[object]) -> Sequence[object]:
    if not delays:
        raise ValueError("must hold at least one delay")
    return delays


class BackoffSection(Section):
    """How long a message waits after its nth failure; which keys there are depends on the kind."""

    kind: Literal["exponential", "linear", "fixed", "list"]
    first: Duration | None = None
    factor: Annotated[float, AfterValidator(_check_factor)] | None = None
    step: Duration | None = None
    cap: Duration | None = None
    delays: Annotated[tuple[Duration, ...], AfterValidator(_refuse_no_delay)] | None = None


class MatchSection(Section):
    """Which failures a rule decides about."""

    queue: Globs = ()
    endpoint: Globs = ()
    message_type: Globs = ()
    exception: Globs = ()
    reason: Globs = ()


class ReasonSection(Section):
    """Which failures get a reason; or the name of a set of such entries."""

    set: ReasonSet | None = None
    reason: Name | None = None
    queue: Globs = ()
    message_type: Annotated[
        Globs, Field(validation_alias=AliasChoices("message_type", "type"))
    ] = ()
    exception: Globs = ()
    failure_reason: Globs = ()
    message: PatternText | None = None


class RuleSection(Section):
    """What is decided about the failures that match.

    A preset gives what is left out; without one nothing is retried.
    """

    name: Name
    match: MatchSection
    preset: PresetName | None = None
    attempts: Annotated[Count, between(0, MOST_ATTEMPTS)] | None = None
    backoff: BackoffSection | None = None
    cooldown: DurationOrNone | None = None
    jitter: Annotated[Jitter, BeforeValidator(_read_jitter)] | None = None
    never: GlobsOrNone | None = None
    only: GlobsOrNone | None = None
    then: GivingUp = GivingUp.DEAD
    stream: StreamRule | None = None
    breaker: BreakerSettings | None = None


class PoisonSection(Section):
    """When a message is poison."""

    crashes: Annotated[Count, between(1, MOST_ATTEMPTS)] = MOST_CRASHES


class PoliciesSection(Section):
    """Which failures are retried by themselves, when, and how often."""

    default: Unmatched = Unmatched.WAIT
    per_second: Annotated[Count, between(1, _MOST_PER_SECOND)] = PER_SECOND
    notices: OptionalQueue = None
    classify: tuple[ReasonSection, ...] = ()
    rules: tuple[RuleSection, ...] = ()
    poison: PoisonSection = PoisonSection()


def list_policy_fields(place: Sequence[int | str]) -> list[str]:
    """Return the keys that are known at a place below `policies`."""
    return list(_section_at(place).model_fields)


def _section_at(place: Sequence[int | str]) -> type[BaseModel]:
    match place:
        case []:
            return PoliciesSection
        case ["classify", *_]:
            return ReasonSection
        case ["rules", _, str(part)]:
            return _PARTS_OF_A_RULE.get(part, RuleSection)
        case ["poison"]:
            return PoisonSection
        case _:
            return RuleSection


_PARTS_OF_A_RULE: Mapping[str, type[BaseModel]] = MappingProxyType(
    {"match": MatchSection, "backoff": BackoffSection, "breaker": BreakerSettings}
)


Clash = tuple[tuple[int | str, ...], str]
Tree = Mapping[Any, Any]

_ROOT = "policies"
_NEEDED = {
    "exponential": ("first",),
    "linear": ("first", "step"),
    "fixed": ("first",),
    "list": ("delays",),
}
_ALLOWED = {
    "exponential": ("first", "factor", "cap"),
    "linear": ("first", "step", "cap"),
    "fixed": ("first",),
    "list": ("delays",),
}
_CONDITIONS = ("queue", "message_type", "type", "exception", "failure_reason", "message")
_OF_A_SET = ("queue", "message_type", "type")
"""The conditions that limit a set; `type` is another name of `message_type`."""

_LARGEST_NAMED = 3


def find_policy_clashes(tree: Tree, own_queues: Container[str]) -> Iterator[Clash]:
    """Find them, with the place of each in the tree; own queues are those that Retrier empties."""
    match tree:
        case {"policies": dict(policies)}:
            yield from _find_notices(policies, own_queues)
            reasons = _list(policies, "classify")
            for index, each in enumerate(reasons):
                yield from _find_in_reason(each, (_ROOT, "classify", index))
            yield from _find_too_many_steps(reasons)
            yield from _find_in_rules(_list(policies, "rules"), own_queues)
        case _:
            return


def _list(tree: Tree, key: str) -> list[Tree]:
    """Return a list of mappings; what is none is an empty one: its shape is a problem of its own."""
    match tree.get(key):
        case [*entries]:
            return [each if isinstance(each, dict) else {} for each in entries]
        case _:
            return []


def _find_notices(policies: Tree, own_queues: Container[str]) -> Iterator[Clash]:
    notices = policies.get("notices")
    if isinstance(notices, str) and notices in own_queues:
        # Each notice would be ingested as a failure, and might become dead in turn: for ever.
        yield (_ROOT, "notices"), f"{notices} is a queue that Retrier itself empties"


def _find_in_reason(entry: Tree, place: tuple[int | str, ...]) -> Iterator[Clash]:
    if not entry:
        return
    conditions = [each for each in _CONDITIONS if each in entry]
    if "set" in entry:
        given = [each for each in ("reason", *conditions) if each in entry]
        if others := [each for each in given if each not in _OF_A_SET]:
            yield (
                (*place, "set"),
                f"goes with queue and message_type only, not with {', '.join(others)}",
            )
        return
    if "reason" not in entry:
        yield (*place, "reason"), "must be given"
    if not conditions:
        yield (
            place,
            f"must have at least one of {', '.join(each for each in _CONDITIONS if each != 'type')}",
        )


def _find_too_many_steps(reasons: Sequence[Tree]) -> Iterator[Clash]:
    """Find out whether all regular expressions together may search for too long.

    They are searched in each message at once, while the transaction that stores it is open.
    """
    texts = ((index, each.get("message")) for index, each in enumerate(reasons))
    steps = [(_count(text), index) for index, text in texts if isinstance(text, str)]
    total = sum(each for each, _ in steps)
    if total > MOST_STEPS:
        largest = sorted(steps, key=lambda each: (-each[0], each[1]))[:_LARGEST_NAMED]
        named = ", ".join(f"[{index}] {each}" for each, index in largest)
        words = (
            f"its regular expressions take {total} steps together for each character of a text, "
            f"and {MOST_STEPS} are the most; the largest: {named}"
        )
        yield (_ROOT, "classify"), words


def _count(pattern: str) -> int:
    """Return how many steps a pattern takes; 0 for one that is a problem of its own."""
    try:
        return count_steps(pattern)
    except ValueError:
        return 0


def _find_in_rules(rules: list[Tree], own_queues: Container[str]) -> Iterator[Clash]:
    names = [each.get("name") for each in rules]
    for index, rule in enumerate(rules):
        place, name = (_ROOT, "rules", index), names[index]
        if name is not None and name in names[:index]:
            yield (*place, "name"), f"{name} is the name of an earlier rule"
        if name == UNMATCHED:
            yield (*place, "name"), f"{name} stands for what no rule matches"
        if rule:
            yield from _find_missing(rule, place)
            yield from _find_in_backoff(rule, (*place, "backoff"))
            yield from _find_own_queue(rule, place, own_queues)


def _find_missing(rule: Tree, place: tuple[int | str, ...]) -> Iterator[Clash]:
    name = rule.get("preset")
    preset = PRESETS.get(name) if isinstance(name, str) else None
    if name is not None and preset is None:
        return  # which is a problem of its own
    attempts = rule.get("attempts")
    if name == COOLDOWN:
        if "backoff" in rule:
            yield (*place, "backoff"), "does not go with the preset cooldown"
    elif "cooldown" in rule:
        yield (*place, "cooldown"), "is for the preset cooldown"
    elif preset is None and "backoff" not in rule and attempts not in (None, 0, 1):
        yield (*place, "backoff"), "must be given, unless a preset gives it"


def _find_in_backoff(rule: Tree, place: tuple[int | str, ...]) -> Iterator[Clash]:
    backoff = rule.get("backoff")
    kind = backoff.get("kind") if isinstance(backoff, dict) else None
    if not isinstance(backoff, dict) or not isinstance(kind, str) or kind not in _NEEDED:
        return
    for key in _NEEDED[kind]:
        if key not in backoff:
            yield (*place, key), f"must be given with the kind {kind}"
    known = {key for keys in _ALLOWED.values() for key in keys}
    for key in backoff:
        if key in known and key not in _ALLOWED[kind]:
            yield (*place, key), f"is not for the kind {kind}"


def _find_own_queue(
    rule: Tree, place: tuple[int | str, ...], own_queues: Container[str]
) -> Iterator[Clash]:
    match rule.get("match"):
        case {"queue": str(queue)}:
            queues = [queue]
        case {"queue": [*several]}:
            queues = [str(each) for each in several]
        case _:
            return
    if (
        queues
        and len(patterns.plain(queues)) == len(queues)
        and all(each in own_queues for each in queues)
    ):
        named = ", ".join(queues)
        yield (*place, "match", "queue"), f"matches only what Retrier itself empties: {named}"


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
    conditions = section.model_dump(
        include={"queue", "message_type", "exception", "failure_reason", "message"}
    )
    return (ReasonRule(reason=section.reason or "", **conditions),)


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
            return ListedDelays(delays=section.delays or (LONGEST,))
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
    for reason in patterns.plain(wanted):
        if reason not in BUILT_IN and reason not in given:
            yield f"{place}: no failure gets the reason {reason}"

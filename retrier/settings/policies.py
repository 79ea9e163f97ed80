"""The section `policies`: its keys and values, each checked by itself."""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, Field

from retrier.domain.streams import StreamRule
from retrier.policy.classification import GATEWAY_SET, MOST_CRASHES
from retrier.policy.delays import PRESETS, Additive, Jitter, Spread
from retrier.policy.pattern_time import LONGEST_SEARCH, longest_search
from retrier.policy.policy_set import PER_SECOND, GivingUp, Unmatched
from retrier.settings.breakers import BreakerSettings
from retrier.settings.fields import (
    Count,
    Duration,
    DurationOrNone,
    OptionalQueue,
    Section,
    between,
    check_duration,
    parse_duration,
)

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
    try:
        re.compile(pattern)
        seconds = longest_search(pattern)
    except (re.error, OverflowError) as error:
        raise ValueError(f"is no regular expression ({error})") from None
    except RecursionError:
        raise ValueError("is a regular expression that is nested too deeply") from None
    if seconds > LONGEST_SEARCH:
        raise ValueError(
            "may search for longer than 100 ms in a hostile text: repeat less within and behind "
            "other repetitions, for example with {0,50} in place of *, and leave out .* at its beginning"
        )
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


Preset = Annotated[str, _one_of(*PRESETS)]
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
    preset: Preset | None = None
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

"""The settings of breakers: of the section `breakers`, and of a policy's rule."""

import re
from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, model_validator

from retrier.domain.breakers import BreakerTerms, Per
from retrier.settings.fields import Count, Duration, Section, at_least, between, parse_duration

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

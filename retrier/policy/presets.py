"""Presets: parts of a rule that were chosen well once, by name; a rule may replace each of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType

from retrier.policy import reasons
from retrier.policy.backoff import Backoff, Exponential
from retrier.policy.globs import Globs
from retrier.policy.jitter import Additive, Jitter, Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """What a preset gives to a rule; None means that the rule has to say it itself."""

    attempts: int | None
    backoff: Backoff | None
    jitter: Jitter = Spread.NONE
    never: Globs = ()
    only: Globs = ()


_OUTBOX = Exponential(first=timedelta(minutes=1), cap=timedelta(hours=1))

COOLDOWN = "cooldown"

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "outbox": Preset(attempts=10, backoff=_OUTBOX),
        "gateway": Preset(
            attempts=3,
            backoff=Exponential(first=timedelta(seconds=5)),
            jitter=Additive(most=timedelta(seconds=5)),
            only=("GW_5XX", "GW_TIMEOUT", "IO_ERROR", "UNKNOWN"),
        ),
        COOLDOWN: Preset(attempts=None, backoff=None),
        "caf": Preset(
            attempts=10,
            backoff=_OUTBOX,
            never=(reasons.HANDLER_EXCEPTION, reasons.INVALID_MESSAGE, reasons.POISON_MESSAGE),
        ),
    }
)
"""By name. `cooldown` waits the same time after each failure: a rule gives time and attempts."""

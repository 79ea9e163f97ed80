"""How much of what failure headers say is kept and shown."""

from dataclasses import fields
from operator import attrgetter
from typing import Any

from retrier.domain.failed_message import FailureDetails
from retrier.domain.text import COLUMN_BYTES, LONG_BYTES, clean

_LONG = ("exception_message", "stack_trace", "completed_steps")
_TIMES_AND_COUNTS = ("time_of_failure", "time_sent", "attempts_reported")
_SHORT = tuple(
    field.name for field in fields(FailureDetails) if field.name not in (*_LONG, *_TIMES_AND_COUNTS)
)

LIMITS = {**dict.fromkeys(_SHORT, COLUMN_BYTES), **dict.fromkeys(_LONG, LONG_BYTES)}
"""Bytes of UTF-8 that each text of a failure may have."""

_short_texts, _long_texts = attrgetter(*_SHORT), attrgetter(*_LONG)


def out_of_limits(details: FailureDetails) -> dict[str, Any]:
    """Return what cannot be kept as it is, cut and cleaned: of most messages nothing."""
    if _fits(_short_texts(details), COLUMN_BYTES) and _fits(_long_texts(details), LONG_BYTES):
        return {}
    texts = ((name, getattr(details, name), limit) for name, limit in LIMITS.items())
    fitting = [(name, text, clean(text, limit)) for name, text, limit in texts if text]
    return {name: cleaned for name, text, cleaned in fitting if cleaned is not text}


def _fits(texts: tuple[str | None, ...], limit: int) -> bool:
    """Say whether none of these needs cleaning: one look at all of them together."""
    together = "".join([text for text in texts if text])
    return clean(together, limit) is together

"""Patterns of header names that a retry leaves out: with `*`, in any case, as people write them."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from retrier.domain import headers

_NEEDED = (
    headers.UNIQUE_MESSAGE_ID,
    headers.ACKNOWLEDGEMENT_QUEUE,
    headers.RETRY_SUCCESSFUL,
    headers.RETRY_ID,
    headers.COMPLETED_STEPS,
    headers.MESSAGE_TYPE,
    headers.ENDPOINT,
    headers.STREAM,
    headers.NOTICE_ID,
)
"""What a retry says of itself, and what tells which message it is when it fails again."""


def is_among(name: str, patterns: Iterable[str]) -> bool:
    """Say whether a header's name fits one of the patterns."""
    small = name.casefold()
    return any(fnmatchcase(small, each.casefold()) for each in patterns)


def why_not_dropped(pattern: str) -> str | None:
    """Say why no retry may go without what fits the pattern; None when it may."""
    needed = next((each for each in _NEEDED if is_among(each, [pattern])), None)
    return None if needed is None else f"would leave out {needed}, which a retry needs"

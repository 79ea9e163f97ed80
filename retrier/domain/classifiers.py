"""The classifiers: which failures look alike, and under which title."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from types import MappingProxyType

from retrier.domain.failed_message import FailureDetails
from retrier.domain.failure_group import FailureGroup
from retrier.domain.identity import md5_guid
from retrier.domain.stack_trace import first_frame
from retrier.domain.text import clean

Classify = Callable[[FailureDetails], tuple[FailureGroup, ...]]
"""Returns the groups of a failure."""


def classify(details: FailureDetails) -> tuple[FailureGroup, ...]:
    """Return the groups of a failure, one of each classifier that has something to go by.

    Ids are ServiceControl's: the MD5-Guid of classifier and title (ClassifyFailedMessageEnricher).
    """
    titles = ((name, title_of(details)) for name, title_of in _TITLES.items())
    return tuple(_group(name, clean(title)) for name, title in titles if title)


def classify_alike() -> Classify:
    """Return a classification that looks at failures that are alike once.

    It remembers all it has seen: for one received batch, in which many have the same cause.
    """
    known: dict[tuple[str | None, ...], tuple[FailureGroup, ...]] = {}

    def classify_once(details: FailureDetails) -> tuple[FailureGroup, ...]:
        key = _told_by(details)
        groups = known.get(key)
        if groups is None:
            groups = known[key] = classify(details)
        return groups

    return classify_once


_told_by = attrgetter(
    "exception_type",
    "exception_message",
    "stack_trace",
    "failure_reason",
    "message_type",
    "queue",
    "endpoint",
)
"""All that a classifier looks at."""


def _group(classifier: str, title: str) -> FailureGroup:
    return FailureGroup(group_id=md5_guid(classifier + title), classifier=classifier, title=title)


def _exception_and_frame(details: FailureDetails) -> str | None:
    """Say what was thrown and where; without an exception, why it was given up and by whom."""
    if not details.exception_type:
        return f"{details.failure_reason}: {details.queue}" if details.failure_reason else None
    frame = first_frame(details.stack_trace or "", details.exception_message)
    return f"{details.exception_type}: {frame or 'No stacktrace'}"


def _message_type(details: FailureDetails) -> str | None:
    return details.message_type


def _queue(details: FailureDetails) -> str:
    return details.queue


def _endpoint(details: FailureDetails) -> str | None:
    return details.endpoint


_TITLES: Mapping[str, Callable[[FailureDetails], str | None]] = MappingProxyType(
    {
        "Exception Type and Stack Trace": _exception_and_frame,
        "Message Type": _message_type,
        "Endpoint Address": _queue,
        "Endpoint Name": _endpoint,
    }
)

CLASSIFIERS: tuple[str, ...] = tuple(_TITLES)
"""The names of the classifiers, the default one first."""

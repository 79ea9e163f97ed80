"""The classifiers: which failures look alike, and under which title."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from retrier.domain.failed_message import FailureDetails
from retrier.domain.failure_group import FailureGroup
from retrier.domain.identity import md5_guid
from retrier.domain.stack_trace import first_frame
from retrier.domain.text import clean


def classify(details: FailureDetails) -> tuple[FailureGroup, ...]:
    """Return the groups of a failure, one of each classifier that has something to go by.

    Ids are ServiceControl's: the MD5-Guid of classifier and title (ClassifyFailedMessageEnricher).
    """
    titles = ((name, title_of(details)) for name, title_of in _TITLES.items())
    return tuple(_group(name, clean(title)) for name, title in titles if title)


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

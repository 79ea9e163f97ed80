"""The built-in classifiers: each gives a failure a title; failures with one title are a group."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from hashlib import sha256
from operator import attrgetter
from types import MappingProxyType

from retrier.domain.failed_message import Cause, FailureDetails, FailureGroup
from retrier.domain.identity import FINGERPRINT_DIGITS, md5_guid
from retrier.domain.text import clean

NO_REASON = "no reason given"
"""In the title of a group, and in lists, for a failure that has neither exception nor reason."""


class GroupKey(StrEnum):
    """What a list of groups can be sorted by: its last failure, when it was first seen, its size."""

    LAST = "last"
    FIRST = "first"
    COUNT = "count"


CauseOf = Callable[[FailureDetails], Cause]
"""Returns the cause of a failure."""

Fold = Callable[[str], str]
"""Takes out of the name of a type or a frame what was generated: else each failure is a group."""


def as_it_is(name: str) -> str:
    """Return a name of which nothing was generated."""
    return name


def classify(details: FailureDetails, fold: Fold = as_it_is) -> tuple[FailureGroup, ...]:
    """Return the groups of a failure: one of each classifier, so that no list of groups hides it.

    Ids are ServiceControl's: the MD5-Guid of classifier and title (ClassifyFailedMessageEnricher).
    """
    titles = (
        (CLASSIFIERS[0], _exception_and_frame(details, fold)),
        *((name, title_of(details)) for name, title_of in _TITLES.items()),
    )
    return tuple(_group(name, clean(title)) for name, title in titles)


def cause_of(details: FailureDetails, fold: Fold = as_it_is) -> Cause:
    """Return the cause of a failure, with its groups.

    Of a stack trace only the frame in a title counts: most traces differ in line numbers and ids.
    The type is folded, too: a cause for each message would be as slow as a group.
    """
    if details.exception_type:
        details = replace(details, exception_type=fold(details.exception_type))
    groups = classify(details, fold)
    return Cause(
        fingerprint=_fingerprint(details, groups),
        queue=details.queue,
        destination=details.destination,
        endpoint=details.endpoint,
        message_type=details.message_type,
        exception_type=details.exception_type,
        failure_reason=details.failure_reason,
        exception_message=clean(details.exception_message) if details.exception_message else None,
        groups=groups,
    )


def cause_of_alike(fold: Fold = as_it_is) -> CauseOf:
    """Return a `cause_of` with a cache: failures with equal fields are classified once.

    The cache never forgets: use one for each received batch, in which many have the same cause.
    """
    known: dict[tuple[str | None, ...], Cause] = {}

    def cause_of_once(details: FailureDetails) -> Cause:
        key = _cause_fields(details)
        cause = known.get(key)
        if cause is None:
            cause = known[key] = cause_of(details, fold)
        return cause

    return cause_of_once


_shared_fields = attrgetter(
    "queue", "destination", "endpoint", "message_type", "exception_type", "failure_reason"
)
"""The fields that are equal in all failures of one cause."""

_cause_fields = attrgetter(
    "exception_type",
    "exception_message",
    "stack_trace",
    "failure_reason",
    "message_type",
    "queue",
    "destination",
    "endpoint",
)
"""All fields from which a cause is computed."""


def _fingerprint(details: FailureDetails, groups: tuple[FailureGroup, ...]) -> str:
    # As JSON: it keeps the parts apart, and None differs from an empty text.
    parts = [_shared_fields(details), [group.group_id for group in groups]]
    return sha256(json.dumps(parts).encode()).hexdigest()[:FINGERPRINT_DIGITS]


def _group(classifier: str, title: str) -> FailureGroup:
    return FailureGroup(group_id=md5_guid(classifier + title), classifier=classifier, title=title)


WITHOUT_TRACE = ": No stacktrace"
"""How the title of a group ends whose failures have no stack trace: the same as ServiceControl's."""


def _exception_and_frame(details: FailureDetails, fold: Fold) -> str:
    """Return what was thrown and where; without an exception, why the message was given up."""
    if details.exception_type:
        frame = first_frame(details.stack_trace or "", details.exception_message)
        return f"{details.exception_type}{f': {fold(frame)}' if frame else WITHOUT_TRACE}"
    return f"{details.failure_reason or NO_REASON}: {details.queue}"


def _message_type(details: FailureDetails) -> str:
    return details.message_type or f"no message type: {details.queue}"


def _queue(details: FailureDetails) -> str:
    return details.queue


def _endpoint(details: FailureDetails) -> str:
    return details.endpoint or f"no endpoint name: {details.queue}"


_TITLES: Mapping[str, Callable[[FailureDetails], str]] = MappingProxyType(
    {
        "Message Type": _message_type,
        "Endpoint Address": _queue,
        "Endpoint Name": _endpoint,
    }
)

CLASSIFIERS: tuple[str, ...] = ("Exception Type and Stack Trace", *_TITLES)
"""The names of the classifiers, the default one first."""


LONGEST_LINE = 2000

PYTHON = re.compile(r'\s*(?:\|\s*)*File "(?P<file>[^"]+)", line \d+(?:, in (?P<function>.+))?')
AT = re.compile(r"\s*at (?:async )?(?P<frame>.+)")
PHP = re.compile(
    r"#\d{1,9} [^(]*(?:\(\d{1,9}\)|\[internal function\]|\(main\)): (?P<function>[^(\s]+)\(.*"
)
NODE_FILE = re.compile(r"(?P<file>\S+?):\d+(?::\d+)?")
CALL = re.compile(r"(?P<function>[^()]+)\((?P<inside>[^()]*)")
JAVA_PLACE = re.compile(r"[^\s,]+\.\w+(?::\d+)?|Native Method|Unknown Source|<generated>")
"""What Java writes between the brackets. .NET writes parameters: none, or with a space each."""


def first_frame(stack_trace: str, exception_message: str | None) -> str | None:
    """Return the frame that names the cause, without lines and paths; None if none is found.

    .NET, Java, Node: the first `at` line. PHP: the first numbered call. Python: the last `File` line, the innermost call. The
    exception's message is taken out first: it may look like a frame.
    """
    lines = [line[:LONGEST_LINE] for line in _without(stack_trace, exception_message).splitlines()]
    python = [match for line in lines if (match := PYTHON.match(line))]
    if python:
        return _python_frame(python[-1])
    php = next((match for line in lines if (match := PHP.fullmatch(line.strip()))), None)
    if php:
        return php["function"]
    frames = (_at_frame(match["frame"]) for line in lines if (match := AT.match(line)))
    return next((frame for frame in frames if frame), None)


def _without(stack_trace: str, message: str | None) -> str:
    """Remove the message only where a header line quotes it: its text may occur elsewhere, too."""
    return stack_trace.replace(f": {message}", ": ") if message else stack_trace


def _python_frame(match: re.Match[str]) -> str:
    return f"{_file_name(match['file'])} in {match['function'] or '<module>'}"


def _at_frame(frame: str) -> str | None:
    if place := NODE_FILE.fullmatch(frame.strip()):
        return _file_name(place["file"])
    call = CALL.match(frame)
    if call is None:
        return None
    function = call["function"]
    if function.endswith(" ") or JAVA_PLACE.fullmatch(call["inside"]):
        return function.strip()
    return f"{function}({call['inside']})"


def _file_name(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]

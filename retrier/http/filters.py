"""The conditions in an address: which failed messages are meant, and which events."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Annotated, Self

from fastapi import Depends, Query, Request
from pydantic import WithJsonSchema

from retrier.clock import SystemClock
from retrier.domain.access import OPEN, Access, Right
from retrier.domain.events import ROUTINE, find_wrong_kind, read_kinds
from retrier.domain.fields import (
    PREFIX,
    FieldCondition,
    FieldConditions,
    NoCondition,
    read_conditions,
)
from retrier.domain.identity import canonical, is_guid
from retrier.domain.outcomes import RetryOutcome
from retrier.domain.parameters import FAMILY
from retrier.domain.selection import (
    NO_DEAD,
    NO_OUTCOME,
    OUTCOME_ALONE,
    Selection,
    WantedDisposition,
    asks_for_dead,
    find_unknown_status,
    read_statuses,
)
from retrier.domain.text import SHORTEST, clean, ids_beginning
from retrier.domain.times import NoTime, as_sentence, last_moment_of, read_moment
from retrier.domain.values import dataclass
from retrier.errors import NotAllowed
from retrier.http.problems import WrongField
from retrier.store.engine.database import Database
from retrier.store.event_log import EventFilter, find_subjects

LARGEST_INTEGER = 2**31 - 1
"""What fits the integers of both databases."""

TURNED = "The end of the time lies before its beginning, so that nothing would match."
_NO_COUNT = "The number of attempts is a whole number."
_NO_DISPOSITION = f"A disposition is one of: {', '.join(WantedDisposition)}."
_DIGITS = 18


def choice(values: Iterable[str]) -> WithJsonSchema:
    """Describe a parameter that has one of these values; what else it may say, its reader decides."""
    return WithJsonSchema({"type": "string", "enum": [str(each) for each in values]})


_STATUS_NAMES = ("unresolved", "resolved", "retryIssued", "archived", "dead")
_STATUSES = WithJsonSchema(
    {
        "anyOf": [
            {"type": "string", "enum": list(_STATUS_NAMES)},
            {"type": "string", "pattern": "^-?[A-Za-z]+(,-?[A-Za-z]+)*$"},
        ]
    }
)


FieldTexts = tuple[tuple[str, str], ...]
"""Conditions on declared fields: the name of each, and what its value has to be."""


def fields_among(given: Iterable[tuple[str, str]]) -> FieldTexts:
    """Return the conditions on fields among names and values as they stand in an address."""
    return tuple(
        (name.removeprefix(PREFIX), value)
        for name, value in given
        if name.startswith(PREFIX) and value
    )


def read_fields(given: FieldTexts, known: Sequence[str] | None = None) -> FieldConditions:
    """Return what they mean; with `known`, a name that is none of them is refused.

    Raises WrongField.
    """
    return tuple(sorted(_read_fields(given, known), key=lambda each: each.name))


def _read_fields(given: FieldTexts, known: Sequence[str] | None) -> Iterator[FieldCondition]:
    for name, text in given:
        try:
            yield from read_conditions([(name, text)], known)
        except NoCondition as error:
            raise WrongField(f"query.{PREFIX}{name}"[:_LONGEST_SHOWN], str(error)) from None


_LONGEST_SHOWN = 100


def _fields_asked(
    request: Request,
    _any: Annotated[
        str,
        Query(
            alias=f"field{FAMILY}",
            description="the value of this declared field, or a range: 10..20, 2026-05-04..",
        ),
    ] = "",
) -> FieldTexts:
    found = fields_among(request.query_params.multi_items())
    access: Access = getattr(request.state, "access", OPEN)
    why_not = access.why_not(Right.READ_CONTENT) if found else None
    if why_not is not None:
        # Fields are read from bodies and headers: whoever may ask for values finds out each of them.
        raise NotAllowed(why_not)
    read_fields(found, request.app.state.parts.field_names)
    return found


def _words_asked(
    request: Request,
    words: Annotated[
        str,
        Query(
            description="words in headers, stack traces and bodies, if the settings have it read"
        ),
    ] = "",
) -> str:
    if words:
        access: Access = getattr(request.state, "access", OPEN)
        request.app.state.parts.of(access).must_find_words("query.words")
    return words


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterQuery:
    """The conditions as texts; an empty one is no condition."""

    status: Annotated[
        str, Query(description="e.g. unresolved,retryIssued or -archived; or dead"), _STATUSES
    ] = ""
    text: Annotated[
        str, Query(description="in what each shows: queue, endpoint, types, exception, reason")
    ] = ""
    group: str = ""
    queue: str = ""
    endpoint: str = ""
    message_type: str = ""
    exception_type: str = ""
    reason: str = ""
    stream: Annotated[str, Query(description="the id of a stream, of whichever queue")] = ""
    host: Annotated[str, Query(description="the machine on which it failed last")] = ""
    process: Annotated[str, Query(description="the process there, as its number")] = ""
    node: Annotated[str, Query(description="the worker's name among those of its application")] = ""
    message_id: Annotated[str, Query(description="the id that its sender gave it")] = ""
    failed_from: Annotated[str, Query(description="last failed then or later: ISO 8601, or 2h")] = (
        ""
    )
    failed_to: Annotated[str, Query(description="last failed then or before: ISO 8601, or 2h")] = ""
    attempts_at_least: Annotated[
        str,
        Query(description="failed so often or more"),
        WithJsonSchema({"type": "integer", "minimum": 0}),
    ] = ""
    disposition: Annotated[str, Query(), choice(WantedDisposition)] = ""
    archived_by: Annotated[str, Query(description="the id of an archive operation")] = ""
    operation: Annotated[str, Query(description="the id of a retry operation")] = ""
    outcome: Annotated[str, Query(description="what became of its retry"), choice(RetryOutcome)] = (
        ""
    )
    words: Annotated[str, Depends(_words_asked)] = ""
    fields: Annotated[FieldTexts, Depends(_fields_asked)] = ()

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """Return the conditions by their names, as `values` has them. Raises TypeError for others."""
        plain = {name: value for name, value in given.items() if not name.startswith(PREFIX)}
        return cls(**plain, fields=fields_among(given.items()))

    @property
    def values(self) -> dict[str, str]:
        """The conditions that are set, by name. Blanks are one: without it more would be selected."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        of_fields = {f"{PREFIX}{name}": value for name, value in plain.pop("fields")}
        return {name: value for name, value in plain.items() if value} | of_fields


def read_filter(query: FilterQuery) -> Selection:
    """Return the messages that the conditions mean. Raises WrongField."""
    first = read_time(query.failed_from, "query.failed_from")
    last = read_time(query.failed_to, "query.failed_to")
    if last is not None:
        last = last_moment_of(last, query.failed_to)
    if first is not None and last is not None and last < first:
        raise WrongField("query.failed_to", TURNED)
    return Selection(
        group=query.group or None,
        queue=query.queue or None,
        endpoint=query.endpoint or None,
        exception_type=query.exception_type or None,
        message_type=query.message_type or None,
        statuses=read_statuses(query.status),
        reason=query.reason or None,
        stream=query.stream or None,
        host=query.host or None,
        process=query.process or None,
        node=query.node or None,
        failed_from=first,
        failed_to=last,
        attempts_at_least=_read_count(query.attempts_at_least),
        disposition=_read_disposition(query),
        text=query.text or None,
        archived_by=query.archived_by or None,
        operation=query.operation or None,
        outcome=_read_outcome(query),
        message_id=query.message_id or None,
        words=query.words or None,
        fields=read_fields(query.fields),
    )


def read_time(text: str, name: str) -> datetime | None:
    """Return the time that a text says, None for none; `name` is its parameter. Raises WrongField."""
    if not text:
        return None
    try:
        return read_moment(text.strip(), SystemClock().now())
    except NoTime as error:
        raise WrongField(name, as_sentence(error)) from None


def _read_count(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise WrongField("query.attempts_at_least", _NO_COUNT)
    # A larger number would not fit the integers of databases; no message failed so often.
    return min(int(text[:_DIGITS]), LARGEST_INTEGER)


def _read_outcome(query: FilterQuery) -> RetryOutcome | None:
    if not query.outcome:
        return None
    if query.outcome not in list(RetryOutcome):
        raise WrongField("query.outcome", NO_OUTCOME)
    if not query.operation:
        raise WrongField("query.outcome", OUTCOME_ALONE)
    return RetryOutcome(query.outcome)


def _read_disposition(query: FilterQuery) -> WantedDisposition | None:
    """Return what was decided; people write that something is dead as its status, too."""
    text = query.disposition
    if text and text not in list(WantedDisposition):
        raise WrongField("query.disposition", _NO_DISPOSITION)
    dead = asks_for_dead(query.status, text)
    if dead is None:
        raise WrongField("query.status", NO_DEAD)
    if dead:
        return WantedDisposition.DEAD
    why_not = find_unknown_status(query.status)
    if why_not is not None:
        raise WrongField("query.status", why_not)
    return WantedDisposition(text) if text else None


YES = "yes"
_YES_OR_NO = {"": False, "no": False, YES: True}
_NO_ANSWER = "It is yes or no."
_NO_NAME = "Nobody has such a name: it holds NUL, or it is too long."
_A = {"operation": "an operation", "message": "a message"}
_NO_ID = f"An id is wanted here: 36 characters, or its first {SHORTEST} or more."


@dataclass(frozen=True, slots=True, kw_only=True)
class EventQuery:
    """The conditions as texts; an empty one is no condition."""

    kind: Annotated[str, Query(description="a list of kinds, such as retry_asked")] = ""
    who: Annotated[str, Query(description="the name of who did it")] = ""
    people: Annotated[str, Query(description="yes: only what people did")] = ""
    routine: Annotated[
        str, Query(description=f"yes: with what is routine, {', '.join(sorted(ROUTINE))}")
    ] = ""
    since: Annotated[str, Query(description="happened then or later: ISO 8601, or 2h")] = ""
    until: Annotated[str, Query(description="happened then or before: ISO 8601, or 2h")] = ""
    operation: Annotated[str, Query(description="the id of an operation, or its beginning")] = ""
    message: Annotated[
        str, Query(description="the unique id of a failed message, or its beginning")
    ] = ""

    @property
    def values(self) -> dict[str, str]:
        """The conditions that are set, by name."""
        return {name: value for name, value in asdict(self).items() if value}


def read_events(query: EventQuery, db: Database) -> EventFilter:
    """Return the events that the conditions mean; the database knows whole ids.

    Raises WrongField, DatabaseUnavailable.
    """
    kinds = read_kinds(query.kind)
    why_not = find_wrong_kind(kinds)
    if why_not is not None:
        raise WrongField("query.kind", why_not)
    if clean(query.who) != query.who:
        raise WrongField("query.who", _NO_NAME)
    since = read_time(query.since, "query.since")
    until = read_time(query.until, "query.until")
    if until is not None:
        until = last_moment_of(until, query.until)
    if since is not None and until is not None and until < since:
        raise WrongField("query.until", TURNED)
    return EventFilter(
        kinds=kinds or None,
        who=query.who.strip() or None,
        by_people=is_yes(query.people, "query.people"),
        with_routine=is_yes(query.routine, "query.routine"),
        since=since,
        until=until,
        operation_id=_read_id(db, query.operation, "operation"),
        unique_message_id=_read_id(db, query.message, "message"),
    )


def is_yes(text: str, name: str) -> bool:
    """Say whether a text says yes; an empty one says no. `name` is its parameter. Raises WrongField."""
    if text not in _YES_OR_NO:
        raise WrongField(name, _NO_ANSWER)
    return _YES_OR_NO[text]


def _read_id(db: Database, text: str, noun: str) -> str | None:
    """Return the whole id that a text begins; events say which there are."""
    named = text.strip()
    if not named:
        return None
    if is_guid(named):
        return canonical(named)
    ids = ids_beginning(named)
    if ids is None:
        raise WrongField(f"query.{noun}", _NO_ID)
    found = find_subjects(db, ids, messages=noun == "message")
    if found is None:
        raise WrongField(
            f"query.{noun}", f"No event is about {_A[noun]} whose id begins with {named}."
        )
    if found.first != found.last:
        raise WrongField(
            f"query.{noun}",
            f"Several ids begin with {named}, {found.first} and {found.last} among them: give more "
            f"of the one you mean.",
        )
    return found.first

"""Selections: conditions that choose the messages of a request or a list, joined by *and*."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from retrier.domain.access import QueuePatterns
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.fields import PREFIX, FieldConditions
from retrier.domain.outcomes import RetryOutcome
from retrier.domain.parameters import nearest
from retrier.domain.text import IdRange
from retrier.domain.values import dataclass


class WantedDisposition(StrEnum):
    """Which messages by their disposition: those that have this one; or ANY, *dead* ones included.

    ANY is no condition. A bulk retry leaves *dead* messages out unless DEAD or ANY is asked for.
    """

    MANUAL = "manual"
    SCHEDULED = "scheduled"
    DEAD = "dead"
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Conditions on messages. None is no condition; with no condition at all, all are selected.

    `ids` are whole ids; `id_range` selects ids by their beginning. `modified` is a range of times
    of the last change, `sent_in` one of the times when the senders sent them, for lists; both ends included. `up_to` is a failure number: messages that became
    unresolved after the request have a higher one. `pending` selects only messages whose retry is
    recorded as forwarded and has no outcome yet, with `sent_before` only those recorded by then,
    with `sent_since` those recorded then or later.

    `host` is the machine of the last failure, `process` the process there, and `node` the name of
    the worker among those of its application.

    `reason` is what the failure is classified under, or the headers' own word. `stream`
    is the id of a stream, of whichever queue. `failed_from` and `failed_to` are times of the last failure, both included. `attempts_at_least` counts failures. `text` is looked for in what each message
    shows, in any case, or is its id. `endpoint` is the one shown: of a message without one, its queue. `archived_by` is the archive operation that archived the messages. `operation` is a retry operation that has or had a retry of them, `outcome` what became of it, and nothing without an operation. `message_id` is the
    sender's own id, for lists. `sent_to` is the queue to which the pending retry was sent
    because it failed there: no operation and no redirect had named another one. `fields` are
    conditions on declared fields, in order of their names. `words` are looked for in full text;
    `anywhere`, for lists, there and in what each message shows.

    `counted_to` and `passed_over` are those of a plan: what came to match under a higher number
    was not counted, nor were the messages with these failure numbers. `within` are patterns of the
    queues to which who asks has a right: what failed elsewhere is not selected.
    """

    ids: tuple[str, ...] | None = None
    group: str | None = None
    queue: str | None = None
    endpoint: str | None = None
    exception_type: str | None = None
    message_type: str | None = None
    reason: str | None = None
    stream: str | None = None
    host: str | None = None
    process: str | None = None
    node: str | None = None
    failed_from: datetime | None = None
    failed_to: datetime | None = None
    attempts_at_least: int | None = None
    disposition: WantedDisposition | None = None
    text: str | None = None
    archived_by: str | None = None
    operation: str | None = None
    outcome: RetryOutcome | None = None
    message_id: str | None = None
    words: str | None = None
    anywhere: str | None = None
    fields: FieldConditions = ()
    statuses: frozenset[FailedMessageStatus] | None = None
    modified: tuple[datetime, datetime] | None = None
    sent_in: tuple[datetime, datetime] | None = None
    id_range: IdRange | None = None
    up_to: int | None = None
    pending: bool = False
    sent_before: datetime | None = None
    sent_since: datetime | None = None
    sent_to: str | None = None
    counted_to: int | None = None
    passed_over: tuple[int, ...] = ()
    within: QueuePatterns | None = None


OF_PLACE = ("host", "process", "node")
"""Where the last failure was: the parts that are columns of the same names."""

NAMES = (
    *(
        "group",
        "queue",
        "endpoint",
        "exception_type",
        "message_type",
        "reason",
        "stream",
        "text",
        "words",
    ),
    *OF_PLACE,
)
"""The parts by which an operation may select that are texts."""

OTHER_PARTS = (
    "failed_from",
    "failed_to",
    "attempts_at_least",
    "disposition",
    "archived_by",
    "operation",
    "outcome",
)
"""The other parts by which an operation may select; written down as texts or numbers."""


def chosen_parts(selection: Selection) -> Mapping[str, str | int]:
    """Return the parts of a selection that may be stored, as JSON values, without those left open.

    Ids are left out, because an operation may name a hundred thousand.
    """
    parts = {name: getattr(selection, name) for name in (*NAMES, *OTHER_PARTS)}
    chosen = {name: _as_json(value) for name, value in parts.items() if value is not None}
    return {**chosen, **{each.key: each.text for each in selection.fields}}


BOUNDS = ("counted_to", "passed_over", "within")
"""What plans and rights add to a selection: stored with it, and no condition of a person."""


def bounds_of(selection: Selection) -> Mapping[str, object]:
    """Return what a plan and rights have added to a selection, as JSON values; empty without."""
    bounds = {
        "counted_to": selection.counted_to,
        "passed_over": list(selection.passed_over) or None,
        "within": None if selection.within is None else list(selection.within),
    }
    return {name: value for name, value in bounds.items() if value is not None}


def _as_json(value: str | int | datetime) -> str | int:
    return value.isoformat() if isinstance(value, datetime) else value


Part = TypeVar("Part", str | int, object)

UNTOLD = "(its value is not told here)"
"""Stands for the value of a condition on content in texts that everybody may read."""


def is_of_content(name: str) -> bool:
    """Say whether a condition of this name is on what stands in messages: on words, or on a field.

    Its value stands in the body or in a header of each message that matches.
    """
    return name == "words" or name.startswith(PREFIX)


def without_content(parts: Mapping[str, Part], instead: str) -> Mapping[str, Part]:
    """Return conditions by name, without the values of those that are on content."""
    return {name: instead if is_of_content(name) else part for name, part in parts.items()}


def describe(selection: Selection) -> str:
    """Return the selection in words, for texts that are stored and shown to all: `queue orders`.

    A condition on content is named without its value.
    """
    return _in_words(selection, without_content(chosen_parts(selection), UNTOLD))


def describe_wholly(selection: Selection) -> str:
    """Return the selection in words with all values, for who has just asked for it."""
    return _in_words(selection, chosen_parts(selection))


def _in_words(selection: Selection, parts: Mapping[str, str | int]) -> str:
    if selection.ids is not None:
        one = len(selection.ids) == 1
        return f"message {selection.ids[0]}" if one else f"{len(selection.ids)} messages"
    words = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in parts.items())
    return words or "all messages"


NO_OUTCOME = f"An outcome is one of: {', '.join(RetryOutcome)}."
OUTCOME_ALONE = "An outcome is that of an operation's retries: name the operation, too."

_LONGEST_SHOWN = 100
_STATUSES = {status.replace("_", ""): status for status in FailedMessageStatus}


def read_statuses(text: str) -> frozenset[FailedMessageStatus] | None:
    """Read a list of statuses, in which a minus excludes one; None if it names none.

    `find_unknown_status` says whether it may be used.
    """
    names = _names_in(text)
    included = _known(names)
    excluded = _known(name[1:] for name in names if name.startswith("-"))
    if not included and not excluded:
        return None
    return (included or frozenset(FailedMessageStatus)) - excluded


def find_unknown_status(text: str) -> str | None:
    """Return why a list of statuses is refused: it has a name that is none, or no name at all.

    None if all are known, or if nothing is said. A name that is left out would list more.
    """
    names = [name for name in _names_in(text) if name]
    unknown = [name for name in names if name.removeprefix("-") not in _STATUSES]
    if not text or (names and not unknown):
        return None
    near = nearest(unknown[0].removeprefix("-"), _STATUSES) if unknown else None
    meant = f"; perhaps {_STATUSES[near]} is meant" if near else ""
    named = (
        f"No status is called {unknown[0][:_LONGEST_SHOWN]}" if unknown else "It names no status"
    )
    return f"{named}{meant}. A status is one of: {', '.join(FailedMessageStatus)}."


def _names_in(text: str) -> list[str]:
    return text.lower().replace(" ", "").replace("_", "").split(",")


NO_DEAD = "dead is no status, but what was decided about an unresolved message: it stands alone, and with no other disposition."


def asks_for_dead(statuses: str, disposition: str) -> bool | None:
    """Say whether a list of statuses means the dead messages; None if NO_DEAD has to be said.

    People write `dead` there because lists show `unresolved (dead)`, and other queues have such a
    status.
    """
    names = {name.strip() for name in statuses.lower().split(",") if name.strip()}
    if names.isdisjoint({WantedDisposition.DEAD, f"-{WantedDisposition.DEAD}"}):
        return False
    fits = disposition in ("", WantedDisposition.DEAD, WantedDisposition.ANY)
    return True if fits and names == {WantedDisposition.DEAD} else None


def _known(names: Iterable[str]) -> frozenset[FailedMessageStatus]:
    return frozenset(_STATUSES[name] for name in names if name in _STATUSES)

"""The filter of the list of messages, the selection it means, and what is selected for an act."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import Annotated

from fastapi import Depends, HTTPException

from retrier.clock import SystemClock
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.identity import is_guid
from retrier.domain.selection import (
    NO_DEAD,
    Selection,
    WantedDisposition,
    asks_for_dead,
    describe,
    find_unknown_status,
    read_statuses,
)
from retrier.domain.text import clean
from retrier.domain.times import NoTime, as_sentence, is_duration, last_moment_of, read_moment
from retrier.store.groups import find_title
from retrier.web.forms import Form
from retrier.web.parts import PageParts

ANY_STATUS = "all"
LARGEST = 2**31 - 1
"""What fits the integers of both databases."""

_UNCLEAN = "No message has such a text as {}: it holds NUL, or it is too long."
_TURNED = "The end of the time lies before its beginning, so that nothing would match."
_NO_COUNT = "The number of attempts is a whole number."
_NO_DISPOSITION = f"What happens next is one of: {', '.join(WantedDisposition)}."
_NO_ID = "An id is 32 hexadecimal digits with dashes."


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterQuery:
    """The conditions as texts, named as in the API; an empty one is no condition."""

    status: str = ""
    text: str = ""
    group: str = ""
    queue: str = ""
    endpoint: str = ""
    message_type: str = ""
    exception_type: str = ""
    reason: str = ""
    stream: str = ""
    host: str = ""
    process: str = ""
    node: str = ""
    message_id: str = ""
    failed_from: str = ""
    failed_to: str = ""
    attempts_at_least: str = ""
    disposition: str = ""
    archived_by: str = ""

    @property
    def values(self) -> dict[str, str]:
        """The conditions that are set, by name. Blanks are one: without it more would be selected."""
        return {name: value for name, value in asdict(self).items() if value}


def read_filter(form: Form) -> FilterQuery:
    """Return the filter in the hidden fields of a form, exactly as it was shown."""
    names = (each.name for each in fields(FilterQuery))
    return FilterQuery(**{name: next(iter(form.values(name)), "") for name in names})


def read_address(query: Annotated[FilterQuery, Depends()]) -> FilterQuery:
    """Return the filter of an address, as the page writes it: dead is a disposition there.

    Raises HTTPException.
    """
    query = replace(
        query, failed_from=_settle(query.failed_from), failed_to=_settle(query.failed_to)
    )
    dead = asks_for_dead(query.status, query.disposition)
    if dead is None:
        raise HTTPException(400, NO_DEAD)
    if not dead:
        return query
    return replace(query, status=FailedMessageStatus.UNRESOLVED, disposition=WantedDisposition.DEAD)


def understand(query: FilterQuery) -> Selection:
    """Return the messages that a list with this filter shows. Raises HTTPException."""
    given = query.values
    check_texts(given)
    first, last = _time(given.get("failed_from")), _time(given.get("failed_to"))
    if last is not None:
        last = last_moment_of(last, given["failed_to"])
    if first is not None and last is not None and last < first:
        raise HTTPException(400, _TURNED)
    return Selection(
        group=given.get("group"),
        queue=given.get("queue"),
        endpoint=given.get("endpoint"),
        exception_type=given.get("exception_type"),
        message_type=given.get("message_type"),
        reason=given.get("reason"),
        stream=given.get("stream"),
        host=given.get("host"),
        process=given.get("process"),
        node=given.get("node"),
        text=given.get("text"),
        message_id=given.get("message_id"),
        archived_by=given.get("archived_by"),
        failed_from=first,
        failed_to=last,
        attempts_at_least=_count(given.get("attempts_at_least")),
        disposition=_disposition(given.get("disposition")),
        statuses=_statuses(query),
    )


def check_texts(given: Mapping[str, str]) -> None:
    """Refuse texts that no message has, and that databases do not look for. Raises HTTPException."""
    for name, value in given.items():
        if clean(value) != value:
            raise HTTPException(400, _UNCLEAN.format(name))


def name_ids(ids: Sequence[str]) -> Selection:
    """Return the selection of these messages. Raises HTTPException."""
    if not all(map(is_guid, ids)):
        raise HTTPException(400, _NO_ID)
    return Selection(ids=tuple(dict.fromkeys(ids)))


def select_all(query: FilterQuery) -> Selection | None:
    """Return all that a list shows as an act may select it; None if no act can say it.

    A sender's own id is a condition of lists only. Which status an act takes follows from the act,
    so a list of several statuses is not one selection.
    """
    shown = understand(query)
    status = only_status(shown)
    if status is None or shown.message_id is not None:
        return None
    if status is FailedMessageStatus.RETRY_ISSUED:
        return replace(shown, pending=True)
    return replace(shown, statuses=None)


def only_status(shown: Selection) -> FailedMessageStatus | None:
    """Return the one status that a list shows; None if it shows several."""
    only = shown.statuses or ()
    return next(iter(only)) if len(only) == 1 else None


def _statuses(query: FilterQuery) -> frozenset[FailedMessageStatus] | None:
    """Unresolved if nothing is said; any where one looks for certain messages."""
    if query.status == ANY_STATUS:
        return None
    if not query.status:
        certain = query.message_id or query.archived_by
        return None if certain else frozenset({FailedMessageStatus.UNRESOLVED})
    why_not = find_unknown_status(query.status)
    if why_not is not None:
        raise HTTPException(400, why_not)
    return read_statuses(query.status)


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return read_moment(text.strip(), SystemClock().now())
    except NoTime as error:
        raise HTTPException(400, as_sentence(error)) from None


def _settle(text: str) -> str:
    """Return a time that is the same whenever it is read again: `2h` becomes a moment.

    Any other stays as it is written: `10:00` at the end of a range is its whole minute.
    """
    if not is_duration(text.strip()):
        return text
    return read_moment(text.strip(), SystemClock().now()).isoformat(timespec="microseconds")


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise HTTPException(400, _NO_COUNT)
    return min(int(text[:18]), LARGEST)


def _disposition(text: str | None) -> WantedDisposition | None:
    if text is not None and text not in list(WantedDisposition):
        raise HTTPException(400, _NO_DISPOSITION)
    return None if text is None else WantedDisposition(text)


_BOTH = "Say first which status: all that match cannot be selected over several."


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """What an act is about: the selection, its words, and the hidden fields that say it again."""

    selection: Selection
    words: str
    fields: Mapping[str, str]


def select(
    parts: PageParts, query: FilterQuery, ids: Sequence[str], *, everything: bool
) -> Selected:
    """Return what is selected in a list with this filter. Raises HTTPException."""
    if not everything:
        named = name_ids(ids)
        return Selected(
            selection=named, words=describe(named), fields={"ids": " ".join(named.ids or ())}
        )
    selection = select_all(query)
    if selection is None:
        raise HTTPException(400, _BOTH)
    title = title_of(parts, query.group)
    words = describe(replace(selection, group=title)) if title else describe(selection)
    of_what = "pending retries: " if selection.pending else ""
    return Selected(
        selection=selection, words=f"{of_what}{words}", fields={**query.values, "all": "1"}
    )


def sent(parts: PageParts, form: Form) -> Selected:
    """Return what a form says again that a preview or a question has shown. Raises HTTPException."""
    ids = next(iter(form.values("ids")), "").split()
    everything = bool(form.text("all"))
    if not ids and not everything:
        raise HTTPException(400, "Nothing is selected.")
    return select(parts, read_filter(form), ids, everything=everything)


def title_of(parts: PageParts, group: str) -> str | None:
    """Return the title of a group; None if there is no such group."""
    return find_title(parts.db, group) if is_guid(group) else None

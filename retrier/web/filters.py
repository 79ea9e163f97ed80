"""The filter of the list of messages, the selection it means, and what is selected for an act."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Annotated

from fastapi import Depends, HTTPException

from retrier.clock import SystemClock
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.fields import PREFIX
from retrier.domain.identity import is_guid
from retrier.domain.selection import (
    NO_DEAD,
    Selection,
    WantedDisposition,
    asks_for_dead,
    describe,
    describe_wholly,
)
from retrier.domain.times import is_duration, read_moment
from retrier.domain.values import dataclass
from retrier.http.filters import FilterQuery
from retrier.http.views import understand
from retrier.store.groups import find_title
from retrier.web.forms import Form
from retrier.web.parts import PageParts

_NO_ID = "An id is 32 hexadecimal digits with dashes."


def read_fields(form: Form) -> FilterQuery:
    """Return the filter in the hidden fields of a form, exactly as it was shown."""
    names = (each.name for each in fields(FilterQuery) if each.name != "fields")
    of_fields = (name for name in form.fields if name.startswith(PREFIX))
    return FilterQuery.of({name: form.exactly(name) for name in (*names, *of_fields)})


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


def _settle(text: str) -> str:
    """Return a time that is the same whenever it is read again: `2h` becomes a moment.

    Any other stays as it is written: `10:00` at the end of a range is its whole minute.
    """
    if not is_duration(text.strip()):
        return text
    return read_moment(text.strip(), SystemClock().now()).isoformat(timespec="microseconds")


_BOTH = "Say first which status: all that match cannot be selected over several."


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """What an act is about: the selection, its words, and the hidden fields that say it again.

    `words` are for who asks; `told` names it to everybody, without what stands in messages.
    """

    selection: Selection
    words: str
    told: str
    fields: Mapping[str, str]


def select(
    parts: PageParts, query: FilterQuery, ids: Sequence[str], *, everything: bool
) -> Selected:
    """Return what is selected in a list with this filter. Raises HTTPException."""
    if not everything:
        named = name_ids(ids)
        words = describe(named)
        return Selected(
            selection=named, words=words, told=words, fields={"ids": " ".join(named.ids or ())}
        )
    selection = select_all(query)
    if selection is None:
        raise HTTPException(400, _BOTH)
    title = group_title(parts, query.group)
    named = replace(selection, group=title) if title else selection
    of_what = "pending retries: " if selection.pending else ""
    return Selected(
        selection=selection,
        words=f"{of_what}{describe_wholly(named)}",
        told=f"{of_what}{describe(named)}",
        fields={**query.values, "all": "1"},
    )


def read_selected(parts: PageParts, form: Form) -> Selected:
    """Return what a form says again that a preview or a question has shown. Raises HTTPException."""
    ids = next(iter(form.values("ids")), "").split()
    everything = bool(form.text("all"))
    if not ids and not everything:
        raise HTTPException(400, "Nothing is selected.")
    return select(parts, read_fields(form), ids, everything=everything)


def group_title(parts: PageParts, group: str) -> str | None:
    """Return the title of a group; None if there is no such group."""
    return find_title(parts.db, group) if is_guid(group) else None

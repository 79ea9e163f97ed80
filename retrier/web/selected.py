"""What is selected for an act: some messages by their ids, or all that a list shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fastapi import HTTPException

from retrier.domain.identity import is_guid
from retrier.domain.selection import Selection, describe
from retrier.store.queries.groups import find_title
from retrier.web.filters import FilterQuery, name_ids, read_filter, select_all
from retrier.web.forms import Form
from retrier.web.parts import PageParts

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

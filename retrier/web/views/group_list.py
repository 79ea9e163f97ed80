"""The list of groups: of one classifier, filtered, sorted, in pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from retrier.store.queries.queues import HostCount
from retrier.web.views.groups import (
    NAMES,
    SLUGS,
    GroupRow,
    GroupSort,
    group_prefix,
    matching,
    ordered,
)
from retrier.web.views.pages import PAGE, Listing, page_number

DEFAULT = next(iter(SLUGS))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupQuery:
    """The query of the list, as it stands in its address."""

    by: str = ""
    text: str = ""
    sort: str = ""
    direction: str = ""
    page: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The same, understood; what cannot be is left at its default."""

    by: str
    text: str
    sort: GroupSort
    descending: bool
    page: int


def read_query(query: GroupQuery) -> Wanted:
    """Return what a query asks for."""
    return Wanted(
        by=query.by if query.by in SLUGS else DEFAULT,
        text=query.text.strip(),
        sort=GroupSort(query.sort) if query.sort in list(GroupSort) else GroupSort.LAST,
        descending=query.direction != "asc",
        page=page_number(query.page),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupList:
    """All that the page of groups shows. `names` are the classifiers to choose from."""

    listing: Listing[GroupRow]
    wanted: Wanted
    names: Mapping[str, str]
    messages: int
    live_rows: str
    counted_at: datetime

    def sorted_by(self, sort: str) -> str:
        """Return the address of the list sorted so; the other way round if it is so already."""
        turned = sort == self.wanted.sort and self.wanted.descending
        return self.listing.to(sort=sort, direction="asc" if turned else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostList:
    """What the list of hosts shows, beside the classifiers to choose from."""

    names: Mapping[str, str]
    hosts: Sequence[HostCount]
    counted_at: datetime


def group_list(rows: Sequence[GroupRow], wanted: Wanted, counted_at: datetime) -> GroupList:
    """Return one page of the groups that match."""
    found = ordered(matching(rows, wanted.text), wanted.sort, descending=wanted.descending)
    listing = Listing(
        rows=found[(wanted.page - 1) * PAGE : wanted.page * PAGE],
        total=len(found),
        number=wanted.page,
        path="/groups",
        values={
            "by": "" if wanted.by == DEFAULT else wanted.by,
            "text": wanted.text,
            "sort": "" if wanted.sort is GroupSort.LAST else wanted.sort.value,
            "direction": "" if wanted.descending else "asc",
        },
    )
    return GroupList(
        listing=listing,
        wanted=wanted,
        names=NAMES,
        messages=sum(each.count for each in found),
        live_rows="" if wanted.text else group_prefix(SLUGS[wanted.by]),
        counted_at=counted_at,
    )

"""What the page of the shop shows: its parts with their groups, and the shop's own counts."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from retrier.demo.orders import Cause
from retrier.demo.shop_counts import ShopCounts
from retrier.demo.shop_parts import PARTS, ShopPart
from retrier.web.views.groups import GroupRow
from retrier.web.wording import in_words, noun


@dataclass(frozen=True, slots=True, kw_only=True)
class PartView:
    """One part, the group of what failed there, and a message to read.

    `what` is the state of the part, `next_step` what to do now.
    """

    cause: Cause
    part: ShopPart
    is_broken: bool
    group: GroupRow | None
    sample: str | None
    what: str
    next_step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopView:
    """All that the page shows."""

    headline: str
    parts: Sequence[PartView]
    counts: ShopCounts
    is_over: bool


def shop_view(
    groups: Sequence[GroupRow],
    broken: AbstractSet[Cause],
    samples: Mapping[str, str],
    counts: ShopCounts,
) -> ShopView:
    """Return the view; `samples` has the id of a message for each group."""
    parts = list(_parts(groups, broken, samples))
    return ShopView(
        headline=_headline(len(broken), counts),
        parts=parts,
        counts=counts,
        is_over=not broken and counts.given_up == 0,
    )


def groups_of_parts(groups: Sequence[GroupRow]) -> Mapping[Cause, GroupRow]:
    """Return for each part the group of what failed there, as far as there is one."""
    return {
        cause: group
        for cause, part in PARTS.items()
        for group in groups
        if group.title.startswith(part.title)
    }


def _headline(broken: int, counts: ShopCounts) -> str:
    if broken:
        number = in_words(broken).capitalize()
        return f"{number} {noun(broken, 'part')} of a shop {noun(broken, 'is', 'are')} broken"
    if counts.given_up:
        return "The shop works again: send back what is left"
    return "The shop works, and every order is handled"


def _parts(
    groups: Sequence[GroupRow], broken: AbstractSet[Cause], samples: Mapping[str, str]
) -> Iterator[PartView]:
    found = groups_of_parts(groups)
    for cause, part in PARTS.items():
        group = found.get(cause)
        is_broken = cause in broken
        yield PartView(
            cause=cause,
            part=part,
            is_broken=is_broken,
            group=group,
            sample=None if group is None else samples.get(group.group_id),
            what=part.broken if is_broken else part.repaired,
            next_step=_next_step(group, is_broken=is_broken) + _hint(cause, group, broken),
        )


def _hint(cause: Cause, group: GroupRow | None, broken: AbstractSet[Cause]) -> str:
    """Explain the one surprise of the story: some messages have two causes."""
    is_sent = group is not None and not group.count and not group.is_retried
    if cause is Cause.GIFT_BUG and is_sent and Cause.PAYMENTS_DOWN in broken:
        return " Those that came back are paid by card: they wait with the payments now."
    return ""


def _next_step(group: GroupRow | None, *, is_broken: bool) -> str:
    if group is None:
        return "No order waits for it." if is_broken else "Nothing is left to do here."
    if group.is_retried:
        return "The messages are on their way back. The numbers change by themselves."
    if not group.count:
        return "All its messages were sent back. Read the story of one."
    if is_broken:
        return "Look why, then repair it. A retry before that fails again."
    return "What failed before still waits: retry it."

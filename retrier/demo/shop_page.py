"""The page of the shop at `/demo`: what is broken, a button to repair each part, its groups."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path
from types import MappingProxyType

from fastapi import APIRouter, HTTPException, Request, Response
from jinja2 import ChoiceLoader, Environment, PackageLoader

from retrier.demo.orders import Defect
from retrier.demo.shop import ShopCounts, read_counts
from retrier.demo.workspace import Workspace
from retrier.domain.classifiers import CLASSIFIERS
from retrier.domain.selection import Selection
from retrier.domain.values import dataclass
from retrier.store.message_lists import Order, PageRequest, Sort, list_messages
from retrier.web.forms import SentForm
from retrier.web.groups import GroupList, GroupRow
from retrier.web.page import environment, see_other, show
from retrier.web.parts import Addition, NavigationLink, PageParts, Parts
from retrier.web.wording import in_words, noun


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopPart:
    """One part. `title` is how the title of its group begins. `repair` is the name of its button."""

    name: str
    title: str
    broken: str
    repair: str
    repaired: str


PARTS: Mapping[Defect, ShopPart] = MappingProxyType(
    {
        Defect.GIFT_BUG: ShopPart(
            name="Wrapping of gifts",
            title="KeyError",
            broken="The last release has a bug: it looks up a wrapping that is not there.",
            repair="Deploy the fix",
            repaired="The fix is deployed.",
        ),
        Defect.PAYMENTS_DOWN: ShopPart(
            name="Payment by card",
            title="ConnectionRefusedError",
            broken="The payment service is down and refuses every connection.",
            repair="Start the payment service",
            repaired="The payment service answers again.",
        ),
        Defect.BAD_INPUT: ShopPart(
            name="Orders without items",
            title="BadOrder",
            broken="Somebody sends orders that have no items, and the shop cannot pack nothing.",
            repair="Accept empty parcels",
            repaired="Such orders are accepted as empty parcels.",
        ),
    }
)
"""All parts, in the order in which the page shows them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartView:
    """One part, the group of what failed there, and a message to read.

    `what` is the state of the part, `next_step` what to do now.
    """

    cause: Defect
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
    broken: AbstractSet[Defect],
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


def groups_of_parts(groups: Sequence[GroupRow]) -> Mapping[Defect, GroupRow]:
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
    groups: Sequence[GroupRow], broken: AbstractSet[Defect], samples: Mapping[str, str]
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


def _hint(cause: Defect, group: GroupRow | None, broken: AbstractSet[Defect]) -> str:
    """Explain the one surprise of the story: some messages have two causes."""
    is_sent = group is not None and not group.count and not group.is_retried
    if cause is Defect.GIFT_BUG and is_sent and Defect.PAYMENTS_DOWN in broken:
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


PATH = "/demo"
_NEWEST = Order(sort=Sort.MODIFIED)
_ONE = PageRequest(size=1)


def shop_page(folder: Path) -> Addition:
    """Return the page of the shop in a folder, to be shown beside the page of the service."""
    workspace, router = Workspace(folder=folder), APIRouter(prefix=PATH)

    @router.get("")
    def get_shop(request: Request, parts: Parts) -> Response:
        """Show the shop."""
        groups = GroupList(parts.db, parts.counts.snapshot(), CLASSIFIERS[0]).newest()
        chosen = groups_of_parts(groups).values()
        samples = _find_samples(parts, (each.group_id for each in chosen))
        counts = read_counts(workspace.counts)
        view = shop_view(groups, workspace.find_broken(), samples, counts)
        template = _templates().get_template("shop.html")
        return show(request, template, current=PATH, view=view)

    @router.post("/repair")
    def repair(form: SentForm) -> Response:
        """Repair one part."""
        cause = form.text("cause")
        if cause not in list(Defect):
            raise HTTPException(404, "The shop has no such part.")
        workspace.repair(Defect(cause))
        return see_other(f"{PATH}#{cause}")

    return Addition(link=NavigationLink(path=PATH, name="The shop"), router=router)


@cache
def _templates() -> Environment:
    """Return the page's templates, and ours in front of them."""
    packages = ("retrier.demo", "retrier.web")
    return environment().overlay(loader=ChoiceLoader([PackageLoader(each) for each in packages]))


def _find_samples(parts: PageParts, group_ids: Iterable[str]) -> Mapping[str, str]:
    """Return the newest message of each group: the one that has most to tell."""
    pages = {
        each: list_messages(parts.db, Selection(group=each), _NEWEST, _ONE, parts.codec)
        for each in group_ids
    }
    return {each: page.items[0].unique_message_id for each, page in pages.items() if page.items}

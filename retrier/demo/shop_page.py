"""The page of the shop at `/demo`: what is broken, a button to repair each part, its groups."""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from fastapi import APIRouter, HTTPException, Request, Response
from jinja2 import ChoiceLoader, Environment, PackageLoader

from retrier.demo.orders import Cause
from retrier.demo.shop_counts import read_counts
from retrier.demo.shop_view import groups_of_parts, shop_view
from retrier.demo.workspace import Workspace
from retrier.domain.classifiers import CLASSIFIERS
from retrier.domain.selection import Selection
from retrier.store.queries.messages import list_messages
from retrier.store.queries.ordering import Order, PageRequest, Sort
from retrier.web.forms import SentForm
from retrier.web.listed_groups import list_rows
from retrier.web.navigation import Place
from retrier.web.parts import Addition, PageParts, Parts
from retrier.web.showing import see_other, show
from retrier.web.templating import environment

PATH = "/demo"
_NEWEST = Order(sort=Sort.MODIFIED)
_ONE = PageRequest(size=1)


def shop_page(folder: Path) -> Addition:
    """Return the page of the shop in a folder, to be shown beside the page of the service."""
    workspace, router = Workspace(folder=folder), APIRouter(prefix=PATH)

    @router.get("")
    def get_shop(request: Request, parts: Parts) -> Response:
        """Show the shop."""
        groups = list_rows(parts.db, parts.counts.look(), CLASSIFIERS[0])
        chosen = groups_of_parts(groups).values()
        samples = _find_samples(parts, (each.group_id for each in chosen))
        counts = read_counts(workspace.counts)
        view = shop_view(groups, workspace.find_broken(), samples, counts)
        template = _templates().get_template("shop.html")
        return show(request, template, view, current=PATH)

    @router.post("/repair")
    def repair(form: SentForm) -> Response:
        """Repair one part."""
        cause = form.text("cause")
        if cause not in list(Cause):
            raise HTTPException(404, "The shop has no such part.")
        workspace.repair(Cause(cause))
        return see_other(f"{PATH}#{cause}")

    return Addition(place=Place(path=PATH, name="The shop"), router=router)


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

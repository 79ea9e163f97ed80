"""Pictures of every page, light and dark in four widths: 360, 768, 1024 and 1440 pixels.

A service of its own is started with the demo's shop: 135 of 300 orders fail. Some are being retried.
"""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import httpx

from retrier.demo.demo import working
from retrier.demo.orders import Defect, make_orders
from retrier.demo.shop import ERRORS, Shop, ShopLog, find_url, is_ready
from retrier.demo.workspace import Workspace, temporary_workspace
from retrier.domain.wire import Outgoing
from retrier.transport.embedded import EmbeddedTransport
from tests.page.browser import Screen, opened_browser
from tests.page.held import fail_in_stream, open_breaker
from tests.page.pages import PAGES
from tests.support.waiting import let_pass, wait_until

ORDERS = 300
FAILING = 135
THEMES = ("light", "dark")
WIDTHS = (360, 768, 1024, 1440)


@dataclass(frozen=True, slots=True)
class Failing:
    """The demo after its orders were tried. `url` is where the page is."""

    url: str
    workspace: Workspace


def main() -> int:
    """Make the pictures; return the exit code."""
    every = {**PAGES, "demo": lambda _http: "/demo"}
    asked = read_arguments(sys.argv[1:], every)
    folder: Path = asked.folder
    folder.mkdir(parents=True, exist_ok=True)
    with (
        shop_with_failures() as failing,
        httpx.Client(base_url=failing.url) as http,
        opened_browser() as browser,
    ):
        failing.workspace.repair(Defect.GIFT_BUG)
        prepare(http)
        fail_in_stream(
            http,
            partial(put, failing.workspace),
            f"sqlite:///{failing.workspace.folder}/retrier.db",
        )
        open_breaker(http)
        chosen = {name: every[name] for name in asked.pages or every}
        for theme, width in product(THEMES, WIDTHS):
            context = browser.new_context(
                color_scheme=theme,  # type: ignore[arg-type]
                viewport={"width": width, "height": 900},
            )
            screen = Screen(context, failing.url)
            for name, path in chosen.items():
                take(screen, path(http), folder / f"{name}-{width}-{theme}.png")
            context.close()
    print(f"{len(THEMES) * len(WIDTHS) * len(chosen)} pictures in {folder}")  # noqa: T201 - a program
    return 0


def read_arguments(given: Sequence[str], known: Collection[str]) -> Namespace:
    """Return folder and pages; what is none of `known` ends the program with a usage mistake."""
    summary, _, more = (__doc__ or "").partition("\n\n")
    parser = ArgumentParser("python -m tests.page.pictures", description=summary, epilog=more)
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="where they are put; it is made"
    )
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=f"of: {', '.join(known)}")
    asked = parser.parse_args(given)
    unknown = [each for each in asked.pages if each not in known]
    if unknown:
        parser.error(f"no page is called {', '.join(unknown)}")
    return asked


def take(screen: Screen, path: str, file: Path) -> None:
    """Take one picture, of the whole page."""
    page = screen.open(path)
    screen.wait_live()
    let_pass(0.2)
    page.screenshot(path=file, full_page=True)


def prepare(http: httpx.Client) -> None:
    """Let one group be retried slowly, and archive a few messages."""
    groups = http.get("/api/recoverability/groups").json()
    chosen = next(each for each in groups if each["title"].startswith("KeyError"))
    body = {"selection": {"group": chosen["id"]}, "rate": 1, "why": "gift fix is out"}
    http.post("/api/operations", json=body, headers={"X-Retrier-User": "ada"}).raise_for_status()
    others = [each for each in groups if each["id"] != chosen["id"]]
    some = http.get(f"/api/recoverability/groups/{others[0]['id']}/errors?per_page=5").json()
    http.patch("/api/errors/archive", json=[each["id"] for each in some]).raise_for_status()
    redirect = {"fromphysicaladdress": "parcels", "tophysicaladdress": "parcels.eu"}
    http.post("/api/redirects", json=redirect).raise_for_status()
    view = {"page": "messages", "query": "queue=orders&status=unresolved"}
    http.put("/api/views/night", json=view).raise_for_status()
    wait_until(
        lambda: http.get("/api/imports").json() != [], 30, "what cannot be read is an import"
    )
    let_pass(3)


@contextmanager
def shop_with_failures() -> Iterator[Failing]:
    """Run the service of the demo, whose shop has failed."""
    with temporary_workspace() as workspace:
        workspace.set_up(0)
        shop = _make_shop(workspace)
        with workspace.running_service(), working(shop, workspace):
            wait_until(lambda: _is_ready(workspace), 30, "the service is ready")
            url = find_url(workspace.log) or ""
            shop.publish(make_orders(ORDERS))
            put_nonsense(workspace)
            wait_until(lambda: _count(url) >= FAILING, 30, "the failures are stored")
            yield Failing(url, workspace)


def _make_shop(workspace: Workspace) -> Shop:
    shop = Shop(broker_url=workspace.broker_url, log=ShopLog(), broken=workspace.find_broken)
    shop.open()
    return shop


def put_nonsense(workspace: Workspace) -> None:
    """Put a message on the error queue that does not say where it failed."""
    put(workspace, {"Shop.Tenant": "north"}, b"who am I?")


def put(workspace: Workspace, headers: Mapping[str, Any], body: bytes) -> None:
    """Put a message with these headers on the error queue."""
    publisher = EmbeddedTransport(workspace.broker_url).publisher()
    raw = json.dumps({"headers": dict(headers), "content-type": "text/plain"}).encode()
    publisher.publish([Outgoing(queue=ERRORS, raw=raw, body=body)], lambda: None)
    publisher.close()


def _is_ready(workspace: Workspace) -> bool:
    url = find_url(workspace.log)
    return url is not None and is_ready(url)


def _count(url: str) -> int:
    answer = httpx.get(f"{url}/api/errors", params={"status": "unresolved", "per_page": 1})
    return int(answer.headers["Total-Count"])


if __name__ == "__main__":
    sys.exit(main())

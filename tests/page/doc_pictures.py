"""The pictures of the documentation, made of the demo as a newcomer meets it."""

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx

from retrier.demo.orders import Defect
from tests.page.browser import Screen, opened_browser
from tests.page.pictures import prepare, shop_with_failures
from tests.support.project import ROOT
from tests.support.waiting import let_pass

FOLDER = ROOT / "docs" / "pictures"
WIDTH = 1080


def _show_preview(screen: Screen) -> None:
    screen.page.locator("#payments-down").get_by_role("link", name="Retry").click()
    screen.page.locator("#sheet").wait_for()


def _show(_screen: Screen) -> None:
    pass


PICTURES: Mapping[str, tuple[str, int, Callable[[Screen], None]]] = {
    "shop": ("/demo", 640, _show),
    "preview": ("/demo", 640, _show_preview),
    "overview": ("/", 760, _show),
    "policies": ("/policies", 640, _show),
}
"""For each picture the page, how much of it is shown, and what is done before."""


def main() -> int:
    """Make the pictures; return the exit code."""
    parser = ArgumentParser("python -m tests.page.doc_pictures", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="else docs/pictures")
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    with (
        shop_with_failures() as failing,
        httpx.Client(base_url=failing.url) as http,
        opened_browser() as browser,
    ):
        context = browser.new_context(
            color_scheme="light", viewport={"width": WIDTH, "height": 900}
        )
        screen = Screen(context, failing.url)
        for name, (path, height, do) in PICTURES.items():
            if name == "overview":
                failing.workspace.repair(Defect.GIFT_BUG)
                prepare(http)
            screen.page.set_viewport_size({"width": WIDTH, "height": height})
            page = screen.open(path)
            screen.wait_live()
            do(screen)
            let_pass(0.5)
            page.screenshot(path=folder / f"{name}.png")
        context.close()
    print(f"{len(PICTURES)} pictures in {folder}")  # noqa: T201 - a program
    return 0


if __name__ == "__main__":
    sys.exit(main())

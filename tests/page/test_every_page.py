"""What holds for every page: no serious fault for those who cannot see, no foreign request, light."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Response

from retrier.web.application import WORKING
from retrier.web.parts import MENUS, NAVIGATION
from tests.page.browser import Screen
from tests.page.conftest import OpenScreen, Running, opening
from tests.page.pages import PAGES
from tests.support.project import ROOT

pytestmark = pytest.mark.page

HEAVIEST = 150_000
INLINE = re.compile(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=")


@dataclass(frozen=True, slots=True)
class Visit:
    """What a browser without a cache sees of one page. `wider` is by how many pixels it is so."""

    violations: list[str]
    wider: int
    weight: int


LOOKS = {"dark": (1440, 1024), "light": (768, 360)}
"""The widths of the window in which each page is looked at, by theme."""
IS_DARK = """() => Math.max(
  ...getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).slice(0, 3).map(Number)
) < 64"""


def visit_all(
    looked_at: Running, browser: Browser, first: str, names: Sequence[str]
) -> Mapping[str, Visit]:
    """Open the pages in one tab, as whoever has the first theme; look in each theme and width."""
    themes = sorted(LOOKS, key=lambda theme: theme != first)
    with opening(browser, looked_at) as open_one:
        screen = open_one(theme=first)
        screen.forget_everything()
        return {name: visit(screen, PAGES[name](looked_at.http), themes) for name in names}


def visit(screen: Screen, path: str, themes: Sequence[str]) -> Visit:
    sizes: list[int] = []

    def weigh(answer: Response) -> None:
        sizes.append(int(answer.headers.get("content-length", 0)))

    screen.page.emulate_media(color_scheme=themes[0])  # type: ignore[arg-type]
    screen.page.on("response", weigh)
    screen.open(path)
    screen.wait_live()
    screen.page.remove_listener("response", weigh)
    violations, wider = [], 0
    for theme, width in ((each, width) for each in themes for width in LOOKS[each]):
        screen.page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        screen.page.set_viewport_size({"width": width, "height": 900})
        assert screen.page.evaluate(IS_DARK) == (theme == "dark"), path
        violations += [f"{theme}, {width}: {each}" for each in screen.find_violations()]
        wider = max(
            wider, screen.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        )
    return Visit(violations=violations, wider=wider, weight=sum(sizes))


@pytest.mark.parametrize(("first", "part"), [("dark", 0), ("light", 1)])
def test_no_page_has_a_serious_fault_is_wider_than_its_window_or_heavy(
    looked_at: Running, browser: Browser, first: str, part: int
) -> None:
    """One walk for all three: to open every page takes half a minute. Half of them in each process."""
    visits = visit_all(looked_at, browser, first, [*PAGES][part::2])

    assert {name: each.violations for name, each in visits.items() if each.violations} == {}
    assert {name: each.wider for name, each in visits.items() if each.wider > 0} == {}
    assert {name: each.weight for name, each in visits.items() if each.weight > HEAVIEST} == {}
    assert all(each.weight > 0 for each in visits.values())


@pytest.fixture(scope="module")
def answers(looked_at: Running) -> Mapping[str, httpx.Response]:
    """Give the answer of every page."""
    return {name: looked_at.http.get(path(looked_at.http)) for name, path in PAGES.items()}


def test_no_page_writes_a_script_or_a_style_into_itself(
    answers: Mapping[str, httpx.Response],
) -> None:
    found = {name: INLINE.findall(answer.text) for name, answer in answers.items()}

    assert {name: inline for name, inline in found.items() if inline} == {}


def test_every_page_forbids_what_is_not_its_own(answers: Mapping[str, httpx.Response]) -> None:
    for answer in answers.values():
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "same-origin"


def test_an_unknown_address_is_told_in_words(looked_at: Running, open_look: OpenScreen) -> None:
    screen = open_look()
    screen.expected = ("console: Failed to load resource",)

    page = screen.open("/nowhere")

    assert page.locator("h1").inner_text() == "There is nothing here"
    assert screen.find_violations() == []
    assert looked_at.http.get("/nowhere").status_code == 404


def test_what_is_refused_before_anything_is_read_is_told_in_words(open_look: OpenScreen) -> None:
    screen = open_look()
    screen.expected = ("console: Failed to load resource",)

    page = screen.open("/messages?queue=a%00b")

    assert page.locator("h1").inner_text() == "This cannot be asked"
    assert screen.find_violations() == []


def test_every_place_of_the_bar_is_there(looked_at: Running) -> None:
    places = (*NAVIGATION, *(place for menu in MENUS for place in menu.links))
    answers = {place.path: looked_at.http.get(place.path).status_code for place in places}

    assert set(answers.values()) == {200}


def test_every_page_is_checked() -> None:
    """A route that shows a page has a template; each of these belongs to a page that is looked at."""
    templates = {path.stem for path in Path(ROOT / "retrier" / "web" / "templates").glob("*.html")}

    assert WORKING
    assert templates - CHECKED - CHECKED_WHERE_PEOPLE_LOG_IN == set()


CHECKED = {
    "base",
    "parts",
    "plot",
    "error",
    "overview",
    *("groups", "hosts", "values"),
    # Suggestions are options of the box that every page has.
    *("search", "suggestions"),
    "comment",
    "retry",
    "name",
    "messages",
    *("message", "edit"),
    *("bodies", "bytes"),
    "question",
    "refused",
    "operations",
    "operation_parts",
    "operation",
    "outcomes",
    "archive_operations",
    "archive_operation",
    "history",
    "archived",
    "pending",
    "events",
    "processor",
    "ledger",
    *("imports", "imports_try", "import", "import_question", "import_result"),
    *("redirects", "redirect"),
    "policies",
    *("views", "view"),
    *("breakers", "breaker", "streams", "stream"),
    *("tokens", "approvals"),
}
"""Templates that the pages above show."""

CHECKED_WHERE_PEOPLE_LOG_IN = {"login", "go_on", "token"}
"""Templates that `test_log_in.py` looks at: only a service that asks who somebody is has them all."""

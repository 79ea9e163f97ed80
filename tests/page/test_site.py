"""The site of the documentation in a browser: what its search finds, and how it looks.

To build it takes half a minute: whichever process of the run comes first does it for all of them.
"""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page

from retrier import __version__
from tests.page.browser import TIMEOUT
from tests.support.project import ROOT

pytestmark = pytest.mark.page

FIRST = 3
FOUND = "#search-results ul.search li > a"
IS_DONE = f"""() => {{
    const said = document.querySelector("#search-results .search-summary")?.innerText || "";
    return /(\\d+) page/.test(said) && document.querySelectorAll("{FOUND}").length >= Math.min(+RegExp.$1, 9);
}}"""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build it as docs/contributing.md says; a warning is an error."""
    own = tmp_path_factory.getbasetemp()
    of_run = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    folder = of_run / "site"
    with (of_run / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed: the others wait, and find it built
        if not folder.exists():
            made = of_run / "site.made"
            build = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", "docs", str(made)]
            subprocess.run(build, cwd=ROOT, check=True)
            made.rename(folder)
    return folder


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """Give a page of the size of a phone, in the dark."""
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark")
    context.set_default_timeout(TIMEOUT)
    yield context.new_page()
    context.close()


ANSWERS = {
    "dead letter queue": "dead-letter-queue",
    "NServiceBus": "nservicebus",
    "backup": "operations",
    "PgBouncer": "operations",
    "upgrade": "upgrading",
    "move to PostgreSQL": "move-database",
    "came back": "wrong-retry",
    "presumed resolved": "how-it-works",
    "alert": "metrics",
    "Redis": "transports",
    "tokens": "access",
    "canary": "first-night",
    "x-death": "dead-letter-queue",
    "rotate token": "access",
    "Helm chart": "operations",
}
"""Words that people look for, and the page that answers."""


def test_the_search_finds_a_page_that_answers_among_the_first(site: Path, tab: Page) -> None:
    first = {words: find(tab, site, words)[:FIRST] for words in ANSWERS}

    assert {words: found for words, found in first.items() if ANSWERS[words] not in found} == {}


def find(tab: Page, site: Path, words: str) -> list[str]:
    """Return the pages that the search finds, each once."""
    tab.goto(f"{(site / 'search.html').as_uri()}?{urlencode({'q': words})}")
    tab.wait_for_function(IS_DONE)
    links = [str(each.get_attribute("href")) for each in tab.query_selector_all(FOUND)]
    return list(dict.fromkeys(link.partition(".html")[0] for link in links))


def test_every_page_names_its_version(site: Path) -> None:
    pages = list(site.rglob("*.html"))

    assert len(pages) > 100
    assert [path for path in pages if f"Retrier {__version__}" not in path.read_text()] == []


def test_a_page_fits_a_phone_and_is_dark_there(site: Path, tab: Page) -> None:
    for page in ("index", "upgrading", "configuration", "cli", "how-it-works"):
        tab.goto((site / f"{page}.html").as_uri())

        assert tab.evaluate("document.documentElement.scrollWidth") <= 390, page
        background = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        assert max(int(each) for each in background[4:-1].split(",")) < 64, page


def test_it_has_the_sign_of_the_page_so_that_no_browser_asks_in_vain(site: Path, tab: Page) -> None:
    tab.goto((site / "quickstart.html").as_uri())

    sign = str(tab.locator("link[rel~=icon]").get_attribute("href"))

    drawn = ROOT / "retrier" / "web" / "static" / "icon.svg"
    assert (site / sign).read_bytes() == drawn.read_bytes()

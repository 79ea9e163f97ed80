"""A browser as a person has it, and what no page may do in it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    expect,
    sync_playwright,
)

EXECUTABLE = (
    os.environ.get("RETRIER_TEST_CHROMIUM")
    or shutil.which("chromium-headless-shell")
    or shutil.which("chromium")
    or ""
)
"""The same browser without its own windows and menus, if there is one: it takes 0.6 of the work."""
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text()
RUN_AXE = "async () => (await axe.run(document, {resultTypes: ['violations']})).violations"
SERIOUS = {"serious", "critical"}
TIMEOUT = 30_000
"""Milliseconds for anything that a page is waited for: it is there as soon as it is, on any machine."""


@contextmanager
def opened_browser() -> Iterator[Browser]:
    """Start Debian's chromium, or its headless shell."""
    expect.set_options(timeout=TIMEOUT)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=EXECUTABLE, args=list(ARGUMENTS))
        yield browser
        browser.close()


class Screen:
    """One tab. `complaints` has what went wrong in it: errors of scripts, requests to others."""

    def __init__(self, context: BrowserContext, base: str) -> None:
        self.base = base
        self.complaints: list[str] = []
        self.expected: tuple[str, ...] = ()
        """Beginnings of complaints that a test causes on purpose."""
        self.page: Page = context.new_page()
        self.page.set_default_timeout(TIMEOUT)
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(f"script: {error}"))
        self.page.on("request", self._look)

    def open(self, path: str) -> Page:
        """Go to a path of the service."""
        self.page.goto(f"{self.base}{path}")
        return self.page

    def forget_everything(self) -> None:
        """Let the browser keep nothing: each page comes with all that it needs."""
        session = self.page.context.new_cdp_session(self.page)
        session.send("Network.enable")
        session.send("Network.setCacheDisabled", {"cacheDisabled": True})

    def wait_live(self) -> None:
        """Wait until the tab follows what changes."""
        self.page.locator("#live.is-on").wait_for()

    def text(self, selector: str) -> str:
        """Return the text of the first such element."""
        return self.page.locator(selector).first.inner_text()

    def find_violations(self) -> list[str]:
        """Return what axe finds serious."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE)
        found: list[dict[str, Any]] = self.page.evaluate(RUN_AXE)
        return [
            f"{each['id']}: {each['help']} {[node['html'] for node in each['nodes']]}"
            for each in found
            if each["impact"] in SERIOUS
        ]

    def unexpected(self) -> list[str]:
        """Return the complaints that no test expects."""
        return [each for each in self.complaints if not each.startswith(self.expected or ("\0",))]

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(f"console: {message.text}")

    def _look(self, request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.base).netloc:
            self.complaints.append(f"request to another origin: {request.url}")

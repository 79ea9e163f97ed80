"""The overview as a person sees it while messages fail and are retried."""

from datetime import datetime
from time import monotonic

import pytest
from playwright.sync_api import expect

from tests.page.browser import Screen
from tests.page.conftest import AHEAD, QUORUM, OpenScreen, Running

pytestmark = pytest.mark.page


@pytest.mark.alone
def test_a_failure_appears_within_two_seconds(running: Running, screen: Screen) -> None:
    page = screen.open("/")
    screen.wait_live()

    def measure(count: int) -> float:
        running.fail(1)
        failed = monotonic()
        expect(page.locator('[data-live="tile/unresolved"]')).to_have_text(str(count))
        return monotonic() - failed

    # The least of three: the machine itself may stand still for a second.
    assert min(measure(each) for each in (1, 2, 3)) <= 2


def test_a_failure_appears_without_reload(running: Running, screen: Screen) -> None:
    page = screen.open("/")
    screen.wait_live()

    running.fail(3)

    expect(page.locator('[data-live="tile/unresolved"]')).to_have_text("3")
    expect(page.locator("h1")).to_contain_text("3 messages are unresolved")


@QUORUM
def test_a_failure_appears_on_rabbitmq_and_postgresql(running: Running, screen: Screen) -> None:
    page = screen.open("/")
    screen.wait_live()

    running.fail(3)

    expect(page.locator('[data-live="tile/unresolved"]')).to_have_text("3")


def test_a_new_group_waits_until_it_is_asked_for(running: Running, screen: Screen) -> None:
    page = screen.open("/")
    screen.wait_live()

    running.fail(1)
    news = page.get_by_role("button", name="1 new")
    expect(news).to_be_visible()
    assert page.locator("tr[data-row]").count() == 0
    news.click()

    expect(page.locator("tr[data-row]")).to_have_count(1)
    expect(news).to_be_hidden()


def test_times_are_in_the_readers_zone_with_utc_beside(open_look: OpenScreen) -> None:
    page = open_look().open("/groups")

    title = page.locator("time").first.get_attribute("title") or ""
    here, utc = (datetime.fromisoformat(each[:19]) for each in title.split(" here, "))
    assert title.endswith(" UTC")
    assert here - utc == AHEAD


def test_the_theme_is_remembered(open_look: OpenScreen) -> None:
    screen = open_look(theme="light")
    page = screen.open("/")
    page.locator("#theme").click()

    screen.open("/groups")

    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_hidden_tab_follows_nothing(running: Running, screen: Screen) -> None:
    page = screen.open("/")
    screen.wait_live()

    page.evaluate(HIDE)
    running.fail(1)

    expect(page.locator("[data-live-state]")).to_have_text("paused")
    assert screen.text('[data-live="tile/unresolved"]') == "0"
    page.evaluate(SHOW)
    expect(page.locator('[data-live="tile/unresolved"]')).to_have_text("1")


def test_the_service_goes_away_and_comes_back(running: Running, screen: Screen) -> None:
    screen.expected = ("console: Failed to load resource",)
    page = screen.open("/")
    screen.wait_live()
    port = running.http.base_url.port

    running.service.stop()
    expect(page.locator("#away")).to_be_visible()
    running.site.host.configure("api", port=port)
    running.site.host.start_ready()

    expect(page.locator("#away")).to_be_hidden()
    screen.wait_live()


def test_a_retry_while_the_service_is_away_says_why_nothing_happens(
    running: Running, screen: Screen
) -> None:
    running.fail(1)
    screen.expected = ("console: Failed to load resource", "console: htmx:")
    page = screen.open("/")
    screen.wait_live()

    running.service.stop()
    page.get_by_role("link", name="Retry all").click()

    sheet = page.locator("#sheet")
    expect(sheet).to_contain_text("The service is away")
    expect(sheet).to_contain_text("Nothing was asked for")


def test_the_box_of_the_bar_finds_one_message_by_keyboard(
    looked_at: Running, open_look: OpenScreen
) -> None:
    one = looked_at.http.get("/api/errors").json()[0]["id"]
    page = open_look().open("/groups")

    page.keyboard.press("/")
    page.keyboard.type(one[:8])
    page.keyboard.press("Enter")

    page.wait_for_url(f"**/messages/{one}")


HIDE = """() => {
  Object.defineProperty(document, "hidden", {value: true, configurable: true});
  document.dispatchEvent(new Event("visibilitychange"));
}"""
SHOW = HIDE.replace("true, c", "false, c")

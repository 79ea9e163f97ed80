"""What waits for a breaker, and what a stream holds: seen, opened, closed and released by hand."""

import pytest
from playwright.sync_api import expect

from tests.page.browser import Screen
from tests.page.conftest import OpenScreen, Running
from tests.page.held import CUSTOMER, QUEUE, fail_in_stream, open_breaker

pytestmark = pytest.mark.page


def test_a_breaker_is_opened_seen_elsewhere_without_reload_and_closed(
    running: Running, screen: Screen, open_screen: OpenScreen
) -> None:
    running.fail(2)
    queue = running.site.shop.orders
    overview = open_screen().open("/")
    page = screen.open("/breakers")

    page.get_by_label("Queue, or message_type:TYPE").fill(queue)
    page.get_by_role("button", name="Open its breaker").click()
    sheet = page.locator("#sheet")
    expect(sheet.locator(".lead")).to_contain_text("2 unresolved messages go there")
    sheet.get_by_label("Why").fill("it is moved")
    sheet.get_by_role("button", name="Open the breaker").click()

    expect(page.locator(f"[data-live='breaker/{queue}/state']")).to_have_text("open")
    expect(overview.locator("[data-live='lead']")).to_contain_text(
        f"Breakers hold retries to {queue}", timeout=20_000
    )
    page.get_by_role("link", name="Close the breaker of").click()
    sheet.get_by_role("button", name="Close the breaker").click()
    expect(page.locator(f"[data-live='breaker/{queue}/state']")).to_have_text("closed")


def test_held_messages_are_selected_and_released(running: Running, screen: Screen) -> None:
    fail_in_stream(running.http, running.site.shop.put, running.site.database_url)
    page = screen.open("/streams")
    page.get_by_role("link", name=CUSTOMER, exact=True).click()

    page.get_by_label("Select message 3").check()
    page.get_by_role("button", name="Release").click()
    sheet = page.locator("#sheet")
    expect(sheet.locator("h1")).to_have_text("Release 1 message?")
    sheet.get_by_role("button", name="Release 1 message").click()

    expect(page.locator(".flash")).to_contain_text("Released")
    expect(page.get_by_label("Select message 2")).to_be_visible()
    expect(page.get_by_label("Select message 3")).to_have_count(0)


def test_rows_of_streams_change_where_they_stand(running: Running, screen: Screen) -> None:
    fail_in_stream(running.http, running.site.shop.put, running.site.database_url)
    page = screen.open("/streams")
    screen.wait_live()
    row = page.locator("[data-row^='stream/']")
    link = row.get_by_role("link", name="Look at it")
    head = link.get_attribute("href") or ""
    expect(row.locator("[data-live$='/open']")).to_have_text("3")
    page.evaluate("document.querySelector('[data-row]').dataset.mine = 'untouched'")

    archive(running, head.rpartition("/")[2])

    expect(row.locator("[data-live$='/open']")).to_have_text("2")
    expect(row.locator("[data-live$='/held']")).to_have_text("1")
    expect(link).not_to_have_attribute("href", head)
    archive(running, *(each["id"] for each in running.http.get("/api/errors").json()))
    expect(row).to_contain_text("No message of it is open any more.")
    expect(link).to_be_hidden()
    expect(page.locator("[data-mine='untouched']")).to_have_count(1)


def test_a_new_stream_waits_behind_a_button(running: Running, screen: Screen) -> None:
    shop, url = running.site.shop, running.site.database_url
    fail_in_stream(running.http, shop.put, url)
    page = screen.open("/streams")
    screen.wait_live()

    fail_in_stream(running.http, shop.put, url, 4, "customer 8")

    news = page.locator("[data-news] button")
    expect(news).to_have_text("1 new")
    expect(page.locator("[data-row]")).to_have_count(1)
    news.click()
    expect(page.locator("[data-row]")).to_have_count(2)
    expect(news).to_be_hidden()


def test_an_open_list_of_breakers_offers_what_can_be_done_now(
    running: Running, screen: Screen
) -> None:
    open_breaker(running.http)
    page = screen.open("/breakers")
    screen.wait_live()
    row = page.locator(f"[data-row='breaker/{QUEUE}']")
    expect(row.locator(".badge.bad")).to_have_text("open")
    row.get_by_role("link", name="Close").focus()

    running.http.post(f"/api/breakers/{QUEUE}/close", json={}).raise_for_status()

    expect(row.locator(".badge:not(.bad)")).to_have_text("closed")
    expect(row.get_by_role("link", name="Open")).to_be_focused()
    expect(row.get_by_role("link", name="Close")).to_be_hidden()
    expect(row).not_to_contain_text("by hand until")
    open_breaker(running.http)
    expect(row.locator(".badge.bad")).to_have_text("open")
    expect(row).to_contain_text("by hand until")
    expect(row.get_by_role("link", name="Close")).to_be_visible()


@pytest.mark.parametrize("word", ["Open", "Close"])
def test_a_double_click_on_a_breaker_is_one_act(
    running: Running, screen: Screen, word: str
) -> None:
    open_breaker(running.http)
    row = "breaker/parcels" if word == "Open" else f"breaker/{QUEUE}"
    told = len(told_of_breakers(running))
    page = screen.open("/breakers")

    page.locator(f"[data-row='{row}']").get_by_role("link", name=word).click()
    page.locator("#sheet").get_by_role("button", name=f"{word} the breaker").dblclick()

    expect(page.locator(".flash")).to_be_visible()
    assert len(told_of_breakers(running)) == told + 1


def test_a_double_click_releases_once(running: Running, screen: Screen) -> None:
    fail_in_stream(running.http, running.site.shop.put, running.site.database_url)
    page = screen.open("/streams")
    page.get_by_role("link", name=CUSTOMER, exact=True).click()
    page.get_by_label("all 2 that are held").check()
    page.get_by_role("button", name="Release").click()

    page.locator("#sheet").get_by_role("button", name="Release 2 messages").dblclick()

    expect(page.locator(".flash")).to_contain_text("Released")
    assert len(told_of(running, "stream_released")) == 1


def test_a_release_of_a_stream_that_is_gone_says_so(running: Running, screen: Screen) -> None:
    fail_in_stream(running.http, running.site.shop.put, running.site.database_url)
    page = screen.open("/streams")
    page.get_by_role("link", name=CUSTOMER, exact=True).click()
    page.get_by_label("all 2 that are held").check()
    page.get_by_role("button", name="Release").click()
    button = page.locator("#sheet").get_by_role("button", name="Release 2 messages")
    expect(button).to_be_visible()
    archive(running, *(each["id"] for each in running.http.get("/api/errors").json()))
    screen.expected = ("console: Failed to load resource",)

    button.click()

    expect(page.locator("body")).to_contain_text("No open message belongs to the stream customer 7")


@pytest.mark.parametrize(
    "stream", ["a/b", "\"'><script>alert(1)</script>", "\u202egnorw", "x" * 1000]
)
def test_streams_of_any_name_are_listed_and_opened(
    running: Running, screen: Screen, stream: str
) -> None:
    fail_in_stream(running.http, running.site.shop.put, running.site.database_url, 2, stream)
    page = screen.open("/streams")
    wide = page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    page.locator("a.cause").click()

    expect(page.get_by_label("Select message 2")).to_be_visible()
    assert wide


def archive(running: Running, *ids: str) -> None:
    running.http.patch("/api/errors/archive", json=list(ids)).raise_for_status()


def told_of(running: Running, kind: str) -> list[object]:
    """Return the events of a kind."""
    found: list[object] = running.http.get("/api/eventlogitems", params={"kind": kind}).json()
    return found


def told_of_breakers(running: Running) -> list[object]:
    """Return the events of breakers that a person opened or closed."""
    return [*told_of(running, "breaker_opened"), *told_of(running, "breaker_closed")]

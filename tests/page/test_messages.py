"""Messages as a person finds them, selects them, and looks at one."""

import re

import pytest
from playwright.sync_api import expect

from tests.page.browser import Screen
from tests.page.conftest import DEADLINE, OpenScreen, Running
from tests.support.shop import failure_headers
from tests.support.waiting import wait_until

pytestmark = pytest.mark.page


def test_all_over_several_pages_are_selected_and_retried(running: Running, screen: Screen) -> None:
    running.fail(60)
    page = screen.open("/messages")

    page.get_by_label("all 60 that match").check()
    page.get_by_role("button", name="Retry…", exact=True).click()
    sheet = page.locator("#sheet")
    expect(sheet.locator("h1")).to_have_text("Retry 60 messages?")
    sheet.get_by_role("button", name="Retry 60 messages").click()

    expect(page.locator(".flash")).to_contain_text("Retry of 60 messages asked for.")
    wait_until(lambda: running.unresolved() == 0, DEADLINE)


def test_some_are_selected_archived_and_taken_back(running: Running, screen: Screen) -> None:
    running.fail(3)
    page = screen.open("/messages")
    archive = page.get_by_role("button", name="Archive…", exact=True)
    expect(archive).to_be_disabled()

    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("[data-picked]")).to_have_text("2 selected")
    archive.click()
    page.locator("#sheet").get_by_role("button", name="Archive 2 messages").click()

    expect(page.locator(".flash")).to_contain_text("2 messages archived.")
    assert running.unresolved() == 1
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".flash")).to_contain_text("2 messages unarchived.")


def test_a_new_message_waits_until_it_is_asked_for(running: Running, screen: Screen) -> None:
    page = screen.open("/messages")
    screen.wait_live()

    running.fail(1)
    news = page.get_by_role("button", name="1 new")
    expect(news).to_be_visible()
    assert page.locator("tr[data-row]").count() == 0
    news.click()

    expect(page.locator("tr[data-row]")).to_have_count(1)
    expect(news).to_be_hidden()


def test_conditions_are_written_in_the_readers_time(
    looked_at: Running, open_look: OpenScreen
) -> None:
    there = looked_at.unresolved(looked_at.site.shop.orders)
    page = open_look().open("/messages")
    page.locator("details.more summary").click()

    page.get_by_label("Failed from (your time)").fill("2020-01-01T09:00:00")
    page.get_by_role("textbox", name="Queue", exact=True).fill(looked_at.site.shop.orders)
    page.get_by_role("button", name="Show them").click()

    # Tokyo is nine hours ahead. Nothing that is empty is in the address.
    expect(page).to_have_url(re.compile(r"failed_from=2020-01-01T00(%3A|:)00(%3A|:)00"))
    expect(page).not_to_have_url(re.compile(r"reason=|endpoint="))
    expect(page.locator(".token").last).to_contain_text("2020-01-01 09:00:00")
    expect(page.locator("tr[data-row]")).to_have_count(there)
    page.get_by_label(re.compile("Without queue")).click()
    expect(page.locator(".token")).to_have_count(1)


def test_a_message_is_retried_and_its_story_goes_on(running: Running, screen: Screen) -> None:
    running.fail(1)
    page = screen.open("/messages")
    page.locator("tr[data-row] a.cause").click()

    page.locator("[data-main]").get_by_role("button", name="Retry", exact=True).click()

    expect(page.locator(".flash")).to_contain_text("Retry of 1 message asked for.")
    # Nobody reloads: the page is told each state, and this one stays until the message is handled.
    expect(page.locator("p.lead")).to_contain_text("neither succeeded nor failed yet")
    expect(page.locator(".story")).to_contain_text("The broker has its retry.")


def test_a_message_that_fails_again_says_so_where_one_reads(
    running: Running, screen: Screen
) -> None:
    running.fail(1)
    (found,) = running.http.get("/api/errors").json()
    page = screen.open(f"/messages/{found['id']}")
    screen.wait_live()

    shop = running.site.shop
    running.http.post(f"/api/errors/{found['id']}/retry").raise_for_status()
    (retried,) = shop.take(shop.orders, 1)
    shop.fail_again(retried)

    expect(page.locator("p.lead")).to_contain_text("It failed 2 times")
    news = page.get_by_role("button", name="1 new: show the newest failure")
    news.click()
    expect(page.locator("#attempts")).to_contain_text("2 failures")
    expect(news).to_be_hidden()


def test_a_message_is_declared_dead_with_a_reason(running: Running, screen: Screen) -> None:
    running.fail(1)
    page = screen.open("/messages")
    page.locator("tr[data-row] a.cause").click()
    page.get_by_role("link", name="Declare dead…").click()
    sheet = page.locator("#sheet")

    sheet.get_by_label("Why").fill("the order was cancelled")
    sheet.get_by_role("button", name="Declare it dead").click()

    expect(page.locator("p.lead")).to_contain_text("the order was cancelled")
    screen.open("/messages")
    expect(page.locator("tr[data-row]")).to_contain_text("the order was cancelled")


HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> \u202egnp.exe"


def test_a_hostile_message_is_text(running: Running, screen: Screen) -> None:
    dialogs: list[str] = []
    screen.page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    shop = running.site.shop
    headers = failure_headers(shop.orders) | {
        HOSTILE: HOSTILE,
        "NServiceBus.MessageId": "hostile",
        "NServiceBus.ExceptionInfo.ExceptionType": HOSTILE,
        "NServiceBus.ExceptionInfo.Message": HOSTILE,
    }
    shop.put(headers, HOSTILE.encode() * (5 << 14))
    wait_until(lambda: running.unresolved() == 1, DEADLINE)

    page = screen.open("/messages")
    page.locator("tr[data-row] a.cause").click()

    expect(page.locator("h1")).to_contain_text("<script>alert(1)</script>")
    expect(page.locator("h1")).to_contain_text("⟨U+202E⟩gnp.exe")
    expect(page.locator("#headers + .panel")).to_contain_text("onerror=alert(2)")
    expect(page.locator("pre.body")).to_contain_text("onerror=alert(2)")
    assert page.locator("main img").count() == 0
    assert dialogs == []


def test_long_names_make_no_page_wider_than_a_phone(
    running: Running, open_screen: OpenScreen
) -> None:
    shop, name = running.site.shop, "MyCompany.Sales.Orders." * 10
    headers = failure_headers(shop.orders) | {
        "NServiceBus.MessageId": "long",
        "NServiceBus.FailedQ": name,
        "NServiceBus.EnclosedMessageTypes": name,
        "NServiceBus.ExceptionInfo.ExceptionType": name,
        "NServiceBus.ProcessingEndpoint": name,
    }
    shop.put(headers, b"{}")
    wait_until(lambda: running.unresolved() == 1, DEADLINE)
    page = open_screen(width="narrow").open("/messages")

    page.locator("tr[data-row] a.cause").click()

    expect(page.locator("h1")).to_contain_text("MyCompany")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_more_bytes_come_when_they_are_asked_for(running: Running, screen: Screen) -> None:
    shop = running.site.shop
    shop.put(failure_headers(shop.orders) | {"NServiceBus.MessageId": "binary"}, b"\xff" * 20_000)
    wait_until(lambda: running.unresolved() == 1, DEADLINE)
    page = screen.open("/messages")
    page.locator("tr[data-row] a.cause").click()
    expect(page.locator("pre.body")).to_contain_text("00001ff0")

    page.get_by_role("link", name="Show 11.5 KiB more").click()

    expect(page.locator("pre.body").last).to_contain_text("00004e10")
    expect(page.locator("#more-bytes")).to_have_count(0)


def test_the_note_about_an_unknown_filter_goes_with_the_list_it_is_about(
    running: Running, screen: Screen
) -> None:
    running.fail(2)
    page = screen.open("/messages?queu=orders")
    note, everything = page.get_by_text("Unknown filter"), page.get_by_label("that match")
    expect(note).to_be_visible()
    expect(everything).to_have_count(0)

    page.locator("#filter").fill(running.site.shop.orders)

    expect(everything).to_be_visible()
    expect(note).to_have_count(0)

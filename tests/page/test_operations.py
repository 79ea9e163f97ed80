"""An operation is steered, pending retries are resolved, archived ones come back: in the browser."""

import pytest
from playwright.sync_api import expect

from tests.page.browser import Screen
from tests.page.conftest import DEADLINE, OpenScreen, Running
from tests.support.waiting import wait_until

pytestmark = pytest.mark.page


def ask(running: Running, rate: int) -> str:
    """Ask for a retry of everything; return the path of the operation's page."""
    body = {"selection": {"all": True}, "rate": rate}
    made = running.http.post("/api/operations", json=body).json()
    return f"/operations/{made['operation_id']}"


def test_an_operation_is_watched_paused_resumed_and_cancelled(
    running: Running, screen: Screen
) -> None:
    running.fail(40)
    path = ask(running, rate=1)
    page = screen.open(path)
    screen.wait_live()
    sent = page.locator("[data-live$='/forwarded']")
    wait_until(lambda: int(sent.inner_text()) > 0, DEADLINE)

    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".badge").first).to_have_text("paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".flash")).to_contain_text("It goes on.")
    page.get_by_role("link", name="Cancel").click()
    sheet = page.locator("#sheet")
    expect(sheet.locator("h1")).to_have_text("Cancel this operation?")
    sheet.get_by_role("button", name="Cancel it").click()

    expect(page.locator(".flash")).to_contain_text("It is cancelled")
    expect(page.locator(".badge").first).to_have_text("cancelled")


def test_the_rate_is_lifted_and_the_end_is_seen(running: Running, screen: Screen) -> None:
    running.fail(20)
    page = screen.open(ask(running, rate=1))

    page.get_by_role("button", name="Lift the limit").click()

    screen.wait_live()
    expect(page.locator("[data-live$='/remaining']")).to_have_text("0")
    expect(page.locator(".operation [data-live$='/text']")).to_contain_text("20 retries sent")


def test_pending_retries_are_selected_and_resolved(running: Running, screen: Screen) -> None:
    running.fail(2)
    ask(running, rate=100)
    pending = "/api/pendingretries"
    wait_until(lambda: len(running.http.get(pending).json()) == 2, DEADLINE)
    page = screen.open("/pending")

    page.keyboard.press("j")
    page.keyboard.press("x")
    page.get_by_role("button", name="Resolve the selected ones").click()
    expect(page.locator("h1")).to_have_text("Resolve 1 message without a confirmation?")
    page.get_by_role("button", name="1 message was handled").click()

    expect(page.locator(".flash")).to_contain_text("1 message resolved.")
    expect(page.locator("tr[data-row]")).to_have_count(1)


def test_archived_messages_are_unarchived_all_at_once(running: Running, screen: Screen) -> None:
    running.fail(3)
    ids = [each["id"] for each in running.http.get("/api/errors").json()]
    running.http.patch("/api/errors/archive", json=ids).raise_for_status()
    page = screen.open("/archived")

    page.get_by_role("link", name="Unarchive all 3").click()
    page.locator("#sheet").get_by_role("button", name="Unarchive 3 messages").click()

    expect(page.locator(".flash")).to_contain_text("3 messages unarchived.")
    assert running.unresolved() == 3


def test_new_events_wait_until_they_are_asked_for(running: Running, screen: Screen) -> None:
    running.fail(1)
    page = screen.open("/events")
    screen.wait_live()
    before = page.locator("tr[data-row]").count()

    (one,) = (each["id"] for each in running.http.get("/api/errors").json())
    running.http.patch("/api/errors/archive", json=[one]).raise_for_status()

    news = page.locator(".news button")
    expect(news).to_be_visible()
    assert page.locator("tr[data-row]").count() == before
    news.click()
    expect(page.locator("tr[data-row]").first).to_contain_text("archive")
    expect(news).to_be_hidden()


def test_the_ledger_is_added_up_in_place(open_look: OpenScreen) -> None:
    page = open_look().open("/processor")

    page.get_by_role("link", name="Add it up").click()

    expect(page.locator("#ledger")).to_contain_text("It adds up.")

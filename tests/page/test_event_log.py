"""The event log in the browser: what is new is counted as it is listed, without what is routine."""

import pytest
from playwright.sync_api import expect

from tests.page.browser import Screen
from tests.page.conftest import Running

pytestmark = pytest.mark.page


def test_new_events_are_counted_without_the_batches(running: Running, screen: Screen) -> None:
    running.fail(2)
    page = screen.open("/events")
    screen.wait_live()

    body = {"selection": {"all": True}}
    running.http.post("/api/operations", json=body).raise_for_status()
    running.sent(2)

    news = page.locator("[data-news-ids] button")
    expect(news).to_have_text("2 new")
    news.click()
    expect(page.locator("tr[data-row^='event/']")).to_have_count(2)
    expect(page.locator("#list")).to_contain_text("operation completed")


def test_a_kind_is_added_to_the_conditions_and_taken_away(screen: Screen) -> None:
    page = screen.open("/events?kind=retry_asked")

    page.get_by_label("One more kind").select_option("sent_again")
    page.get_by_role("button", name="Filter").click()

    expect(page.locator(".token")).to_have_count(2)
    page.get_by_label("Remove kind sent again").click()
    expect(page.locator(".token")).to_have_count(1)

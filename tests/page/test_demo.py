"""A newcomer opens the page of the demo, and needs no documentation."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.page.browser import Screen
from tests.page.pictures import Failing, shop_with_failures

pytestmark = pytest.mark.page


@pytest.fixture
def failing() -> Iterator[Failing]:
    with shop_with_failures() as failing:
        yield failing


def test_a_newcomer_sees_repairs_retries_and_watches(failing: Failing, browser: Browser) -> None:
    context = browser.new_context()
    screen = Screen(context, failing.url)
    page = screen.open("/demo")
    gifts = page.locator("#gift-bug")
    expect(page.locator("h1")).to_have_text("Three parts of a shop are broken")
    expect(gifts.locator("td.num")).to_have_text("41")
    assert screen.find_violations() == []

    gifts.get_by_role("button", name="Deploy the fix").click()
    gifts.get_by_role("link", name="Retry").click()
    page.locator("#sheet").get_by_role("button", name="Retry 41 messages").click()

    expect(gifts.locator("td.num")).to_have_text("0")
    expect(gifts.locator("[data-live$='/text']")).to_contain_text("27 confirmed · 14 came back")
    expect(gifts).to_contain_text("they wait with the payments now")
    expect(page.locator("#shop")).to_contain_text("192")
    assert screen.complaints == []
    context.close()

"""Log in with a provider in a browser, act, log out; the provider is another site than the page."""

import re
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.journeys.conftest import Site
from tests.page.browser import Screen
from tests.page.conftest import DEADLINE
from tests.support.provider import CLIENT, FakeProvider, running_provider
from tests.support.waiting import wait_until

pytestmark = pytest.mark.page


@pytest.fixture
def fake() -> Iterator[FakeProvider]:
    with running_provider() as provider:
        provider.asks = True
        yield provider


@pytest.fixture
def guarded(site: Site, fake: FakeProvider, browser: Browser) -> Iterator[Screen]:
    """Give a tab of a service that asks who somebody is, and has two failed messages."""
    roles = {"admin": ["retrier-admins"], "reader": ["retrier-readers"]}
    oidc = {"issuer": fake.issuer, "client_id": CLIENT, "roles": roles}
    site.host.configure("access", oidc=oidc, approval={"over": 1})
    service = site.host.start_ready()
    site.shop.fail(2)
    stored = "SELECT count(*) FROM failed_messages"
    wait_until(lambda: site.count(stored) == 2, DEADLINE, "the failures are stored")
    with ExitStack() as stack:
        http = stack.enter_context(service.http)
        context = browser.new_context(service_workers="block")
        stack.callback(context.close)
        screen = Screen(context, f"http://localhost:{http.base_url.port}")
        screen.expected = (f"request to another origin: {fake.issuer}", "console: Failed to load")
        yield screen
        assert screen.unexpected() == []


def log_in(screen: Screen, path: str) -> None:
    page = screen.open(path)
    page.get_by_role("link", name="Log in with 127.0.0.1").click()
    page.get_by_role("link", name="I am Ada").click()
    page.wait_for_url(f"{screen.base}{path}")


def test_a_person_logs_in_acts_and_logs_out(guarded: Screen, site: Site) -> None:
    page = guarded.open("/messages")
    expect(page.locator("h1")).to_have_text("Log in")
    assert guarded.find_violations() == []

    log_in(guarded, "/messages")
    expect(page.locator("#me summary")).to_have_text("ada@example.com")
    assert "session" not in page.evaluate("document.cookie")
    guarded.wait_live()
    for tick in page.locator("td.pick input").all():
        tick.check()
    page.get_by_role("button", name="Archive…", exact=True).click()
    page.locator("#sheet").get_by_role("button", name="Archive 2 messages").click()
    expect(page.locator(".flash")).to_contain_text("2 messages archived.")
    ((who,),) = site.query("SELECT requested_by FROM archive_operations")
    assert who.startswith("ada@example.com (")

    page.locator("#me summary").click()
    assert guarded.find_violations() == []
    page.get_by_role("button", name="Log out", exact=True).click()
    expect(page.locator(".flash")).to_contain_text("You are logged out here")
    guarded.open("/messages")
    expect(page.locator("h1")).to_have_text("Log in")


def test_a_link_of_another_site_opens_the_page_for_who_is_logged_in(
    guarded: Screen, fake: FakeProvider
) -> None:
    log_in(guarded, "/groups")
    page = guarded.page

    page.goto(f"{fake.issuer}/a-chat")
    page.evaluate(f"location.href = '{guarded.base}/messages'")
    page.wait_for_url(f"{guarded.base}/messages")
    expect(page.locator("#me summary")).to_have_text("ada@example.com")


def test_log_out_in_one_tab_is_noticed_in_another(guarded: Screen) -> None:
    log_in(guarded, "/messages")
    guarded.wait_live()
    other = guarded.page.context.new_page()
    other.goto(f"{guarded.base}/groups")
    other.locator("#me summary").click()
    other.get_by_role("button", name="Log out everywhere").click()
    expect(other.locator("h1")).to_have_text("Log in")

    expect(guarded.page.locator("#live.is-on")).to_have_count(0)
    guarded.page.reload()
    expect(guarded.page.locator("h1")).to_have_text("Log in")


def test_a_new_token_is_shown_to_who_made_it(guarded: Screen) -> None:
    log_in(guarded, "/tokens")
    page = guarded.page

    page.get_by_label("Its name").fill("night-run")
    page.get_by_role("button", name="Make the token").click()

    expect(page.locator("h1")).to_have_text("The token night-run")
    assert guarded.find_violations() == []
    page.get_by_role("link", name="To the tokens").click()
    expect(page.locator('[data-row="token/night-run"]')).to_contain_text("operator")
    assert guarded.find_violations() == []


def test_what_waits_for_a_second_person_is_listed(guarded: Screen) -> None:
    log_in(guarded, "/retry")
    page = guarded.page
    page.get_by_role("button", name="Retry 2 messages").click()
    expect(page.locator(".flash")).to_be_visible()

    guarded.open("/approvals")

    row = page.locator('[data-row^="approval/"]')
    expect(row).to_contain_text("by ada@example.com")
    expect(row.get_by_role("button", name="Approve")).to_be_disabled()
    assert guarded.find_violations() == []


def test_the_page_that_leads_on_can_be_read_and_followed(guarded: Screen) -> None:
    """It leads on at once by itself: here it is looked at as it was sent, without that."""
    linked = {"Sec-Fetch-Site": "cross-site"}
    text = httpx.get(f"{guarded.base}/groups", headers=linked, trust_env=False).text
    page = guarded.open("/login")

    page.set_content(re.sub(r"<meta http-equiv=.refresh.[^>]*>", "", text))

    expect(page.get_by_role("link", name="Go on")).to_have_attribute(
        "href", "/login?next=%2Fgroups"
    )
    assert guarded.find_violations() == []

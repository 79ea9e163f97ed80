"""Three in the morning, on the page alone: six questions, by two clicks each at most."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.journeys.conftest import Site
from tests.page.browser import Screen
from tests.page.conftest import Running, opening, run_on
from tests.support.night import CARD, DEADLINE, HELD_WHY, LABELS, NEW, TRUCK, WHY, Night, begin
from tests.support.waiting import wait_until

pytestmark = pytest.mark.page


class OnCall:
    """Who looks at the page; `clicks` is how often they pressed something since the question."""

    def __init__(self, screen: Screen, night: Night) -> None:
        self.night = night
        self._screen = screen
        self.clicks = 0

    @property
    def page(self) -> Page:
        return self._screen.page

    def begin(self) -> None:
        """Open the overview, where every question begins."""
        self._screen.open("/")
        self.clicks = 0

    def press(self, name: str, *, within: str = "body", exact: bool = True) -> None:
        """Press a link."""
        self.page.locator(within).get_by_role("link", name=name, exact=exact).first.click()
        self.clicks += 1

    def row_of(self, cause: str) -> str:
        """Return the text of the row of a group."""
        return self.page.locator("tr", has_text=cause).first.inner_text()


@pytest.fixture(params=[60, pytest.param(5_000, marks=pytest.mark.kills)])
def on_call(site: Site, browser: Browser, request: pytest.FixtureRequest) -> Iterator[OnCall]:
    """Give a night with some failures; with `-m kills` also with as many as a bad night has."""
    with ExitStack() as stack:
        running: Running = stack.enter_context(run_on(site))
        night = begin(site, running.http, request.param)
        # The page counts once a second: the list of groups may be empty until it has.
        wait_until(lambda: shows_all(running.http.get("/groups").text), DEADLINE, "it is counted")
        open_screen = stack.enter_context(opening(browser, running))
        yield OnCall(open_screen(), night)


def shows_all(groups: str) -> bool:
    return all(cause in groups for cause in (CARD, NEW, TRUCK))


def test_six_questions_are_answered(on_call: OnCall) -> None:
    questions = (what_broke, what_is_new, who_retried, did_it_work, which_came_back, what_is_held)
    for question in questions:
        on_call.begin()
        question(on_call)
        assert on_call.clicks <= 2, question.__name__


def what_broke(on_call: OnCall) -> None:
    on_call.press("Groups")

    assert f"{on_call.night.of[CARD]:,}" in on_call.row_of(CARD)
    assert f"{on_call.night.came_back:,}" in on_call.row_of(TRUCK)


def what_is_new(on_call: OnCall) -> None:
    on_call.press("Groups")
    on_call.press("First", within="thead", exact=False)

    # What came back is of a cause that nobody had seen before the retry: newer still.
    rows = on_call.page.locator("tbody tr")
    expect(rows.nth(0)).to_contain_text(TRUCK)
    expect(rows.nth(1)).to_contain_text(NEW)
    expect(rows.nth(2)).to_contain_text(CARD)


def who_retried(on_call: OnCall) -> None:
    on_call.press("Operations")

    row = on_call.page.locator("tr, .operation", has_text=WHY).first
    expect(row).to_contain_text("ada")


def did_it_work(on_call: OnCall) -> None:
    night = on_call.night
    on_call.press("Operations")

    row = on_call.page.locator("tr", has_text=WHY).first
    expect(row).to_contain_text(f"{night.sent:,} retries sent")
    expect(row).to_contain_text(f"{night.confirmed:,} confirmed")
    expect(row).to_contain_text(f"{night.came_back:,} came back")


def which_came_back(on_call: OnCall) -> None:
    on_call.press("Operations")
    on_call.press("Which came back")

    expect(on_call.page.locator("#list")).to_contain_text(TRUCK)
    expect(on_call.page.locator("#list")).to_contain_text(f"{on_call.night.came_back:,}")


def what_is_held(on_call: OnCall) -> None:
    on_call.page.locator("summary", has_text="Waiting").first.click()
    on_call.clicks += 1
    on_call.press("Breakers", within="nav", exact=False)

    row = on_call.page.locator("tr", has_text=LABELS).first
    expect(row).to_contain_text(HELD_WHY)
    expect(row).to_contain_text(f"{on_call.night.held:,}")

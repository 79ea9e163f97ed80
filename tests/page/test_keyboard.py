"""Everything that can be done on a page is done without a mouse."""

import pytest
from playwright.sync_api import Page, expect

from tests.page.browser import Screen
from tests.page.conftest import OpenScreen, Running
from tests.page.pages import PAGES

pytestmark = pytest.mark.page

MARK = """() => {
  const acts = [...document.querySelectorAll('a[href], button, input, select, textarea, summary')]
    .filter(each => each.checkVisibility() && !each.disabled && each.type !== 'hidden')
    .filter(each => each.type !== 'radio' || each.checked);
  acts.forEach((each, place) => { each.dataset.place = place; });
  window.reached = new Set();
  document.addEventListener('focusin', ({target}) => {
    if (target.dataset.place) { window.reached.add(Number(target.dataset.place)); }
  });
  return acts.map(each => each.outerHTML.slice(0, 120));
}"""
"""Names each act of a page by a number, and notes which have had the focus.

Of a set of radio buttons the tab key meets one.
"""
REACHED = "() => [...window.reached]"
STOPS = 8
"""Parts of one field that the tab key meets one by one: those of a time."""


def reached_by_tab(page: Page, count: int) -> set[int]:
    """Press the tab key through a page; return the acts that had the focus."""
    reached: set[int] = set()
    left = count * STOPS
    while left > 0 and len(reached) < count:
        presses = min(count - len(reached), left)
        for _ in range(presses):
            page.keyboard.press("Tab")
        left -= presses
        reached = set(page.evaluate(REACHED))
    return reached


def test_the_tab_key_reaches_every_act_of_every_page(
    looked_at: Running, open_look: OpenScreen
) -> None:
    screen, missed = open_look(), {}
    for name, path in PAGES.items():
        page = screen.open(path(looked_at.http))
        screen.wait_live()
        acts = page.evaluate(MARK)
        reached = reached_by_tab(page, len(acts))
        if left := [act for place, act in enumerate(acts) if place not in reached]:
            missed[name] = left

    assert missed == {}


def focus(page: Page, name: str) -> None:
    """Press the tab key until the button or link of that name has the focus."""
    wanted = page.get_by_role("button", name=name).or_(page.get_by_role("link", name=name)).first
    for _ in range(100):
        page.keyboard.press("Tab")
        if wanted.evaluate("each => each === document.activeElement"):
            return
    pytest.fail(f"the tab key does not reach {name}")


def test_a_group_is_archived_and_taken_back_without_a_mouse(
    running: Running, screen: Screen
) -> None:
    running.fail(3)
    page = screen.open("/groups")
    screen.wait_live()

    focus(page, "Archive")
    page.keyboard.press("Enter")
    expect(page.locator("h1", has_text="Archive")).to_be_visible()
    focus(page, "Archive 3 messages")
    page.keyboard.press("Enter")
    expect(page.locator(".flash")).to_contain_text("3 messages archived.")
    focus(page, "Undo")
    page.keyboard.press("Enter")

    expect(page.locator(".flash")).to_contain_text("3 messages unarchived.")
    assert running.unresolved() == 3

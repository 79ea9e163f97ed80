"""A group is retried, archived and taken back, by mouse and by keyboard."""

import re

import pytest
from playwright.sync_api import expect

from tests.page.browser import Screen
from tests.page.conftest import DEADLINE, QUORUM, OpenScreen, Running
from tests.support.waiting import wait_until

pytestmark = pytest.mark.page


def ask_for_retry(screen: Screen, rate: str = "") -> None:
    """Open the preview of the first group, and send its form."""
    sheet = screen.page.locator("#sheet")
    screen.page.get_by_role("link", name="Retry").first.click()
    expect(sheet).to_be_visible()
    sheet.get_by_label("At most so many a second").fill(rate)
    sheet.get_by_role("button", name="Retry").click()


def retry_group(running: Running, screen: Screen) -> None:
    running.fail(40)
    page = screen.open("/groups")

    ask_for_retry(screen, rate="5")

    expect(page.locator(".flash")).to_contain_text("Retry of 40 messages asked for.")
    expect(page.locator("progress")).to_be_visible()
    screen.wait_live()
    wait_until(lambda: progress(screen) > 0, DEADLINE)
    expect(page.locator("td[data-live$='/count']")).to_have_text("0")
    expect(page.locator(".operation [data-live$='/text']")).to_contain_text("40 retries sent")


def progress(screen: Screen) -> float:
    value = screen.page.locator("progress").evaluate("each => each.value")
    return float(value)


def test_a_group_is_retried_and_its_count_goes_to_zero(running: Running, screen: Screen) -> None:
    retry_group(running, screen)


@QUORUM
def test_a_group_is_retried_on_rabbitmq_and_postgresql(running: Running, screen: Screen) -> None:
    retry_group(running, screen)


def test_the_preview_shows_numbers_and_destinations_first(
    looked_at: Running, open_look: OpenScreen
) -> None:
    count = looked_at.unresolved()
    page = open_look().open("/groups")

    page.get_by_role("link", name="Retry").first.click()

    sheet = page.locator("#sheet")
    expect(sheet.locator("h1")).to_have_text(f"Retry {count} messages?")
    expect(sheet.locator("table")).to_contain_text(looked_at.site.shop.orders)
    sheet.get_by_role("link", name="Cancel").click()
    expect(sheet).to_be_hidden()


def test_what_came_back_is_told_beside_what_did_not(running: Running, screen: Screen) -> None:
    running.fail(3)
    page = screen.open("/groups")
    ask_for_retry(screen)
    shop = running.site.shop
    one, other, _ = shop.take(shop.orders, 3)

    shop.confirm(one)
    shop.fail_again(other)

    expect(page.locator(".operation [data-live$='/text']")).to_contain_text(
        "1 confirmed · 1 came back · 1 without outcome yet"
    )


def test_a_row_that_stays_open_offers_again_what_its_retry_left(
    running: Running, screen: Screen
) -> None:
    running.fail(3)
    group = running.group()
    later = {"selection": {"group": group}, "in": "1h"}
    asked = running.http.post("/api/operations", json=later).json()
    page = screen.open("/groups")
    screen.wait_live()
    retry, archive = (
        page.locator(f"a[href^='/groups/{group}/{act}?']") for act in ("retry", "archive")
    )
    nothing_else = page.get_by_text("All of it is in that operation")
    expect(nothing_else).to_be_visible()
    expect(retry).to_be_hidden()
    expect(page.get_by_text("It was asked for not before")).to_be_visible()

    running.http.delete(f"/api/operations/{asked['operation_id']}")

    expect(retry).to_be_visible()
    expect(archive).to_be_visible()
    expect(nothing_else).to_be_hidden()
    expect(page.get_by_text("It was asked for not before")).to_be_hidden()


def test_an_archive_is_taken_back(running: Running, screen: Screen) -> None:
    running.fail(3)
    page = screen.open("/groups")

    page.get_by_role("link", name="Archive").first.click()
    page.locator("#sheet").get_by_role("button", name="Archive 3 messages").click()
    expect(page.locator(".flash")).to_contain_text("3 messages archived.")
    assert running.unresolved() == 0
    page.get_by_role("button", name="Undo").click()

    expect(page.locator(".flash")).to_contain_text("3 messages unarchived.")
    assert running.unresolved() == 3


def test_a_comment_is_written_changed_and_taken_away(running: Running, screen: Screen) -> None:
    running.fail(1)
    page, sheet = screen.open("/groups"), screen.page.locator("#sheet")

    page.get_by_role("link", name="Comment on").click()
    sheet.get_by_label("What others should know of it").fill("<b>ask</b> the warehouse")
    sheet.get_by_role("button", name="Keep it").click()
    expect(page.locator(".said")).to_contain_text("<b>ask</b> the warehouse")
    page.goto(f"{running.base}/messages?group={running.group()}")
    page.get_by_role("link", name="Edit comment on").click()
    sheet.get_by_label("What others should know of it").fill("it is repaired")
    sheet.get_by_role("button", name="Keep it").click()
    expect(page.locator(".said")).to_contain_text("it is repaired")
    page.get_by_role("link", name="Edit comment on").click()
    sheet.get_by_role("button", name="Take it away").click()

    expect(page.locator(".flash")).to_contain_text("The comment is taken away.")
    expect(page.locator(".said")).to_have_count(0)


def test_a_double_click_asks_once(running: Running, screen: Screen) -> None:
    running.fail(3)
    page = screen.open("/groups")
    page.get_by_role("link", name="Retry").first.click()

    page.locator("#sheet").get_by_role("button", name="Retry").dblclick()

    expect(page.locator(".flash")).to_be_visible()
    assert len(running.http.get("/api/operations").json()) == 1


def test_two_tabs_see_the_same(running: Running, open_screen: OpenScreen) -> None:
    running.fail(3)
    one, other = open_screen(), open_screen()
    one.open("/")
    other.open("/")
    other.wait_live()

    one.page.get_by_role("link", name="Archive").first.click()
    one.page.locator("#sheet").get_by_role("button", name="Archive 3 messages").click()

    # On a loaded machine a count takes longer, and the next one waits twenty times as long.
    tile = other.page.locator('[data-live="tile/unresolved"]')
    expect(tile).to_have_text("0")


def test_the_filter_narrows_the_list_while_one_types(open_look: OpenScreen) -> None:
    page = open_look().open("/groups")

    page.keyboard.press("f")
    page.keyboard.type("unheard of")

    expect(page.locator(".empty")).to_contain_text("No group matches")
    expect(page).to_have_url(re.compile(r"/groups\?text=unheard(\+|%20)of$"))


def test_everything_goes_by_keyboard(open_look: OpenScreen) -> None:
    page = open_look().open("/groups")

    page.keyboard.press("j")
    expect(page.locator("tr.is-current")).to_have_count(1)
    page.keyboard.press("r")
    expect(page.locator("#sheet")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#sheet")).to_be_hidden()
    page.keyboard.press("?")

    expect(page.locator("#keys")).to_be_visible()


def test_without_scripts_a_group_can_be_retried(looked_at: Running) -> None:
    group = looked_at.group()

    answer = looked_at.http.get(f"/groups/{group}/retry")

    assert 'method="post"' in answer.text
    assert f"Retry {looked_at.unresolved()} messages" in answer.text

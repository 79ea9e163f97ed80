"""Lists in pages: where the next page leads, and what is said where no page goes on."""

import pytest

from retrier.web.page import environment
from retrier.web.pages import LAST_PAGE, PAGE, PagedList, page_number

PAGER = '{% from "parts.html" import pager %}{{ pager(listing, "message") }}'
END = "The pages end here."


def listing(number: int, total: int) -> PagedList[int]:
    rows = range(max(0, min(PAGE, total - (number - 1) * PAGE)))
    return PagedList(rows=rows, total=total, number=number, path="/messages", values={"text": "a"})


def shown(number: int, total: int) -> str:
    return environment().from_string(PAGER).render(listing=listing(number, total))


def test_the_last_page_that_there_is_has_no_next_one() -> None:
    assert listing(LAST_PAGE - 1, 10**6).after == f"/messages?text=a&page={LAST_PAGE}"
    assert listing(LAST_PAGE, 10**6).after is None


def test_a_list_that_goes_on_behind_the_last_page_says_what_to_do() -> None:
    html = shown(LAST_PAGE, 10**6)

    assert "499,951\u2013500,000 of 1,000,000 messages" in html
    assert END in html
    assert "Next" not in html


@pytest.mark.parametrize(("number", "total"), [(1, 3), (1, 500), (LAST_PAGE, LAST_PAGE * PAGE)])
def test_a_list_that_ends_says_nothing_of_it(number: int, total: int) -> None:
    assert END not in shown(number, total)


def test_a_page_behind_the_last_one_is_the_last_one() -> None:
    assert page_number("30000") == LAST_PAGE

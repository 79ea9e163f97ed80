"""What may be saved as a view, and what of it is kept."""

import pytest

from retrier.domain.views import LONGEST_NAME, LONGEST_QUERY, View, ViewList, ViewRefusal, read_view


def test_keeps_the_known_conditions_of_the_list_and_no_page_number() -> None:
    found = read_view(
        " night ", "messages", "?queue=a+b&page=3&done=x&colour=red&sort=status&text="
    )

    assert found == View(name="night", page=ViewList.MESSAGES, query="queue=a+b&sort=status")
    assert found.path == "/messages?queue=a+b&sort=status"


@pytest.mark.parametrize(
    ("name", "page", "query", "why"),
    [
        ("", "messages", "queue=a", ViewRefusal.NO_NAME),
        ("a/b", "messages", "queue=a", ViewRefusal.NO_PART),
        ("..", "messages", "queue=a", ViewRefusal.NO_PART),
        ("a\nb", "messages", "queue=a", ViewRefusal.INVISIBLE),
        ("a\u200bb", "messages", "queue=a", ViewRefusal.INVISIBLE),
        ("a\0b", "messages", "queue=a", ViewRefusal.INVISIBLE),
        ("\u202eb", "messages", "queue=a", ViewRefusal.INVISIBLE),
        ("x" * (LONGEST_NAME + 1), "messages", "queue=a", ViewRefusal.NO_NAME),
        ("a", "//evil.example", "queue=a", ViewRefusal.NO_LIST),
        ("a", "operations", "queue=a", ViewRefusal.NO_LIST),
        ("a", "messages", "queue=a&queue=b", ViewRefusal.TWICE),
        ("a", "messages", "by=type", ViewRefusal.NOTHING),
        ("a", "messages", "", ViewRefusal.NOTHING),
        ("a", "messages", "queue=" + "x" * LONGEST_QUERY, ViewRefusal.TOO_LONG),
    ],
)
def test_refuses_what_it_cannot_keep(name: str, page: str, query: str, why: ViewRefusal) -> None:
    assert read_view(name, page, query) is why

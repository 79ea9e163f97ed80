"""Numbers, times and durations as people read them."""

from datetime import UTC, datetime, timedelta

import pytest

from retrier.web import wording

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def test_numbers_have_thousands_separators() -> None:
    assert wording.number(31_204) == "31,204"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "just now"),
        (40, "40 seconds ago"),
        (61, "1 minute ago"),
        (7200, "2 hours ago"),
        (200_000, "2 days ago"),
        (-90, "in 1 minute"),
    ],
)
def test_times_are_told_by_their_distance(seconds: int, words: str) -> None:
    assert wording.ago(NOW - timedelta(seconds=seconds), NOW) == words


@pytest.mark.parametrize(
    ("count", "words"), [(1, "1 byte"), (64, "64 bytes"), (2048, "2.0 KiB"), (5 << 20, "5.0 MiB")]
)
def test_sizes(count: int, words: str) -> None:
    assert wording.size(count) == words


def test_long_lists_are_cut() -> None:
    assert wording.listed(["a", "b", "c", "d"]) == "a, b and 2 more"
    assert wording.listed(["a", "b"]) == "a and b"


@pytest.mark.parametrize(("text", "whole"), [("it waits", "It waits."), ("Why?", "Why?")])
def test_reasons_become_sentences(text: str, whole: str) -> None:
    assert wording.sentence(text) == whole


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Shop.Tenant", "Shop.<wbr>Tenant"),
        ("EnclosedMessageTypes", "Enclosed<wbr>Message<wbr>Types"),
        ("x-death", "x-<wbr>death"),
        ("<b>.\u202e", "&lt;b&gt;.<wbr>⟨U+202E⟩"),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_a_narrow_column_breaks_a_name_between_its_parts(name: str, shown: str) -> None:
    assert str(wording.breakable(name)) == shown

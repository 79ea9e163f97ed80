"""Every test or rule that the original description names has tests of ours."""

import re
from dataclasses import dataclass

import pytest

from tests.quality.test_hazards_are_covered import NODE, TESTS, exists
from tests.support.project import ROOT

PAGE = (TESTS / "seeds.md").read_text()
LATER = re.compile(r"comes with `([\w ]+)`")
TO_COME: set[str] = set()
NAMED = (8, 15, 29, 14)
"""How many tests, or rules, each part of the description names."""
FOUND = 40
"""How many rows there are at least of what was found to differ: none is lost."""
FOUND_IN = re.compile(r"(?:Batches|Outbox|Job queue|Worker|Dead letters|Card): \S")
DEPARTURE = re.compile(r'departure: "([^"]+)"')
DEPARTURES = (ROOT / "docs" / "decisions" / "departures.md").read_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A test that the description names; `test` is ours, or what it comes with."""

    named: str
    test: str


def rows_of(part: str) -> list[Row]:
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in part.splitlines()
        if line.startswith("| ") and not line.startswith("| the description")
    ]
    return [Row(named=named, test=test) for named, test in cells]


*PARTS, DIFFERENT = [rows_of(part) for part in PAGE.split("\n## ")[1:]]
ROWS = [row for part in PARTS for row in part]


def test_every_part_has_its_rows() -> None:
    assert tuple(map(len, PARTS)) == NAMED


def test_no_test_is_named_twice() -> None:
    rows = [*ROWS, *DIFFERENT]
    assert len({row.named for row in rows}) == len(rows)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.named)
def test_each_has_tests_of_ours_or_what_it_comes_with(row: Row) -> None:
    ours = "<br>".join(f"`{test}`" for test in NODE.findall(row.test))
    later = "".join(f"comes with `{name}`" for name in LATER.findall(row.test))

    assert row.test
    assert row.test in {ours, later}
    assert {*LATER.findall(row.test)} <= TO_COME


@pytest.mark.parametrize("row", [*ROWS, *DIFFERENT], ids=lambda row: row.named)
def test_each_of_ours_exists(row: Row) -> None:
    assert [test for test in NODE.findall(row.test) if not exists(test)] == []


def test_none_of_what_was_found_to_differ_is_lost() -> None:
    assert len(DIFFERENT) >= FOUND


@pytest.mark.parametrize("row", DIFFERENT, ids=lambda row: row.named)
def test_what_was_found_to_differ_has_a_test_or_a_departure(row: Row) -> None:
    each = row.test.split("<br>")

    assert FOUND_IN.match(row.named)
    assert [one for one in each if not (DEPARTURE.fullmatch(one) or NODE.fullmatch(one))] == []


@pytest.mark.parametrize("row", DIFFERENT, ids=lambda row: row.named)
def test_each_departure_has_its_line_with_its_reason(row: Row) -> None:
    lines = [line.strip("|").split(" | ") for line in DEPARTURES.splitlines()]
    departures = [cells[0].strip() for cells in lines if len(cells) == len(("says", "does", "why"))]

    named = DEPARTURE.findall(row.test)
    assert [text for text in named if departures.count(text) != 1] == []

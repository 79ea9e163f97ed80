"""Every test or rule that the original description names has tests of ours."""

import re
from dataclasses import dataclass

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


def is_covered(row: Row) -> bool:
    ours = "<br>".join(f"`{test}`" for test in NODE.findall(row.test))
    later = "".join(f"comes with `{name}`" for name in LATER.findall(row.test))
    is_known = {*LATER.findall(row.test)} <= TO_COME
    return bool(row.test) and row.test in {ours, later} and is_known


def test_each_has_tests_of_ours_or_what_it_comes_with() -> None:
    assert [row for row in ROWS if not is_covered(row)] == []


def test_each_of_ours_exists() -> None:
    named = [(row.named, test) for row in [*ROWS, *DIFFERENT] for test in NODE.findall(row.test)]

    assert [(name, test) for name, test in named if not exists(test)] == []


def test_none_of_what_was_found_to_differ_is_lost() -> None:
    assert len(DIFFERENT) >= FOUND


def test_what_was_found_to_differ_says_where_it_was_found() -> None:
    assert [row.named for row in DIFFERENT if not FOUND_IN.match(row.named)] == []


def test_what_was_found_to_differ_has_a_test_or_a_departure() -> None:
    each = [(row.named, one) for row in DIFFERENT for one in row.test.split("<br>")]

    neither = [
        pair for pair in each if not (DEPARTURE.fullmatch(pair[1]) or NODE.fullmatch(pair[1]))
    ]
    assert neither == []


def test_each_departure_has_its_line_with_its_reason() -> None:
    lines = [line.strip("|").split(" | ") for line in DEPARTURES.splitlines()]
    departures = [cells[0].strip() for cells in lines if len(cells) == len(("says", "does", "why"))]

    named = [(row.named, text) for row in DIFFERENT for text in DEPARTURE.findall(row.test)]
    assert [pair for pair in named if departures.count(pair[1]) != 1] == []

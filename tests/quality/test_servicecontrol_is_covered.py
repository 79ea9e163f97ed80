"""Each route and each test of ServiceControl in the table has a test of ours, or a decision why not."""

import re

from tests.quality.test_hazards_are_covered import NODE, TESTS, exists
from tests.support.project import ROOT
from tests.unit.api.test_servicecontrol_shapes import ROWS

TABLE = TESTS / "servicecontrol.md"
DECISION = re.compile(r"\[\d{4}\]\(\.\./(docs/decisions/[\w-]+\.md)\)")
ROUTES_OF_SERVICECONTROL = 79


def walk() -> list[tuple[str, str]]:
    lines = (line for line in TABLE.read_text().splitlines() if line.startswith("| "))
    cells = (line.removeprefix("| ").removesuffix(" |").rpartition(" | ") for line in lines)
    return [(name, test) for name, _, test in cells if test != "test or decision"]


ALL = walk()


def test_each_row_names_a_test_or_a_decision() -> None:
    bare = [name for name, test in ALL if not NODE.findall(test) and not DECISION.findall(test)]

    assert bare == []


def test_the_tests_that_are_named_exist() -> None:
    assert [
        (name, each) for name, test in ALL for each in NODE.findall(test) if not exists(each)
    ] == []


def test_the_decisions_that_are_named_exist() -> None:
    named = {each for _, test in ALL for each in DECISION.findall(test)}

    assert [each for each in sorted(named) if not (ROOT / each).exists()] == []


def test_the_table_has_every_route_that_is_asked_for() -> None:
    listed = {name.strip("`") for name, _ in ALL}

    assert [row.line for row in ROWS if row.line not in listed] == []
    assert len(ROWS) >= ROUTES_OF_SERVICECONTROL

"""The page that says how it works knows every state, every move and every crash point of the code."""

import re
from enum import StrEnum

from sqlalchemy import text

from retrier.domain.failed_message import MOVES, FailedMessageStatus
from retrier.domain.retry_batch import NEXT, RetryBatchStatus
from retrier.domain.retry_operation import RetryOperationState
from retrier.store.engine.database import Database
from tests.support.effects import ALL_POINTS
from tests.support.project import ROOT

PAGE = (ROOT / "docs" / "how-it-works.md").read_text()

HEADINGS: dict[str, type[StrEnum]] = {
    "A failed message": FailedMessageStatus,
    "A retry batch": RetryBatchStatus,
    "A retry operation": RetryOperationState,
}
MOVE = re.compile(r"^\| (\S+) \| (\S+) \| .+ \| .+ \|$", re.MULTILINE)
ARROW = re.compile(r"^ +(\S+) --> (\S+):", re.MULTILINE)
CRASH_ROW = re.compile(r"^\| `([a-z]+\.[a-z_]+)` \|", re.MULTILINE)
QUERY = re.compile(r"```sql\n(.+?)```", re.DOTALL)


def section(heading: str) -> str:
    """Return the text below a heading, up to the next one."""
    _, _, rest = PAGE.partition(f"# {heading}\n")
    return re.split(r"^#", rest, maxsplit=1, flags=re.MULTILINE)[0]


def moves(heading: str) -> set[tuple[str, str]]:
    """Return the moves of a table, with nothing for a row that is not there."""
    rows = MOVE.findall(section(heading))
    return {(state(source), state(target)) for source, target in rows if source != "from"} - {
        ("---", "---")
    }


def state(cell: str) -> str:
    return "" if cell in {"(new)", "(deleted)", "[*]"} else cell.strip("`")


def test_every_crash_point_of_the_code_has_a_row() -> None:
    rows = CRASH_ROW.findall(section("Killed in the middle"))

    assert sorted(set(ALL_POINTS) - set(rows)) == []


def test_every_row_names_a_crash_point_of_the_code() -> None:
    rows = CRASH_ROW.findall(section("Killed in the middle"))

    assert sorted(set(rows) - set(ALL_POINTS)) == []


def test_no_crash_point_has_two_rows() -> None:
    rows = CRASH_ROW.findall(section("Killed in the middle"))

    assert len(rows) == len(set(rows))


def test_every_state_is_told_under_its_heading() -> None:
    told = {heading: section(heading) for heading in HEADINGS}

    states = [(heading, value) for heading, values in HEADINGS.items() for value in values]
    assert [(name, value) for name, value in states if f"`{value}`" not in told[name]] == []


def test_every_move_of_a_batch_is_in_the_table() -> None:
    legal = {(str(source), str(target or "")) for source, target in NEXT.items()}

    assert legal - moves("A retry batch") == set()


def test_the_table_has_every_move_of_a_message_and_no_other() -> None:
    legal = {(str(source), str(target)) for sources, target in MOVES.values() for source in sources}

    assert moves("A failed message") - {("", "unresolved")} == legal


def test_a_table_of_moves_names_no_other_state() -> None:
    named = {heading: {each for move in moves(heading) for each in move} for heading in HEADINGS}
    others = {heading: names - {"", *HEADINGS[heading]} for heading, names in named.items()}

    assert {heading: names for heading, names in others.items() if names} == {}


def test_every_arrow_of_a_diagram_is_in_its_table() -> None:
    for heading in HEADINGS:
        found = ARROW.findall(section(heading))
        arrows = {(state(source), state(target)) for source, target in found}

        assert arrows, heading
        assert (heading, arrows - moves(heading)) == (heading, set())


def test_every_query_of_the_page_can_be_asked(database: Database) -> None:
    answers = database.read(
        lambda tx: {query: tx.execute(text(query)).all() for query in QUERY.findall(PAGE)}
    )

    assert answers
    assert {query: rows for query, rows in answers.items() if rows} == {}

"""Every event that the code tells is in the table and in the docs, with the fields it carries."""

import ast
import logging
import re
from collections.abc import Iterator
from functools import cache
from string import Formatter

import pytest

from retrier.logs import EVENTS
from tests.support.project import MODULES, ROOT

NEVER = {"body", "header", "headers", "password", "properties", "raw", "secret", "token", "url"}
OF_EVERY_LINE = {"event", "exception", "level", "logger", "message", "timestamp"}
IDS = {
    "operation": {"operation_id"},
    "batch": {"batch_id", "operation_id"},
    "message": {"unique_message_id", "batch_id", "operation_id"},
}
TABLE = "logs.py"
PAGE = (ROOT / "docs" / "logs.md").read_text()
ROW = re.compile(r"^\| `([a-z_]+\.[a-z_]+)` \| (\w+) \| (.+) \| (.*) \|$", re.MULTILINE)


@cache
def tellings() -> tuple[tuple[str, ast.Call], ...]:
    """Return each place that tells an event, and the call; the code is read once."""
    return tuple(
        (f"{path.relative_to(ROOT)}:{node.lineno}:{node.col_offset}", node)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and name_of(node.func) == "say"
    )


def walk_texts() -> Iterator[str]:
    """Walk every text of the code but those of the table itself."""
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())) if path.name != TABLE else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def name_of(function: ast.expr) -> str | None:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return None


def event_of(call: ast.Call) -> str | None:
    """Name the event, unless the code holds it in a variable."""
    match call.args:
        case [ast.Constant(value=str(event))]:
            return event
        case _:
            return None


def given_to(call: ast.Call) -> set[str]:
    return {keyword.arg for keyword in call.keywords if keyword.arg}


def fields_of(event: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(EVENTS[event].sentence) if name}


def carried_by(event: str) -> set[str]:
    """Return the fields of an event's lines: those of its sentence, and what the code adds."""
    added = [given_to(call) for _, call in tellings() if event_of(call) == event]
    return fields_of(event).union(*added) - {"exc_info"}


def test_every_event_told_is_in_the_table() -> None:
    told = {place: event_of(call) for place, call in tellings()}

    unknown = {place: event for place, event in told.items() if event and event not in EVENTS}

    assert told
    assert unknown == {}


def test_every_event_of_the_table_is_told() -> None:
    assert sorted(EVENTS.keys() - set(walk_texts())) == []


def test_every_field_of_the_sentence_is_given() -> None:
    missing = {
        place: lacking
        for place, call in tellings()
        if (event := event_of(call)) and event in EVENTS
        if (lacking := fields_of(event) - given_to(call))
    }

    assert missing == {}


def test_every_event_carries_the_ids_of_what_it_is_about() -> None:
    missing = {
        place: lacking
        for place, call in tellings()
        if (event := event_of(call))
        if (lacking := IDS.get(event.partition(".")[0], set()) - given_to(call))
    }

    assert missing == {}


def test_no_event_carries_what_may_not_be_logged() -> None:
    assert [place for place, call in tellings() if NEVER & given_to(call)] == []


def test_no_event_carries_what_every_line_has() -> None:
    assert [place for place, call in tellings() if OF_EVERY_LINE & given_to(call)] == []


def test_no_sentence_names_what_may_not_be_logged() -> None:
    assert [event for event in EVENTS if fields_of(event) & NEVER] == []


def test_the_documentation_knows_every_event_and_no_other() -> None:
    assert sorted(row[0] for row in ROW.findall(PAGE)) == sorted(EVENTS)


@pytest.mark.parametrize("row", ROW.findall(PAGE), ids=lambda row: row[0])
def test_the_documentation_knows_the_words_of_an_event(row: tuple[str, ...]) -> None:
    event, level, sentence, _ = row

    assert (level, sentence) == (
        logging.getLevelName(EVENTS[event].level).lower(),
        EVENTS[event].sentence,
    )


@pytest.mark.parametrize("row", ROW.findall(PAGE), ids=lambda row: row[0])
def test_the_documentation_knows_the_fields_of_an_event(row: tuple[str, ...]) -> None:
    event, _, _, fields = row

    assert sorted(re.findall(r"`(\w+)`", fields)) == sorted(carried_by(event))

"""Every event that the code tells is in the table, with the fields its sentence names."""

import ast
from collections.abc import Iterator
from string import Formatter

from retrier.logs import EVENTS
from tests.support.project import MODULES, ROOT

NEVER = {"body", "header", "headers", "password", "properties", "raw", "secret", "token", "url"}


def walk_tellings() -> Iterator[tuple[str, ast.Call]]:
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and name_of(node.func) == "say":
                yield f"{path.relative_to(ROOT)}:{node.lineno}:{node.col_offset}", node


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


def fields_of(event: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(EVENTS[event].sentence) if name}


def test_every_event_told_is_in_the_table() -> None:
    told = {place: event_of(call) for place, call in walk_tellings()}

    unknown = {place: event for place, event in told.items() if event and event not in EVENTS}

    assert told
    assert unknown == {}


def test_every_field_of_the_sentence_is_given() -> None:
    missing = {
        place: lacking
        for place, call in walk_tellings()
        if (event := event_of(call)) and event in EVENTS
        if (lacking := fields_of(event) - {keyword.arg for keyword in call.keywords})
    }

    assert missing == {}


def test_no_event_carries_what_may_not_be_logged() -> None:
    telling = [
        place
        for place, call in walk_tellings()
        if NEVER & {keyword.arg for keyword in call.keywords}
    ]

    assert telling == []


def test_no_sentence_names_what_may_not_be_logged() -> None:
    assert [event for event in EVENTS if fields_of(event) & NEVER] == []

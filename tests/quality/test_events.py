"""Every event is emitted; every line of the log is in the docs, with the fields it carries."""

import ast
import importlib
import logging
import pkgutil
import re
from dataclasses import fields
from functools import cache
from string import Formatter
from types import NoneType
from typing import get_args, get_type_hints

from retrier import events
from retrier.app.log import LINES, OTHER_NAMES
from retrier.events.event import Event, SubscriberFailed
from tests.support.effects import ALL_POINTS
from tests.support.project import MODULES, ROOT

NEVER = {"body", "header", "headers", "password", "properties", "raw", "secret", "token", "url"}
OF_EVERY_LINE = {"event", "exception", "level", "logger", "message", "timestamp"}
IDS = {
    "operation": {"operation_id"},
    "batch": {"batch_id", "operation_id"},
    "message": {"unique_message_id", "batch_id", "operation_id"},
}
PLAIN = {str, int, float, bool, NoneType}
SUBSCRIBERS = ("events/", "app/log.py", "app/metrics.py", "app/tracing.py")
PAGE = (ROOT / "docs" / "logs.md").read_text()
ROW = re.compile(r"^\| `([a-z_]+\.[a-z_]+)` \| (\w+) \| (.+) \| (.*) \|$", re.MULTILINE)


def find_events() -> list[type[Event]]:
    """Return every class of event."""
    modules = [
        importlib.import_module(f"{events.__name__}.{each.name}")
        for each in pkgutil.iter_modules(events.__path__)
    ]
    return [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Event) and value is not Event
        if value.__module__ == module.__name__
    ]


EVENTS = find_events()


def line_of(event: type[Event]) -> str:
    return OTHER_NAMES.get(event, event.name)


def shown_of(event: type[Event]) -> set[str]:
    """Return the fields of an event that its line shows."""
    hints = get_type_hints(event)
    plain = {name for name, hint in hints.items() if set(get_args(hint) or [hint]) <= PLAIN}
    return {each.name for each in fields(event) if each.name in {*plain, "error"}}


@cache
def made_in_words() -> tuple[tuple[str, set[str]], ...]:
    """Return each line that is made by name, and the fields it is given; the code is read once."""
    calls = [
        node
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "make_line"
    ]
    return tuple(
        (str(call.args[0].value), {each.arg for each in call.keywords if each.arg})
        for call in calls
        if isinstance(call.args[0], ast.Constant)
    )


@cache
def named_outside() -> frozenset[str]:
    """Return every name that is used where events come from."""
    return frozenset(
        node.id
        for path in MODULES
        if not str(path.relative_to(ROOT / "retrier")).startswith(SUBSCRIBERS)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name)
    )


def given_to(line: str) -> list[set[str]]:
    """Return the fields that each maker of a line gives it."""
    plainly = [shown_of(event) for event in EVENTS if line_of(event) == line]
    named = [given for name, given in made_in_words() if name == line]
    # An event that is worded by hand may add to what it shows itself.
    added = {"reason"} if line == "batch.moved" else set()
    return [*(each | added for each in plainly), *named]


def fields_of(line: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(LINES[line].sentence) if name}


def test_every_event_is_emitted() -> None:
    by_others = {event.__name__ for event in EVENTS} - {SubscriberFailed.__name__}

    assert by_others - named_outside() == set()


def test_no_two_events_have_one_name() -> None:
    names = [event.name for event in EVENTS]

    assert sorted(names) == sorted(set(names))


def test_an_event_without_a_line_is_one_that_a_process_is_killed_at_or_is_counted() -> None:
    silent = {event.name for event in EVENTS if line_of(event) not in LINES}

    counted = {"archive.done_at_once", "lease.held", "processor.idle", "request.retry_asked"}
    assert silent - {*ALL_POINTS} == counted


def test_every_line_of_the_table_is_made() -> None:
    assert [line for line in LINES if not given_to(line)] == []


def test_every_field_of_the_sentence_is_given() -> None:
    missing = [(line, fields_of(line) - given) for line in LINES for given in given_to(line)]

    assert [(line, names) for line, names in missing if names] == []


def test_every_line_carries_the_ids_of_what_it_is_about() -> None:
    ids = {line: IDS.get(line.partition(".")[0], set()) for line in LINES}
    missing = [(line, ids[line] - given) for line in LINES for given in given_to(line)]

    assert [(line, names) for line, names in missing if names] == []


def test_no_line_carries_what_may_not_be_logged_or_what_every_line_has() -> None:
    carried = [
        (line, given & (NEVER | OF_EVERY_LINE)) for line in LINES for given in given_to(line)
    ]

    assert [(line, names) for line, names in carried if names] == []


def test_the_documentation_knows_every_line_and_no_other() -> None:
    assert sorted(row[0] for row in ROW.findall(PAGE)) == sorted(LINES)


def test_the_documentation_knows_the_words_of_each_line() -> None:
    documented = {line: (level, sentence) for line, level, sentence, _ in ROW.findall(PAGE)}

    assert documented == {
        name: (logging.getLevelName(line.level).lower(), line.sentence)
        for name, line in LINES.items()
    }


def test_the_documentation_knows_the_fields_of_each_line() -> None:
    documented = {
        line: sorted(re.findall(r"`(\w+)`", shown)) for line, _, _, shown in ROW.findall(PAGE)
    }

    assert documented == {line: sorted(set[str]().union(*given_to(line))) for line in LINES}

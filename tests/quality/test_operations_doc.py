"""The page for the people who run it: what it names is there, and each alert has its section."""

import re
import shlex

import yaml
from sqlalchemy import text

from retrier.app.log import LINES
from retrier.settings import Settings
from retrier.store.engine.database import Database
from tests.support.commands import ALL, OPTIONS, Words
from tests.support.deploy import DEPLOY, VARIABLE
from tests.support.project import ROOT
from tests.support.setting_keys import SETTING_KEYS, variable_of

PAGE = (ROOT / "docs" / "operations.md").read_text()
RULES = ROOT / "docs" / "monitoring" / "alerts.yaml"

NAME = re.compile(r"`([a-z]+)\.([a-z_]+)`")
FILES = {"db", "yaml", "env", "dump", "service"}
SECTIONS = {*Settings.model_fields, *(event.partition(".")[0] for event in LINES)}
BLOCK = re.compile(r"```(sh|sql)\n(.+?)```", re.DOTALL)
SPAN = re.compile(r"`(retrier [^`]+)`")
QUERIES = [block for kind, block in BLOCK.findall(PAGE) if kind == "sql"]
HEADING = re.compile(r"^### (\w+)$", re.MULTILINE)
AGREED = {
    "RetrierBrokerDown",
    "RetrierDatabaseDown",
    "RetrierDown",
    "RetrierErrorQueueGrowing",
    "RetrierErrorQueueMissing",
    "RetrierFailedImports",
    "RetrierLedgerOff",
    "RetrierMessagesReturned",
    "RetrierNoLeader",
    "RetrierNotReady",
    "RetrierOldestPending",
    "RetrierOldestUnresolved",
    "RetrierStagingStuck",
}


def alerts() -> set[str]:
    """Return the names of the alerts that can fire."""
    if not RULES.exists():
        return AGREED
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule}


def commands() -> list[str]:
    """Return every command line of ours on the page."""
    lines = [
        line.strip()
        for kind, block in BLOCK.findall(PAGE)
        if kind == "sh"
        for line in block.splitlines()
    ]
    called = [
        line.partition("retrier ")[2] for line in lines if re.match(r"(\S*/bin/)?retrier ", line)
    ]
    return sorted({*called, *(each.removeprefix("retrier ") for each in SPAN.findall(PAGE))})


def find_command(words: list[str]) -> Words:
    """Return the longest run of words that is a command."""
    found = [tuple(words[:end]) for end in range(len(words) + 1) if tuple(words[:end]) in ALL]
    return max(found, key=len)


def is_there(line: str) -> bool:
    words = shlex.split(line)
    command = find_command(words)
    options = {each for each in words if each.startswith("-")}
    return bool(command) and options <= set(OPTIONS[command])


def test_a_command_of_the_page_is_there() -> None:
    assert [line for line in commands() if not is_there(line)] == []


def test_the_page_names_settings_and_events_that_are_there() -> None:
    named = {f"{a}.{b}" for a, b in NAME.findall(PAGE) if a in SECTIONS and b not in FILES}

    assert named - set(SETTING_KEYS) - set(LINES) == set()


def test_the_page_names_variables_that_are_there() -> None:
    known = {*map(variable_of, SETTING_KEYS), "RETRIER_DEPLOY_PASSWORD"}

    assert set(VARIABLE.findall(PAGE)) - known == set()


def test_the_page_leads_to_every_file_of_the_deployment() -> None:
    assert [path.name for path in DEPLOY.iterdir() if f"(deploy/{path.name})" not in PAGE] == []


def test_every_alert_has_a_section_and_no_other() -> None:
    _, _, section = PAGE.partition("## When an alert fires\n")

    assert set(HEADING.findall(section.partition("\n## ")[0])) == alerts()


def test_what_was_not_run_is_marked() -> None:
    assert PAGE.count("**not run**") >= 5


def test_every_query_of_the_page_can_be_asked(database: Database) -> None:
    answers = database.read(
        lambda conn: {query: conn.execute(text(query)).all() for query in QUERIES}
    )

    assert {query: rows for query, rows in answers.items() if rows} == {}

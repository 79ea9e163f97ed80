"""The site of the documentation: what it is built from, and what its newest pages promise.

To build it takes half a minute, so that is left to its own command (docs/contributing.md).
"""

import ast
import re
import runpy
import shlex
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from retrier.settings import Settings
from retrier.store.revisions import MIGRATIONS
from tests.support.commands import ALL, COMMANDS, GROUPS, OPTIONS
from tests.support.project import MODULES, ROOT

DOCS = ROOT / "docs"
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
PAGES = {
    path.name: path.read_text()
    for path in DOCS.glob("*.md")
    if path.name not in {"operations.md", "cli.md"}  # their own tests are stricter
}

CODE = re.compile(r"`([^`]+)`")
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
BLOCK = re.compile(r"^ *```(?:sh|console)\n(.+?)^ *```", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"(?:^|[|(]) *(?:\$ )?(?:\S*/bin/)?retrier ([a-z].*)", re.MULTILINE)
ROW = re.compile(r"^\| (`.+?`[^|]*) \|", re.MULTILINE)
SECTION = re.compile(r"^## (.+)\n", re.MULTILINE)


def test_the_site_has_a_section_for_each_kind_of_reader() -> None:
    sections = SECTION.findall((DOCS / "index.md").read_text())

    readers = ["Start", "Connect", "Work", "Automate", "Run", "Reference", "Explain", "Develop"]
    assert sections == [*readers, "Decisions"]


@cache
def completed() -> Mapping[str, str]:
    """Return what the site adds to pages, by the name of the page."""
    site: dict[str, Any] = runpy.run_path(str(DOCS / "conf.py"))
    return {page: add((DOCS / f"{page}.md").read_text()) for page, add in site["ADDITIONS"].items()}


def test_the_navigation_of_the_site_leads_to_every_page() -> None:
    trees = re.findall(r"```{toctree}\n.*?```", "".join(completed().values()), re.DOTALL)
    entries = {line for tree in trees for line in tree.splitlines()}
    pages = {path.relative_to(DOCS).with_suffix("") for path in DOCS.rglob("*.md")}

    # Records are named as the page beside them names them.
    named = {each.name if each.name[0] == "0" else str(each) for each in pages}
    assert named - entries == {"index"}


def test_the_site_has_the_help_of_every_command() -> None:
    page = completed()["cli-options"]

    missing = [words for words in COMMANDS if f"\n## `retrier {' '.join(words)}`\n" not in page]
    assert missing == []
    assert "  -h, --help " in page


def test_the_site_has_every_route_with_its_parameters() -> None:
    page = completed()["http-routes"]

    routes = re.findall(r"^\| ([A-Z, ]+) \| `(/[^`]*)` \|", PAGES["http-api.md"], re.MULTILINE)
    headings = [
        f"### {method.strip()} `{path}`"
        for methods, path in routes
        for method in methods.split(",")
    ]
    assert headings != []
    assert [heading for heading in headings if f"\n{heading}\n" not in page] == []
    assert "| `per_page` | query |" in page


def test_the_site_shows_the_changelog() -> None:
    assert "## [Unreleased]" in completed()["changelog"]


def calls_of(text: str) -> list[str]:
    """Return the commands of ours that a page quotes, without the word `retrier`."""
    typed = [call for block in BLOCK.findall(text) for call in CALL.findall(block)]
    # A span does not go over the end of a line here, so that the fences of blocks begin none.
    spans = [span for span in SPAN.findall(text) if span.startswith("retrier ")]
    quoted = [*typed, *(span.removeprefix("retrier ") for span in spans)]
    return [call.partition("#")[0].partition("|")[0].strip() for call in quoted]


def is_there(call: str) -> bool:
    """Return whether these words are a command, and have options of it only."""
    words = shlex.split(call.replace("...", "ID").rstrip(";)\\"))
    command = max((each for each in runs_of(words) if each in ALL), key=len)
    options = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    names_none = command in GROUPS and len(words) > len(command) and words[len(command)][0] != "-"
    known = bool(command and not names_none) or words[0] == "COMMAND"
    return known and options <= {*OPTIONS[command], "--help"}


def runs_of(words: list[str]) -> list[tuple[str, ...]]:
    return [tuple(words[:end]) for end in range(len(words) + 1)]


@pytest.mark.parametrize("page", PAGES)
def test_a_quoted_command_is_there(page: str) -> None:
    assert [call for call in calls_of(PAGES[page]) if not is_there(call)] == []


@cache
def texts_of_the_code() -> str:
    """Return all texts of the code, those with values in them in one piece, `\\0` for a value."""
    return "\n".join(text for path in MODULES for text in texts_of(path))


def texts_of(path: Path) -> list[str]:
    """Return the texts of a module, without its docstrings."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return [text_of(node) for node in nodes if id(node) not in docstrings]


def text_of(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(text_of(part) or "\0" for part in parts)
        case _:
            return ""


def test_a_message_of_troubleshooting_is_one_of_the_code() -> None:
    quoted = [
        span for row in ROW.findall(PAGES["troubleshooting.md"]) for span in CODE.findall(row)
    ]
    parts = [part.strip() for span in quoted for part in span.split("...") if part.strip()]

    assert len(quoted) > 40
    assert [part for part in parts if part not in texts_of_the_code()] == []


def test_the_changelog_names_each_section_of_the_settings() -> None:
    assert [name for name in Settings.model_fields if f"`{name}`" not in CHANGELOG] == []


def test_the_changelog_names_each_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]

    assert [name for name in extras if f"`{name}`" not in CHANGELOG] == []


def test_the_changelog_names_each_revision_of_the_database() -> None:
    revisions = [path.name[:4] for path in (MIGRATIONS / "versions").glob("[0-9]*.py")]

    assert revisions != []
    assert [revision for revision in sorted(revisions) if f"| {revision} |" not in CHANGELOG] == []

"""Every command and option is documented, and nothing is documented that is none."""

import re

import pytest

from retrier.cli.command import ExitCode
from tests.support.commands import ALL, COMMANDS, OPTIONS, Words
from tests.support.project import ROOT

PAGE = (ROOT / "docs" / "cli.md").read_text()

HEADING = re.compile(r"^### `retrier (.+?)`$", re.MULTILINE)
OPTION = re.compile(r"`(--?[a-z][a-z-]*)")
SHELL = re.compile(r"```sh\n(.+?)```", re.DOTALL)
SHARED = {"--url", "--token-file", "--json", "--config", "--page", "--per-page", "--limit"}
"""Options of several commands, documented once under a heading of their own."""


def section(heading: str) -> str:
    """Return the text below a heading, up to the next one."""
    _, _, rest = PAGE.partition(f"# {heading}\n")
    return re.split(r"^#", rest, maxsplit=1, flags=re.MULTILINE)[0]


def documented(words: Words) -> set[str]:
    return set(OPTION.findall(section(f"`retrier {' '.join(words)}`")))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_has_a_section_with_an_example(words: Words) -> None:
    examples = SHELL.findall(section(f"`retrier {' '.join(words)}`"))

    assert f"retrier {' '.join(words)}" in "".join(examples)


def test_no_section_is_about_another_command() -> None:
    assert {tuple(each.split()) for each in HEADING.findall(PAGE)} == set(COMMANDS)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_section_of_a_command_names_its_options(words: Words) -> None:
    assert set(OPTIONS[words]) - SHARED - documented(words) == set()


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_section_of_a_command_names_no_other_option(words: Words) -> None:
    assert documented(words) - set(OPTIONS[words]) == set()


def test_options_of_several_commands_have_a_row() -> None:
    shared = section("Options of several commands")

    assert set(OPTION.findall(shared)) >= SHARED


@pytest.mark.parametrize("option", OPTIONS[()])
def test_the_options_that_need_no_command_are_named(option: str) -> None:
    assert f"`{option}" in PAGE


@pytest.mark.parametrize("code", ExitCode)
def test_every_exit_code_has_a_row(code: int) -> None:
    assert re.search(rf"^\| {code:d} \| \w", section("Exit codes"), re.MULTILINE)


def test_every_example_is_a_command() -> None:
    lines = [line for block in SHELL.findall(PAGE) for line in block.splitlines()]
    calls = [call for line in lines for call in re.findall(r"(?:^|\| *|\$\()retrier (.+)", line)]

    assert calls
    assert [call for call in calls if not is_command(call)] == []


def is_command(call: str) -> bool:
    words = call.partition("#")[0].split()
    return any(tuple(words[:length]) in ALL for length in (1, 2)) or words[0] in OPTIONS[()]

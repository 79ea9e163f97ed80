"""Every command and option is documented, and nothing is documented that is none."""

import re

from retrier.cli.command import ExitCode
from tests.support.commands import ALL, COMMANDS, OPTIONS, Words
from tests.support.project import ROOT

PAGE = (ROOT / "docs" / "cli.md").read_text()

HEADING = re.compile(r"^### `retrier (.+?)`$", re.MULTILINE)
OPTION = re.compile(r"`(--?[a-z][a-z-]*)")
SHELL = re.compile(r"```sh\n(.+?)```", re.DOTALL)
SHARED = {
    "--url",
    "--token-file",
    "--json",
    "--config",
    "--env-file",
    "--page",
    "--per-page",
    "--limit",
}
"""Options of several commands, documented once under a heading of their own."""


def section(heading: str) -> str:
    """Return the text below a heading, up to the next one."""
    _, _, rest = PAGE.partition(f"# {heading}\n")
    return re.split(r"^#", rest, maxsplit=1, flags=re.MULTILINE)[0]


def documented(words: Words) -> set[str]:
    return set(OPTION.findall(section(f"`retrier {' '.join(words)}`")))


def has_example(words: Words) -> bool:
    command = f"retrier {' '.join(words)}"
    return command in "".join(SHELL.findall(section(f"`{command}`")))


def test_a_command_has_a_section_with_an_example() -> None:
    assert [words for words in COMMANDS if not has_example(words)] == []


def test_no_section_is_about_another_command() -> None:
    assert {tuple(each.split()) for each in HEADING.findall(PAGE)} == set(COMMANDS)


def test_the_section_of_a_command_names_its_options() -> None:
    missing = {words: set(OPTIONS[words]) - SHARED - documented(words) for words in COMMANDS}

    assert {words: options for words, options in missing.items() if options} == {}


def test_the_section_of_a_command_names_no_other_option() -> None:
    others = {words: documented(words) - set(OPTIONS[words]) for words in COMMANDS}

    assert {words: options for words, options in others.items() if options} == {}


def test_options_of_several_commands_have_a_row() -> None:
    shared = section("Options of several commands")

    assert set(OPTION.findall(shared)) >= SHARED


def test_the_options_that_need_no_command_are_named() -> None:
    assert [option for option in OPTIONS[()] if f"`{option}" not in PAGE] == []


def test_every_exit_code_has_a_row() -> None:
    rows = re.findall(r"^\| (\d+) \| \w", section("Exit codes"), re.MULTILINE)

    assert {*map(int, ExitCode)} - {*map(int, rows)} == set()


def test_every_example_is_a_command() -> None:
    lines = [line for block in SHELL.findall(PAGE) for line in block.splitlines()]
    calls = [call for line in lines for call in re.findall(r"(?:^|\| *|\$\()retrier (.+)", line)]

    assert calls
    assert [call for call in calls if not is_command(call)] == []


def is_command(call: str) -> bool:
    words = call.partition("#")[0].split()
    return any(tuple(words[:length]) in ALL for length in (1, 2)) or words[0] in OPTIONS[()]

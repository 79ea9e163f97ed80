"""Help and completion of every command."""

import pytest

from tests.support.commands import COMMANDS, GROUPS, invoke


@pytest.mark.parametrize("words", [*COMMANDS, ()], ids=" ".join)
def test_the_help_of_a_command_has_an_example(words: tuple[str, ...]) -> None:
    result = invoke([*words, "--help"])

    assert result.exit_code == 0
    _, _, examples = result.stdout.partition("Example")
    assert " ".join(("retrier", *words)) in examples


@pytest.mark.parametrize("words", GROUPS, ids=" ".join)
def test_a_group_of_commands_lists_them(words: tuple[str, ...]) -> None:
    result = invoke([*words, "--help"])

    members = [command[-1] for command in COMMANDS if command[:-1] == words]
    assert members
    assert all(f"  {member} " in result.stdout for member in members)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_summary_of_a_command_is_not_cut(words: tuple[str, ...]) -> None:
    listing = invoke([*words[:-1], "--help"]).stdout

    (line,) = (line for line in listing.splitlines() if line.startswith(f"  {words[-1]} "))
    assert "..." not in line


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("retrier ba", "batches"),
        ("retrier errors sh", "show"),
        ("retrier retry --que", "--queue"),
        ("retrier errors list --status retr", "retryIssued"),
        ("retrier errors list --sort time_of", "time_of_failure"),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_is_told_what_may_follow(shell: str, typed: str, offered: str) -> None:
    environ = {
        "_RETRIER_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
        "_TYPER_COMPLETE_ARGS": typed,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }

    result = invoke([], env=environ)

    assert offered in result.stdout

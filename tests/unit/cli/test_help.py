"""Help and completion of every command."""

import httpx
import pytest

from retrier.cli.application import LISTED, PARTS
from tests.support.command_line import CommandLine
from tests.support.commands import ALL, COMMANDS, GROUPS, invoke
from tests.support.factories import failure

SHELLS = ["bash", "zsh", "fish"]


def completing(shell: str, typed: str) -> dict[str, str]:
    """Return what a shell sets when it asks how a line may go on."""
    return {
        "_RETRIER_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
        "_TYPER_COMPLETE_ARGS": typed,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }


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


@pytest.mark.parametrize("words", [("-h",), ("retry", "-h"), ("errors", "list", "-h")])
def test_h_is_help(words: tuple[str, ...]) -> None:
    result = invoke(words)

    assert (result.exit_code, result.stdout.startswith("Usage: retrier")) == (0, True)


def test_help_is_a_command_too() -> None:
    assert invoke(["help", "errors", "list"]).stdout == invoke(["errors", "list", "-h"]).stdout
    assert invoke(["help"]).stdout == invoke(["-h"]).stdout
    assert invoke(["help", "errors", "nonsense"]).exit_code == 2


def test_the_version_is_told_by_a_command_too() -> None:
    assert invoke(["version"]).stdout == invoke(["--version"]).stdout != ""


def test_help_lists_each_command_once_by_what_it_is_for() -> None:
    listed = [each.name for part in PARTS.values() for each in part]

    assert sorted(listed) == sorted({words[0] for words in COMMANDS})
    assert all(f"\n{title}:\n" in invoke(["-h"]).stdout for title in PARTS)
    assert "..." not in invoke(["-h"]).stdout.replace("[ARGS]...", "")


def test_the_summary_that_help_shows_is_that_of_the_command() -> None:
    """It is told without loading the command, so it stands twice."""
    summaries = {name: ALL[(name,)].get_short_help_str(200) for name in LISTED}

    assert {name: each.summary for name, each in LISTED.items()} == summaries


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("retrier ba", "batches"),
        ("retrier groups --classifier Mess", "Message Type"),
        ("retrier groups --sort f", "first"),
        ("retrier retry --disposition d", "dead"),
        ("retrier errors dead x --reason poi", "poison_message"),
        ("retrier errors sh", "show"),
        ("retrier retry --que", "--queue"),
        ("retrier errors list --status retr", "retryIssued"),
        ("retrier errors list --sort time_of", "time_of_failure"),
    ],
)
@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_is_told_what_may_follow(shell: str, typed: str, offered: str) -> None:
    result = invoke([], env=completing(shell, typed))

    assert offered in result.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_ids_and_queues_are_those_of_the_service(cli: CommandLine, shell: str) -> None:
    (message,) = cli.bench.fail(queue="orders.new")
    operation = cli.bench.ask_all().operation_id
    (group,) = cli.api.get("recoverability/groups")

    def complete(typed: str) -> str:
        return cli.run(**completing(shell, typed)).stdout

    assert "orders.new" in complete("retrier retry --queue ord")
    assert group["id"][:8] in complete(f"retrier retry --group {group['id'][:3]}")
    assert message[:8] in complete(f"retrier errors show {message[:2]}")
    assert message in complete(f"retrier errors show {message[:9]}")
    assert operation[:8] in complete(f"retrier operations show {operation[:1]}")
    assert "orders.new" not in complete("retrier retry --queue xyz")


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "hostile", ["$(touch x)", "a;b", "`a`", "\\$(b)", "a'b", 'a"b', "-x", "a\nb"]
)
def test_a_shell_gets_nothing_that_it_could_run(cli: CommandLine, shell: str, hostile: str) -> None:
    cli.api.receive(failure(queue=hostile, exception_type=hostile, stack_trace=""))
    (group,) = cli.api.get("recoverability/groups")

    queues = cli.run(**completing(shell, f"retrier retry --queue {hostile[:1]}")).stdout
    groups = cli.run(**completing(shell, f"retrier retry --group {group['id'][:2]}")).stdout

    assert hostile not in queues
    assert group["id"][:8] in groups
    assert not set(groups.replace(group["id"][:8], "")) & set("$`;\\")


def test_a_service_that_does_not_answer_offers_nothing(cli: CommandLine) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("nobody listens", request=request)

    cli.answer = refuse
    result = cli.run(**completing("bash", "retrier retry --queue o"))

    assert (result.exit_code, result.stdout.strip(), result.stderr) == (0, "", "")


def test_a_person_who_completes_a_line_waits_no_longer_than_for_a_blink(cli: CommandLine) -> None:
    given: list[float] = []

    def answer(request: httpx.Request) -> httpx.Response:
        given.extend(request.extensions["timeout"].values())
        raise httpx.ReadTimeout("it thinks", request=request)

    cli.answer = answer
    result = cli.run(**completing("bash", "retrier retry --queue o"))

    assert (set(given), result.stdout.strip(), result.stderr) == ({0.3}, "", "")

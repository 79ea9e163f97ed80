"""Every command of the command line with its parameters, walked off the Typer app; and run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import typer
from typer.testing import CliRunner, Result

from retrier.cli import app

Words = tuple[str, ...]


def walk(command: Any, words: Words = ()) -> Iterator[tuple[Words, Any]]:
    """Walk a command and all below it, each with the words that lead to it."""
    yield words, command
    for name, member in getattr(command, "commands", {}).items():
        yield from walk(member, (*words, name))


def options_of(command: Any) -> list[str]:
    """Return the options of a command as they are typed, without --help."""
    return [
        name
        for parameter in command.params
        if parameter.param_type_name == "option"
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name != "--help"
    ]


ALL: Mapping[Words, Any] = dict(walk(typer.main.get_command(app)))
GROUPS: list[Words] = [words for words, each in ALL.items() if words and hasattr(each, "commands")]
COMMANDS: list[Words] = [words for words, each in ALL.items() if not hasattr(each, "commands")]
OPTIONS: Mapping[Words, list[str]] = {words: options_of(each) for words, each in ALL.items()}


def invoke(
    arguments: Sequence[str],
    *,
    stdin: str | None = None,
    env: Mapping[str, str | None] | None = None,
    obj: object = None,
) -> Result:
    """Run `retrier` in this process, as `CliRunner.invoke` does.

    That one would build all commands anew each time: most of what a short command takes.
    """
    runner = CliRunner()
    code, problem = 0, None
    with runner.isolation(input=stdin, env=env) as streams:
        try:
            ALL[()].main(args=list(arguments), prog_name="retrier", obj=obj)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except Exception as error:  # noqa: BLE001 - the test sees it in the result
            code, problem = 1, error
        stdout, stderr, output = (stream.getvalue() for stream in streams)
    return Result(runner, stdout, stderr, output, None, code, problem)

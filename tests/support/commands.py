"""Every command of the command line with its parameters, walked off the Typer app."""

from collections.abc import Iterator, Mapping
from typing import Any

import typer

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

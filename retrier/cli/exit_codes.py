"""How a command ends: its exit code, and what it says when something is in the way."""

from collections.abc import Callable
from enum import IntEnum
from functools import wraps
from typing import ParamSpec

import typer

from retrier.cli.texts import harmless
from retrier.errors import (
    BrokerUnavailable,
    ConfigurationError,
    DatabaseUnavailable,
    RetrierError,
    ServiceUnavailable,
)

P = ParamSpec("P")


class ExitCode(IntEnum):
    """What a script learns from a command."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    OUT_OF_REACH = 3
    INTERRUPTED = 130


def with_exit_code(command: Callable[P, None]) -> Callable[P, None]:
    """Turn what a command raises into a line on standard error and an exit code."""

    @wraps(command)
    def run_command(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except RetrierError as error:
            typer.echo(harmless(str(error)), err=True)
            raise typer.Exit(_exit_code(error)) from None

    return run_command


def _exit_code(error: RetrierError) -> ExitCode:
    match error:
        case ConfigurationError():
            return ExitCode.USAGE
        case BrokerUnavailable() | DatabaseUnavailable() | ServiceUnavailable():
            return ExitCode.OUT_OF_REACH
        case _:
            return ExitCode.REFUSED

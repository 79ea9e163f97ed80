"""What commands share that read the settings: the options, and how they are read.

Commands that only call a service do without: reading settings takes a quarter of their memory.
"""

import os
from pathlib import Path
from typing import Annotated

import typer

from retrier.cli.command import ExitCode, tools_of
from retrier.cli.printer import harmless
from retrier.errors import ConfigurationError
from retrier.settings import (
    Settings,
    find_remarks,
    find_used_knobs,
    load_settings,
    read_env_file,
)

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Settings (YAML). Without it: the defaults and RETRIER_<SECTION>__<KEY>.",
    ),
]


def _take_env_file(path: Path | None) -> Path | None:
    """Add what the file says to the environment, where that says nothing of it."""
    try:
        for name, value in (read_env_file(path) if path else {}).items():
            os.environ.setdefault(name, value)
    except ConfigurationError as error:
        typer.echo(harmless(str(error)), err=True)
        raise typer.Exit(ExitCode.USAGE) from None
    return path


EnvFile = Annotated[
    Path | None,
    typer.Option(
        "--env-file",
        metavar="FILE",
        is_eager=True,  # before the options that have a variable
        callback=_take_env_file,
        help="Variables, as lines of NAME=value. What the environment has already wins.",
    ),
]


def load_config(config: Path | None) -> Settings:
    """Read settings from file and environment. Raises ConfigurationError with every problem."""
    return load_settings(config, os.environ)


def load_remarking(ctx: typer.Context, config: Path | None) -> Settings:
    """Read them, and remark what a person may not expect. Raises ConfigurationError."""
    settings = load_config(config)
    for remark in find_remarks(settings, config, os.environ):
        tools_of(ctx).printer.note(remark)
    return settings


def load_for_policies(ctx: typer.Context, config: Path | None) -> Settings:
    """Read them, and remark which names of other systems are used; addresses do not matter here.

    Raises ConfigurationError.
    """
    settings = load_config(config)
    for variable, key in find_used_knobs(config, os.environ).items():
        tools_of(ctx).printer.note(f"{variable} is used for {key}")
    return settings

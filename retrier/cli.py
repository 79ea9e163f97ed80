"""The command line: reads settings, asks the composition root, answers with an exit code.

Exit codes: 0 done; 1 the answer is no; 2 usage or configuration; 3 service, broker or database
out of reach.
"""

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, ParamSpec

import typer

from retrier import __version__
from retrier.errors import (
    BrokerUnavailable,
    ConfigurationError,
    DatabaseUnavailable,
    RetrierError,
)
from retrier.settings import Role, Settings, load_settings

_REFUSED = 1
_CONFIGURATION = 2
_OUT_OF_REACH = 3


_P = ParamSpec("_P")


def with_exit_code(command: Callable[_P, None]) -> Callable[_P, None]:
    """Turn what a command raises into a line on standard error and an exit code."""

    @wraps(command)
    def run_command(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except RetrierError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(_exit_code(error)) from None

    return run_command


# No markup and no rich tracebacks: what users wrote is shown as they wrote it.
app = typer.Typer(
    help="Takes failed messages off error queues, keeps them, and sends them back in batches.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
db = typer.Typer(help="Look after the database.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(db, name="db")

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Settings (YAML). Without it: the defaults and RETRIER_<SECTION>__<KEY>.",
    ),
]
Roles = Annotated[
    list[Role] | None,
    typer.Option(
        "--role",
        metavar="ROLE",
        help="What this process does: ingestion, processor or api; may be given again. "
        "By default: all.",
    ),
]


def main() -> None:
    """Run the command line."""
    app(prog_name="retrier")


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it with the flag's value
    if wanted:
        typer.echo(f"retrier {__version__}")
        raise typer.Exit


@app.callback()
def options(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Take the options that need no command."""


@app.command()
@with_exit_code
def run(config: Config = None, role: Roles = None) -> None:
    """Run the service until it is told to stop."""
    settings = _load(config)
    from retrier.app import serve  # noqa: PLC0415 - wrong settings are told before all this loads

    raise typer.Exit(serve(settings, frozenset(role or Role)))


@app.command()
@with_exit_code
def check(config: Config = None) -> None:
    """Check the settings, then whether the database and the broker can be reached."""
    settings = _load(config)
    from retrier.app import check as look  # noqa: PLC0415 - as in run

    typer.echo("settings: ok")
    results = look(settings)
    for result in results:
        typer.echo(f"{result.name}: {result.text}")
    raise typer.Exit(0 if all(result.ok for result in results) else _OUT_OF_REACH)


@db.command()
@with_exit_code
def upgrade(config: Config = None) -> None:
    """Bring the database's tables up to this version."""
    settings = _load(config)
    from retrier.app import upgrade_database  # noqa: PLC0415 - as in run

    typer.echo(upgrade_database(settings))


def _load(config: Path | None) -> Settings:
    return load_settings(config, os.environ)


def _exit_code(error: RetrierError) -> int:
    match error:
        case ConfigurationError():
            return _CONFIGURATION
        case BrokerUnavailable() | DatabaseUnavailable():
            return _OUT_OF_REACH
        case _:
            return _REFUSED

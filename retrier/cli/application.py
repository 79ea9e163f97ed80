"""The whole command line: its commands, and the options that need no command."""

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from retrier import __version__
from retrier.cli.command import make_app
from retrier.cli.commands import (
    archives,
    breakers,
    comments,
    database,
    dead_messages,
    demo,
    events,
    history,
    imports,
    operations,
    pending,
    policies,
    processor,
    recovery,
    redirects,
    retry,
    service,
    steering,
    streams,
)

app = make_app(
    "Takes failed messages off error queues, keeps them, and sends them back in batches."
)
for part in (
    service.app,
    demo.app,
    operations.groups_app,
    retry.app,
    archives.acts,
    events.app,
    history.app,
    comments.app,
    processor.app,
    recovery.app,
):
    # Added without a name, so that its commands are at the top level.
    app.add_typer(part)
app.add_typer(dead_messages.app, name="errors")
app.add_typer(imports.app, name="imports")
app.add_typer(pending.app, name="pending")
app.add_typer(redirects.app, name="redirects")
app.add_typer(breakers.app, name="breakers")
app.add_typer(streams.app, name="streams")
app.add_typer(steering.app, name="operations")
app.add_typer(operations.batches_app, name="batches")
app.add_typer(archives.app, name="archive-operations")
app.add_typer(policies.app, name="policies")
app.add_typer(database.app, name="db")


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        # Characters that the encoding of the terminal lacks are escaped; else the command fails.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="retrier")


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it with the flag's value
    if wanted:
        typer.echo(f"retrier {__version__}")
        raise typer.Exit


@app.callback(
    epilog="""
    \b
    Examples:
      retrier run --config retrier.yaml
      retrier groups
      retrier retry --group 5a1d0b7e --watch

    Exit codes: 0 done, 1 the answer is no, 2 usage or configuration, 3 service, broker or database
    out of reach.
    """
)
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

"""The whole command line: its commands, the demo, and the options that need no command."""

import sys
from collections.abc import Mapping, Sequence
from io import TextIOWrapper
from types import MappingProxyType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from retrier import __version__
from retrier.cli import (
    archives,
    audit,
    breakers,
    database,
    dialects,
    edits,
    events,
    groups,
    imports,
    login,
    operations,
    pending,
    policies,
    processor,
    recovery,
    redirects,
    retry,
    search,
    service,
    streams,
    tokens,
    views,
)
from retrier.cli.command import command, make_app

demo_app = make_app("Show the main job.")

Port = Annotated[
    int,
    typer.Option("--port", metavar="N", min=0, max=65535, help="The API's port; 0: a free one."),
]
Once = Annotated[
    bool,
    typer.Option(
        "--once",
        help="Run the whole demo without waiting, on a free port, and end: exit code 0 "
        "only if shop and service agree that no message is missing.",
    ),
]


@demo_app.command(
    epilog="""
    \b
    Examples:
      retrier demo
      retrier demo --once
    """
)
@command
def demo(port: Port = 33333, *, once: Once = False) -> None:
    """Show the main job with nothing to set up.

    Broker and database are files in a temporary folder. The worker of a shop runs beside the
    service and fails some orders, for three causes. Without --once the demo waits while you look
    around and repair the causes.
    """
    from retrier.demo import run_demo  # noqa: PLC0415 - only this command needs the shop

    raise typer.Exit(run_demo(port=port, once=once, tell=typer.echo))


about_app = make_app("Tell the version, and what commands do.")


@about_app.command(epilog="Example: retrier version")
@command
def version() -> None:
    """Show the version."""
    _show_version(wanted=True)


Words = Annotated[
    list[str] | None, typer.Argument(metavar="COMMAND", help="Which one, such as errors list.")
]


@about_app.command("help", epilog="Example: retrier help errors list")
@command
def show_help(ctx: typer.Context, words: Words = None) -> None:
    """Show the help of a command."""
    found = ctx.find_root()
    for word in words or ():
        inner = getattr(found.command, "commands", {}).get(word)
        if inner is None:
            raise typer.BadParameter(f"there is no command {' '.join(words or ())}.")
        found = typer.Context(inner, info_name=word, parent=found)
    typer.echo(found.get_help())


PARTS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "What needs a person": (
            "groups",
            "errors",
            "find",
            "retry",
            "archive",
            "unarchive",
            "resolve",
            "comment",
            "acknowledge",
            "pending",
            "imports",
        ),
        "What happened": (
            "operations",
            "archive-operations",
            "batches",
            "history",
            "events",
            "processor",
            "ledger",
        ),
        "What is set": (
            "policies",
            "redirects",
            "breakers",
            "streams",
            "views",
            "search",
            "dialects",
            "token",
        ),
        "The service": (
            *("run", "demo", "check", "verify", "audit", "db", "recover"),
            *("login", "logout", "version", "help"),
        ),
    }
)
"""All commands, in the order in which help lists them."""

_WHOLE = 200
"""A summary of fewer characters is not cut; it may fill two lines."""


class _Commands(TyperGroup):
    """Lists the commands by what they are for."""

    def list_commands(self, _ctx: Any) -> list[str]:
        """Return their names."""
        return [name for names in PARTS.values() for name in names]

    def format_commands(self, _ctx: Any, formatter: Any) -> None:
        """Write them into the help."""
        width = max(map(len, self.commands))
        for title, names in PARTS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (name.ljust(width), self.commands[name].get_short_help_str(_WHOLE))
                        for name in names
                    ]
                )


app = make_app(
    "Takes failed messages off error queues, keeps them, and sends them back in batches.", _Commands
)
for part in (
    service.app,
    demo_app,
    groups.app,
    retry.app,
    archives.acts,
    events.app,
    operations.history_app,
    processor.app,
    recovery.app,
    search.finding_app,
    login.app,
    about_app,
):
    # Added without a name, so that its commands are at the top level.
    app.add_typer(part)
app.add_typer(edits.app, name="errors")
app.add_typer(imports.app, name="imports")
app.add_typer(pending.app, name="pending")
app.add_typer(redirects.app, name="redirects")
app.add_typer(views.app, name="views")
app.add_typer(search.app, name="search")
app.add_typer(breakers.app, name="breakers")
app.add_typer(streams.app, name="streams")
app.add_typer(operations.steering_app, name="operations")
app.add_typer(operations.batches_app, name="batches")
app.add_typer(archives.app, name="archive-operations")
app.add_typer(policies.app, name="policies")
app.add_typer(dialects.app, name="dialects")
app.add_typer(audit.app, name="audit")
app.add_typer(tokens.app, name="token")
app.add_typer(database.app, name="db")


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        # Characters that the encoding of the terminal lacks are escaped; else the command fails.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="retrier")


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - typer gives it the flag's value
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

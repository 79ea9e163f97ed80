"""The whole command line: its commands, and the options that need no command.

A command is loaded when it is asked for: help, completion and each command start at once.
"""

import gc
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from io import TextIOWrapper
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from retrier import __version__


class Listed(NamedTuple):
    """A command, or a group of commands, as help lists it without loading it."""

    name: str
    module: str
    summary: str
    app: str = "app"
    more: str = ""
    """Another module that adds commands to the group."""


PARTS: Mapping[str, Sequence[Listed]] = MappingProxyType(
    {
        "What needs a person": (
            Listed("groups", "groups", "List failure groups."),
            Listed("errors", "edits", "Look at failed messages.", more="events"),
            Listed(
                "find",
                "search",
                "Find by an id, by declared fields or by words; shows the newest messages that are found.",
                "finding_app",
            ),
            Listed("retry", "retry", "Send failed messages back to where they failed."),
            Listed("archive", "archives", "Put failed messages aside.", "acts"),
            Listed(
                "unarchive",
                "archives",
                "Take archived messages back: they are unresolved again.",
                "acts",
            ),
            Listed("resolve", "archives", "Say that failed messages are dealt with.", "acts"),
            Listed("comment", "groups", "Comment on a group, or take its comment away."),
            Listed(
                "acknowledge",
                "operations",
                "Take note of the end of a retry or archive of a group.",
                "history_app",
            ),
            Listed(
                "pending",
                "pending",
                "Retries whose outcome has not arrived: sent, and neither confirmed nor failed again.",
            ),
            Listed(
                "imports",
                "imports",
                "Look at messages that could not be read, and find a way out for them.",
            ),
        ),
        "What happened": (
            Listed(
                "operations",
                "operations",
                "Look at retry operations: one for each request for retries.",
                "steering_app",
            ),
            Listed(
                "archive-operations",
                "archives",
                "Look at archive operations: one for each request to archive, unarchive, resolve.",
            ),
            Listed(
                "batches",
                "operations",
                "Look at the retry batches now alive; a batch that is done is deleted.",
                "batches_app",
            ),
            Listed("history", "operations", "List the retries that were over last.", "history_app"),
            Listed("events", "events", "Show who did what to what, the newest first."),
            Listed(
                "processor", "processor", "Show what the processor does, and what it waits for."
            ),
            Listed("ledger", "processor", "Show how many messages came, and what became of them."),
        ),
        "What is set": (
            Listed("policies", "policies", "Look at the policies that retry by themselves."),
            Listed("redirects", "redirects", "Redirects: retries for one queue go to another."),
            Listed(
                "breakers",
                "breakers",
                "Breakers: destinations that get no retries while they fail.",
            ),
            Listed("streams", "streams", "Streams: messages whose order matters."),
            Listed("views", "views", "Views: lists of the page that were saved under a name."),
            Listed("search", "search", "What messages are found by."),
            Listed("dialects", "dialects", "Try formats of failures."),
            Listed("token", "tokens", "Tokens for programs: made, listed, revoked."),
        ),
        "The service": (
            Listed("run", "service", "Run the service until it is told to stop."),
            Listed("demo", "about", "Show the main job with nothing to set up."),
            Listed("check", "service", "Check settings, database and broker."),
            Listed("verify", "service", "Check that everything adds up."),
            Listed("audit", "audit", "Check the record of who asked for what."),
            Listed("db", "database", "Maintain the database."),
            Listed("recover", "recovery", "Show what was on its way when a backup was made."),
            Listed(
                "login",
                "login",
                "Log in with the provider of a service; the token is kept for you alone.",
            ),
            Listed(
                "logout", "login", "Forget the token of a service, which `retrier login` has kept."
            ),
            Listed("version", "about", "Show the version."),
            Listed("help", "about", "Show the help of a command."),
        ),
    }
)
"""All commands, in the order in which help lists them."""


LISTED: Mapping[str, Listed] = MappingProxyType(
    {each.name: each for part in PARTS.values() for each in part}
)


@cache
def load(name: str) -> Any:
    """Return the command, or the group of commands, of a name of the top level."""
    listed = LISTED[name]
    # What is loaded is no garbage, and to search it again and again takes a sixth of the time.
    gc.disable()
    try:
        part = getattr(import_module(f"retrier.cli.{listed.module}"), listed.app)
        if listed.more:
            import_module(f"retrier.cli.{listed.more}")
    finally:
        gc.enable()
    outer = typer.Typer(rich_markup_mode=None)
    outer.add_typer(part, name=name)
    group: Any = typer.main.get_group(outer).commands[name]
    # The app of a module holds the command of that name, or it is the group itself.
    return group.commands.get(name, group)


class _Loading(Mapping[str, Any]):
    """The commands by name: each is loaded when it is looked up, and not before."""

    def __getitem__(self, name: str) -> Any:
        if name not in LISTED:
            raise KeyError(name)
        return load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(LISTED)

    def __len__(self) -> int:
        return len(LISTED)


class _Commands(TyperGroup):
    """Lists the commands by what they are for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": _Loading()})

    def format_commands(self, _ctx: Any, formatter: Any) -> None:
        """Write them into the help."""
        width = max(map(len, LISTED))
        for title, part in PARTS.items():
            with formatter.section(title):
                formatter.write_dl([(each.name.ljust(width), each.summary) for each in part])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return the commands and options that begin so; no command is loaded for that."""
        # Typer keeps this class to itself. If it moves, only completion is without it.
        from typer._click.shell_completion import CompletionItem  # noqa: PLC0415

        begun = (each for name, each in LISTED.items() if name.startswith(incomplete))
        items = [CompletionItem(each.name, help=each.summary) for each in begun]
        return [*items, *super(TyperGroup, self).shell_complete(ctx, incomplete)]


app = typer.Typer(
    cls=_Commands,
    help="Takes failed messages off error queues, keeps them, and sends them back in batches.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
"""As `make_app` makes the others, which is not loaded for help alone."""


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

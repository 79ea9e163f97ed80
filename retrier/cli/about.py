"""`retrier demo`, `version` and `help`: for who meets it first."""

from pathlib import Path
from typing import Annotated, Any

import typer

from retrier import __version__
from retrier.cli.command import command, make_app
from retrier.cli.man import write_pages
from retrier.cli.printer import counted

app = make_app("Show the main job, tell the version, and what commands do.")

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


@app.command(
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


@app.command(epilog="Example: retrier version")
@command
def version() -> None:
    """Show the version."""
    typer.echo(f"retrier {__version__}")


Words = Annotated[
    list[str] | None, typer.Argument(metavar="COMMAND", help="Which one, such as errors list.")
]


ManPages = Annotated[
    Path | None,
    typer.Option(
        "--man-pages", metavar="FOLDER", help="Write a manual page of each command there instead."
    ),
]


@app.command(
    "help",
    epilog="""
    \b
    Examples:
      retrier help errors list
      retrier help --man-pages /usr/local/share/man/man1
    """,
)
@command
def show_help(ctx: typer.Context, words: Words = None, man_pages: ManPages = None) -> None:
    """Show the help of a command."""
    found: Any = ctx.find_root()
    for word in words or ():
        inner = getattr(found.command, "commands", {}).get(word)
        if inner is None:
            raise typer.BadParameter(f"there is no command {' '.join(words or ())}.")
        found = typer.Context(inner, info_name=word, parent=found)
    if man_pages is None:
        typer.echo(found.get_help())
    else:
        written = write_pages(found, man_pages)
        typer.echo(f"{counted(written, 'manual page')} in {man_pages}", err=True)

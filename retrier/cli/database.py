"""`retrier db upgrade` and `retrier db copy`: they use the settings, and need no service."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from retrier.cli.command import AsJson, ExitCode, command, make_app, printer_of, tools_of
from retrier.cli.printer import Column, Printer, counted, duration
from retrier.cli.settings import Config, EnvFile, load_remarking
from retrier.settings import is_database_named, name_database

app = make_app("Maintain the database.")

To = Annotated[
    str,
    typer.Option(
        "--to",
        envvar="RETRIER_COPY_TO",
        metavar="URL",
        help="The database to copy into: sqlite:/// and a file, or postgresql://. It has to be "
        "empty, or an unfinished copy of the same database.",
    ),
]


@app.command(epilog="Example: retrier db upgrade --config retrier.yaml")
@command
def upgrade(
    ctx: typer.Context, config: Config = None, _env_file: EnvFile = None, *, as_json: AsJson = False
) -> None:
    """Upgrade the tables of the database to this version."""
    settings = load_remarking(ctx, config)
    from retrier.app.check import upgrade_database  # noqa: PLC0415 - slow to load: wrong settings first

    # Beside a file of settings the default is a mistake: a new file would look like the database.
    done = upgrade_database(settings, may_create=config is None or is_database_named(settings))
    printer = printer_of(ctx, as_json=as_json)
    printer.show({"result": done}, done)


_NOTE_EVERY = 1.0
"""Seconds between two remarks on how far it is, besides one at the end of each table."""


@app.command(
    epilog="""
    \b
    Examples:
      retrier db copy --config retrier.yaml --to postgresql://retrier:secret@db.example/retrier
      RETRIER_COPY_TO=sqlite:////var/lib/retrier/retrier.db retrier db copy --config retrier.yaml
    """
)
@command
def copy(
    ctx: typer.Context,
    to: To,
    config: Config = None,
    _env_file: EnvFile = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Copy the database of the settings into another one.

    Stop the service first. Every row is copied, read back and compared, and both databases are
    verified. Until then the new one cannot be used. A copy that was broken off goes on when the
    same command is run again. The source is not changed.
    """
    settings = load_remarking(ctx, config)
    target = name_database(settings, to, "--to or RETRIER_COPY_TO")
    from retrier.app.database_copy import CopyStep, copy_database  # noqa: PLC0415 - as above

    tools = tools_of(ctx)
    begun = tools.clock.monotonic()
    noted = begun

    def tell(step: CopyStep) -> None:
        nonlocal noted
        now = tools.clock.monotonic()
        is_over = step.total > 0 and step.done == step.total
        if is_over or now >= noted + _NOTE_EVERY:
            noted = now
            rows = f"{step.done:,} of {counted(step.total, 'row')}"
            tools.printer.note(f"{step.table}: {rows} {step.doing}")

    done = asdict(copy_database(settings, target, tell))
    seconds = tools.clock.monotonic() - begun
    printer_of(ctx, as_json=as_json).show(
        {"ok": not done["broken"], "seconds": round(seconds, 3), **done},
        lambda printer, done: _show_copy(printer, done, seconds),
    )
    raise typer.Exit(ExitCode.REFUSED if done["broken"] else ExitCode.DONE)


_TABLES = (Column(title="table"), Column(title="rows", number=True))


def _show_copy(printer: Printer, found: dict[str, Any], seconds: float) -> None:
    if found["began_anew"]:
        printer.note("The database had changed since the copy began: it was begun anew.")
    if found["resumed"]:
        printer.note(f"{counted(found['resumed'], 'row')} had been copied before.")
    printer.table(_TABLES, [(each["table"], f"{each['rows']:,}") for each in found["tables"]])
    total = sum(each["rows"] for each in found["tables"])
    printer.line(
        f"{counted(total, 'row')} copied from {found['source']} to {found['target']} in "
        f"{duration(seconds)}; every row was read back and is the same"
    )
    for rule in found["broken"]:
        printer.line(f"off by {rule['broken']:,} in both: {rule['rule']}")
    if not found["broken"]:
        printer.line("everything adds up in both")
    printer.line("Now name the new database as database.url, and start the service.")

"""`retrier audit verify`: walks the lines of an audit. It needs neither settings nor a service."""

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from retrier.cli.command import AsJson, ExitCode, command, make_app, printer_of
from retrier.cli.printer import Column, Printer, counted
from retrier.domain.audit import AuditWalk, read_audit_link
from retrier.errors import ConfigurationError

app = make_app("Check the record of who asked for what.")

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...", help="Files of one audit, in any order; those that end in .gz, too."
    ),
]
Head = Annotated[
    str | None,
    typer.Option(
        "--head",
        metavar="SHA256",
        help="A hash that was kept elsewhere, from the metric or the queue: a line has to have it.",
    ),
]
Restarts = Annotated[
    bool,
    typer.Option(
        "--restarts",
        help="A chain may begin anew in the middle: standard output begins one at each start.",
    ),
]

_COLUMNS = (
    Column(title="what"),
    Column(title="file", flexible=True),
    Column(title="line", number=True),
    Column(title="in words", flexible=True),
)


@app.callback()
def audit() -> None:
    """Check the record of who asked for what."""


@app.command(
    epilog="""
    \b
    Examples:
      retrier audit verify /var/log/retrier/audit.jsonl*
      retrier audit verify audit.jsonl --head 9f2c...
    """
)
@command
def verify(
    ctx: typer.Context,
    files: Files,
    head: Head = None,
    *,
    restarts: Restarts = False,
    as_json: AsJson = False,
) -> None:
    """Say whether lines were removed, changed or moved since.

    What was cut off at the end is found only with --head: nothing in the rest tells of it.
    """
    walk = AuditWalk(wanted=None if head is None else head.lower(), may_begin_anew=restarts)
    for file, number, line in _walk(_in_order(files)):
        walk.go(file, number, line)
    walk.end()
    if walk.lines == 0 and not walk.breaks:
        raise ConfigurationError(["FILE: there is no line of an audit in it"])
    found = {
        "ok": not walk.breaks,
        "lines": walk.lines,
        "first": walk.begins,
        "last": walk.head.number,
        "head": walk.head.sha256,
        "chains": walk.chains,
        "torn": walk.torn,
        "breaks": [asdict(each) for each in walk.breaks],
    }
    printer_of(ctx, as_json=as_json).show(found, _show)
    raise typer.Exit(ExitCode.REFUSED if walk.breaks else ExitCode.DONE)


def _show(printer: Printer, found: dict[str, Any]) -> None:
    printer.line(
        f"{counted(found['lines'], 'line')}, number {found['first'] or 0:,} to {found['last']:,}"
    )
    printer.line(f"head: {found['head']}")
    if (found["first"] or 1) > 1:
        printer.note(f"Lines before number {found['first']:,} are not in these files.")
    if found["chains"] > 1:
        printer.note(f"{counted(found['chains'], 'chain')}: it was begun anew.")
    if found["torn"]:
        printer.note(
            f"{counted(found['torn'], 'place')} where a crash had ended a line, named by the next."
        )
    if found["ok"]:
        printer.line("the chain is whole")
        return
    rows = [(each["what"], each["file"], each["line"], each["words"]) for each in found["breaks"]]
    printer.table(_COLUMNS, rows)
    printer.line(f"the chain is broken: {counted(len(rows), 'break')}")


def _in_order(files: Sequence[Path]) -> Sequence[tuple[Path, Sequence[bytes]]]:
    """Read the files, and return them in the order of their first lines."""
    read = [(each, _read(each)) for each in files]
    # Nothing of a chain in it: it comes last, and is a break itself.
    return sorted(read, key=lambda each: _first_number(each[1]))


def _first_number(lines: Sequence[bytes]) -> float:
    links = (read_audit_link(line) for line in lines)
    return next((float(link.number) for link in links if link is not None), float("inf"))


def _read(path: Path) -> Sequence[bytes]:
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError([f"{path}: cannot be read: {reason}"]) from None
    return content.removesuffix(b"\n").split(b"\n")


def _walk(files: Sequence[tuple[Path, Sequence[bytes]]]) -> Iterator[tuple[str, int, bytes]]:
    for path, lines in files:
        for number, line in enumerate(lines, start=1):
            # An empty file is one empty line.
            if line or len(lines) > 1:
                yield str(path), number, line

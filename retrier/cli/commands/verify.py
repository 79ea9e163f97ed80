"""`retrier verify`: whether everything adds up, with no service running or beside one."""

from dataclasses import asdict
from typing import Any

import typer

from retrier.cli.command import command, make_app, tools_of
from retrier.cli.exit_codes import ExitCode
from retrier.cli.options import AsJson, Config, load_config
from retrier.cli.printer import Column, Printer
from retrier.cli.texts import counted

app = make_app("Look whether everything adds up.")

_COLUMNS = (Column(title="result"), Column(title="rule", flexible=True))


@app.command(epilog="Example: retrier verify --config retrier.yaml")
@command
def verify(ctx: typer.Context, config: Config = None, *, as_json: AsJson = False) -> None:
    """Look whether everything adds up.

    States, claims, batches, operations and the ledger have to agree. It reads the database and
    the depth of the staging queue, and changes nothing. It works beside a running service and
    without one.
    """
    settings = load_config(config)
    from retrier.app import verify as look  # noqa: PLC0415 - as in run

    found = asdict(look(settings))
    printer = tools_of(ctx).printer
    broken = [rule for rule in found["rules"] if rule["broken"]]
    if as_json:
        printer.document({"ok": not broken and found["broker_problem"] is None, **found})
    else:
        _show(printer, found, broken)
    raise typer.Exit(_exit_code(found, broken))


def _show(printer: Printer, found: dict[str, Any], broken: list[dict[str, Any]]) -> None:
    printer.table(
        _COLUMNS, [("off" if rule["broken"] else "ok", rule["rule"]) for rule in found["rules"]]
    )
    for rule in broken:
        title = f"off by {rule['broken']:,}: {rule['rule']}"
        printer.block(title, "\n".join(rule["ids"]) or "(counts only)")
    if found["staging"] is not None:
        printer.line(f"staging queue: {found['staging']}")
    if broken:
        printer.line(f"{counted(len(broken), 'rule')} broken in the database {found['database']}")
    else:
        printer.line(f"everything adds up in the database {found['database']}")
    if found["broker_problem"] is not None:
        printer.note(f"staging queue not looked at: {found['broker_problem']}")


def _exit_code(found: dict[str, Any], broken: list[dict[str, Any]]) -> ExitCode:
    if broken:
        return ExitCode.REFUSED
    return ExitCode.DONE if found["broker_problem"] is None else ExitCode.OUT_OF_REACH

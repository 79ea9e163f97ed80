"""`retrier run`, `check`, `verify`: they use the settings, and need no service."""

import gc
from dataclasses import asdict
from typing import Annotated, Any

import typer

from retrier.cli.command import AsJson, ExitCode, command, make_app, printer_of
from retrier.cli.printer import Column, Printer, counted
from retrier.cli.settings import Config, EnvFile, load_config, load_remarking
from retrier.settings import Role

app = make_app("Run the service.")

Roles = Annotated[
    list[Role] | None,
    typer.Option(
        "--role",
        metavar="ROLE",
        help="What this process does: ingestion, processor or api; may be given again. "
        "By default: all.",
    ),
]


Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        metavar="N",
        min=0,
        max=65535,
        help="The port of the API, in place of api.port; 0 takes a free one.",
    ),
]


@app.command(
    epilog="""
    \b
    Examples:
      retrier run --config retrier.yaml
      retrier run --config retrier.yaml --role ingestion --role api
    """
)
@command
def run(
    config: Config = None, _env_file: EnvFile = None, role: Roles = None, port: Port = None
) -> None:
    """Run the service until it is told to stop."""
    settings = load_config(config)
    if port is not None:
        settings = settings.model_copy(
            update={"api": settings.api.model_copy(update={"port": port})}
        )
    # What is loaded is no garbage, and to search it again and again takes a quarter of the time.
    gc.disable()
    try:
        from retrier.app.service import serve  # noqa: PLC0415 - slow to load: wrong settings come first
    finally:
        gc.enable()
    raise typer.Exit(serve(settings, frozenset(role or Role), config))


@app.command(epilog="Example: retrier check --config retrier.yaml")
@command
def check(
    ctx: typer.Context, config: Config = None, _env_file: EnvFile = None, *, as_json: AsJson = False
) -> None:
    """Check settings, database and broker.

    First the settings are read, then what the service needs of the database and the broker is
    tried. No message is handed out, and nothing that is made stays.
    """
    settings = load_remarking(ctx, config)
    from retrier.app.check import check as look  # noqa: PLC0415 - as in run

    printer = printer_of(ctx, as_json=as_json)
    if not as_json:
        printer.line("settings: ok")
    results = look(settings)
    wrong = [result for result in results if not result.ok]
    if as_json:
        printer.document({"ok": not wrong, "results": [asdict(result) for result in results]})
    else:
        for result in results:
            printer.line(f"{result.name}: {result.text}")
    # A missing right counts as a wrong setting: no new try helps.
    if any(result.out_of_reach for result in wrong):
        raise typer.Exit(ExitCode.OUT_OF_REACH)
    raise typer.Exit(ExitCode.USAGE if wrong else ExitCode.DONE)


_RULES = (Column(title="result"), Column(title="rule", flexible=True))


@app.command(epilog="Example: retrier verify --config retrier.yaml")
@command
def verify(
    ctx: typer.Context, config: Config = None, _env_file: EnvFile = None, *, as_json: AsJson = False
) -> None:
    """Check that everything adds up.

    States, claims, batches, operations and the ledger must agree. The command reads the database
    and the depth of the staging queue, and changes nothing. It works with and without a running
    service.
    """
    settings = load_remarking(ctx, config)
    from retrier.app.verify import verify as look  # noqa: PLC0415 - as in run

    found = asdict(look(settings))
    printer = printer_of(ctx, as_json=as_json)
    broken = [rule for rule in found["rules"] if rule["broken"]]
    document = {"ok": not broken and found["broker_problem"] is None, **found}
    printer.show(document, lambda printer, found: _show_rules(printer, found, broken))
    raise typer.Exit(_end_of_verify(found, broken))


def _show_rules(printer: Printer, found: dict[str, Any], broken: list[dict[str, Any]]) -> None:
    printer.table(
        _RULES, [("off" if rule["broken"] else "ok", rule["rule"]) for rule in found["rules"]]
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


def _end_of_verify(found: dict[str, Any], broken: list[dict[str, Any]]) -> ExitCode:
    if broken:
        return ExitCode.REFUSED
    return ExitCode.DONE if found["broker_problem"] is None else ExitCode.OUT_OF_REACH

"""`retrier dialects test`: what would become of messages by the settings, in a file or stored."""

import json
from base64 import b64decode
from binascii import Error as NoBase64
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from retrier.api.shapes.service import Import, ImportDetails
from retrier.cli.api_client import ApiClient
from retrier.cli.command import CalledService, ExitCode, command, make_app
from retrier.cli.printer import Column, Printer, counted
from retrier.cli.settings import Config, EnvFile, load_config
from retrier.domain.failed_imports import Trial, TriedMessage
from retrier.errors import RequestRefused

app = make_app("Try formats of failures.")

MOST_IMPORTS = 1000
"""So many failed imports are tried at most, the newest."""

File = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE",
        help="Messages as JSON, one or a list; without it the failed imports of the service.",
    ),
]
Queue = Annotated[
    str | None,
    typer.Option(
        "--queue",
        metavar="NAME",
        help="The error queue that those of a file lie on; of failed imports those of this queue.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option("--dialect", metavar="NAME", help="Read each message as this format."),
]


@app.callback()
def dialects() -> None:
    """Try formats of failures."""


@app.command(
    "test",
    epilog="""
    \b
    Examples:
      retrier dialects test --config retrier.yaml messages.json
      retrier dialects test --config retrier.yaml --queue error
      retrier dialects test --config retrier.yaml --dialect rebus
    """,
)
@command
def try_dialects(
    ctx: typer.Context,
    service: CalledService,
    file: File = None,
    queue: Queue = None,
    dialect: Format = None,
    config: Config = None,
    _env_file: EnvFile = None,
) -> None:
    """Show what would become of messages by these settings.

    Of each: how it is read, where it failed and why, where its retry goes, and which headers that
    leaves out. Nothing is changed. Ends with 1 if any would be a failed import.
    """
    settings = load_config(config)
    printer = service.printer(ctx)
    from retrier.app.dialects import try_messages  # noqa: PLC0415 - slow to load: wrong settings first

    if file is None:
        with service.open(ctx) as api:
            messages, total = _load_imports(api, queue)
    else:
        lies_on = queue or settings.ingestion.error_queues[0].queue
        messages = [_written(each, lies_on) for each in _read(file)]
        total = len(messages)
    told = try_messages(settings, messages, Trial(dialect=dialect))
    if total > len(told):
        printer.note(f"the newest {counted(len(told), 'failed import')} of {total:,}")
    _show(printer, told, as_json=service.as_json)
    if any(each["becomes"] == "failed import" for each in told):
        raise typer.Exit(ExitCode.REFUSED)


_COLUMNS = (
    Column(title="becomes"),
    Column(title="read as"),
    Column(title="failed on"),
    Column(title="goes to"),
    Column(title="why", flexible=True),
)


def _show(printer: Printer, told: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    if as_json:
        printer.document({"messages": told})
    elif len(told) == 1:
        printer.sheet({name.replace("_", " "): _plain(value) for name, value in told[0].items()})
    elif told:
        printer.table(_COLUMNS, [_row(each) for each in told])
    else:
        printer.line("no messages")


def _plain(value: object) -> object:
    return (", ".join(map(str, value)) or None) if isinstance(value, list) else value


def _row(told: Mapping[str, Any]) -> tuple[object, ...]:
    parts = (told.get("exception_type"), told.get("exception_message"))
    why = ": ".join(part for part in parts if part) or told.get("failure_reason")
    is_failure = "dialect" in told
    return (
        told["becomes"],
        told.get("dialect", ""),
        told.get("queue", ""),
        told.get("destination", "not known") if is_failure else "",
        why or told.get("reason", ""),
    )


def _read(file: Path) -> list[Mapping[str, Any]]:
    """Read a file of one message, a list, or one on each line. Raises RequestRefused."""
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise RequestRefused(f"{file} cannot be read: {error}.") from None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = list(_read_lines(file, text))
    messages = found if isinstance(found, list) else [found]
    for number, each in enumerate(messages, start=1):
        if not isinstance(each, dict):
            raise RequestRefused(f"{file}: message {number} is no JSON object.")
    return messages


def _read_lines(file: Path, text: str) -> Iterator[object]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            raise RequestRefused(f"{file}: line {number} is no JSON.") from None


def _written(found: Mapping[str, Any], queue: str) -> Any:
    """Make a message of what is written: as here, as `imports show`, or as the broker's tools."""
    from retrier.app.dialects import written  # noqa: PLC0415 - as above

    properties = found.get("properties") or {}
    headers = found.get("headers") or _table(properties).get("headers") or {}
    lies_on = found.get("error_queue") or found.get("queue") or queue
    return written(str(lies_on), _table(properties), _table(headers), _body(found))


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _body(found: Mapping[str, Any]) -> bytes:
    body = found.get("body", found.get("payload", ""))
    encoding = found.get("payload_encoding")
    if isinstance(body, dict) and {"encoding", "content"} <= body.keys():
        body, encoding = body["content"], body["encoding"]
    if encoding == "base64" and isinstance(body, str):
        try:
            return b64decode(body)
        except NoBase64:
            raise RequestRefused("A body that says that it is base64 is none.") from None
    return (body if isinstance(body, str) else json.dumps(body)).encode(errors="replace")


def _load_imports(api: ApiClient, queue: str | None) -> tuple[list[Any], int]:
    """Load failed imports with all their bytes."""
    params = {} if queue is None else {"error_queue": queue}
    listed = api.first(MOST_IMPORTS, Import, "imports", **params)
    messages: list[Any] = []
    for each in listed.items:
        found = api.find(ImportDetails, "imports", each["id"])
        if not found["raw_properties"]["is_whole"]:
            raise RequestRefused(
                f"The properties of the failed import {each['id']} are too large to be tried here: "
                f"read it again (retrier imports retry), or delete it first."
            )
        body, *_ = api.body("imports", each["id"], "body")
        raw = b64decode(found["raw_properties"]["content"])
        messages.append(TriedMessage(queue=each["error_queue"], raw=raw, body=body))
    return messages, listed.total

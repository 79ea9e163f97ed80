"""Patches of retries: read from a file, and shown with what they would make of the messages."""

import json
from difflib import unified_diff
from pathlib import Path
from typing import Annotated

import typer

from retrier.api.shapes.operations import PatchedSample, PatchPreview
from retrier.cli.api_client import Json
from retrier.cli.printer import Column, Printer, counted, short_id
from retrier.domain.patches import WrongPatch, parse_patch
from retrier.errors import ConfigurationError

_COLUMNS = (Column(title="messages", number=True), Column(title="cannot be patched", flexible=True))

PatchFile = Annotated[
    Path | None,
    typer.Option(
        "--patch",
        metavar="FILE",
        help="Change each message as this file says before it is sent: headers, and the body by JSON Patch or a pattern.",
    ),
]


def read_patch_file(path: Path) -> Json:
    """Return the patch in a file. Raises ConfigurationError, BadParameter for a wrong one."""
    try:
        given: Json = json.loads(parse_patch(path.read_text()))
    except OSError as error:
        raise ConfigurationError([f"--patch: cannot read {path}: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"--patch: {path} is no text.") from error
    except WrongPatch as error:
        raise typer.BadParameter(f"--patch: {error.where or 'the patch'} {error}.") from error
    return given


def show_patch_preview(printer: Printer, found: PatchPreview) -> None:
    """Print how many messages a patch changes, which it cannot, and some before and after."""
    printer.heading("the patch")
    looked = "" if found["is_all"] else f" of the first {found['looked_at']:,}"
    printer.line(f"would change {counted(found['would_change'], 'message')}{looked}")
    if found["would_not"]:
        printer.table(
            _COLUMNS, [(f"{each['count']:,}", each["reason"]) for each in found["would_not"]]
        )
    for each in found["samples"]:
        _show_sample(printer, each)
    if not found["is_all"]:
        printer.note("Only these were looked at: others may be left out, each with its reason.")


def _show_sample(printer: Printer, sample: PatchedSample) -> None:
    printer.heading(short_id(sample["id"]))
    for each in sample["headers"]:
        if "before" in each:
            printer.line(f"- {each['key']}: {each['before']}")
        if "after" in each:
            printer.line(f"+ {each['key']}: {each['after']}")
    if not sample["body_changed"]:
        return
    before, after = sample.get("body_before"), sample.get("body_after")
    if before is None or after is None:
        printer.line("the body is no text")
        return
    changed = unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
    for line in list(changed)[2:]:
        printer.line(line)

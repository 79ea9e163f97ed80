"""`retrier history` and `retrier acknowledge`: retries that are over, and who has taken note of it."""

from typing import Annotated

import typer

from retrier.cli.api_client import Json
from retrier.cli.command import command, make_app, tools_of
from retrier.cli.ids import find_group_id
from retrier.cli.options import Service, User, name_user
from retrier.cli.printer import Column, minute, short_id

app = make_app("Look at retries that are over.")

_COLUMNS = (
    Column(title="operation"),
    Column(title="over (UTC)"),
    Column(title="sent back", number=True),
    Column(title="all well"),
    Column(title="what", flexible=True),
)


@app.command(epilog="Example: retrier history")
@command
def history(ctx: typer.Context, service: Service) -> None:
    """List the retries that were over last."""
    printer = tools_of(ctx).printer
    with service.open(ctx) as api:
        found = api.find("recoverability", "history")
    if service.as_json:
        printer.document(found)
        return
    if found["historic_operations"]:
        printer.table(_COLUMNS, [_row(each) for each in found["historic_operations"]])
    else:
        printer.note("no retry is over yet")
    if waiting := found["unacknowledged_operations"]:
        printer.heading("not acknowledged")
        printer.table(_COLUMNS, [_row(each) for each in waiting])


Group = Annotated[
    str, typer.Argument(metavar="GROUP", help="The id of a group, or its first 8 characters.")
]


@app.command(epilog="Example: retrier acknowledge 5a1d0b7e")
@command
def acknowledge(ctx: typer.Context, group: Group, service: Service, user: User = "") -> None:
    """Take note of the end of a retry or archive of a group."""
    with service.open(ctx) as api:
        whole = find_group_id(api, group)
        path = ("recoverability", "unacknowledgedgroups", whole)
        api.act("DELETE", path, None, name_user(user))
    printer = tools_of(ctx).printer
    if service.as_json:
        printer.document({"acknowledged": whole})
    else:
        printer.line(f"acknowledged: group {short_id(whole)}")


def _row(item: Json) -> tuple[object, ...]:
    well = "no" if item["failed"] else "yes"
    sent = f"{item['number_of_messages_processed']:,}"
    over = minute(item["completion_time"])
    return short_id(item["operation_id"]), over, sent, well, item["originator"]

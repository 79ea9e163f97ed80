"""`retrier operations pause`, `resume`, `cancel`, `rate`: an operation while it runs."""

from typing import Annotated

import typer

from retrier.cli.command import command, tools_of
from retrier.cli.commands.operations import OperationId, operations_app
from retrier.cli.ids import find_operation_id
from retrier.cli.options import Service, User, name_user
from retrier.cli.printer import short_id
from retrier.cli.views.operations import describe_standing
from retrier.domain.retry_operation import HIGHEST_RATE

app = operations_app
"""That of `retrier operations`, with these commands added."""

OFF = "off"

Rate = Annotated[
    str,
    typer.Argument(metavar="RATE", help=f"Messages a second at most, or {OFF} for no limit."),
]


@operations_app.command(epilog="Example: retrier operations pause 8d07c3aa")
@command
def pause(ctx: typer.Context, operation_id: OperationId, service: Service, user: User = "") -> None:
    """Pause an operation.

    The batch that is on its way is finished, and nothing more is sent, also after a restart.
    """
    _steer(ctx, operation_id, service, user, "PATCH", {"paused": True})


@operations_app.command(epilog="Example: retrier operations resume 8d07c3aa")
@command
def resume(
    ctx: typer.Context, operation_id: OperationId, service: Service, user: User = ""
) -> None:
    """Let a paused operation go on where it stood.

    Also one that paused itself, because too many of its first messages came back.
    """
    _steer(ctx, operation_id, service, user, "PATCH", {"paused": False})


@operations_app.command(epilog="Example: retrier operations cancel 8d07c3aa")
@command
def cancel(
    ctx: typer.Context, operation_id: OperationId, service: Service, user: User = ""
) -> None:
    """Cancel an operation.

    What is being sent is finished. All that is not sent is unresolved as before, and skipped.
    """
    _steer(ctx, operation_id, service, user, "DELETE", None)


@operations_app.command(
    epilog="""
    \b
    Examples:
      retrier operations rate 8d07c3aa 50
      retrier operations rate 8d07c3aa off
    """
)
@command
def rate(
    ctx: typer.Context,
    operation_id: OperationId,
    rate_: Rate,
    service: Service,
    user: User = "",
) -> None:
    """Change how fast an operation sends, while it runs."""
    _steer(ctx, operation_id, service, user, "PATCH", {"rate": _read_rate(rate_)})


def _read_rate(text: str) -> int | None:
    if text == OFF:
        return None
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= HIGHEST_RATE:
        raise typer.BadParameter(f"RATE is a number from 1 to {HIGHEST_RATE}, or {OFF}.")
    return int(text)


def _steer(
    ctx: typer.Context, operation_id: str, service: Service, user: str, method: str, content: object
) -> None:
    printer = tools_of(ctx).printer
    with service.open(ctx) as api:
        whole = find_operation_id(api, operation_id)
        found = api.act(method, ("operations", whole), content, name_user(user))
    if service.as_json:
        printer.document(found)
    else:
        printer.line(f"{short_id(whole)}: {describe_standing(found)}")

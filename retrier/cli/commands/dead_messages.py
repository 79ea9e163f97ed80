"""`retrier errors revive`, `dead`: messages that were given up, and giving one up by hand."""

from typing import Annotated

import typer

from retrier.cli.api_client import IDEMPOTENCY_KEY, ApiClient, Json
from retrier.cli.command import ExitCode, command, tools_of
from retrier.cli.commands.errors import MessageId
from retrier.cli.commands.errors import app as errors_app
from retrier.cli.commands.retry import Asking
from retrier.cli.ids import find_one_message
from retrier.cli.options import Service, User, name_user, with_standard_input
from retrier.cli.printer import Printer, short_id
from retrier.errors import RequestRefused
from retrier.policy.reasons import find_named, why_not_a_reason

app = errors_app
"""That of `retrier errors`, with these commands added."""

Ids = Annotated[
    list[str],
    typer.Argument(
        metavar="ID...",
        help="Ids, their first 8 characters or more, or message ids; - reads them from standard input.",
    ),
]


@errors_app.command(
    epilog="""
    \b
    Examples:
      retrier errors revive 3f2b91c0
      retrier errors list --disposition dead --ids | retrier errors revive -
      retrier retry --disposition dead --queue orders
    """
)
@command
def revive(ctx: typer.Context, message_ids: Ids, asking: Asking, service: Service) -> None:
    """Retry dead messages; their failures are counted anew.

    Each one is a retry of its own. What is not dead is refused; `retrier retry` sends that. For
    many at once: `retrier retry --disposition dead`.
    """
    printer = tools_of(ctx).printer
    headers = asking.headers()
    with service.open(ctx) as api:
        texts = list(dict.fromkeys(with_standard_input(message_ids)))
        answers = [_revive(api, text, headers, alone=len(texts) == 1) for text in texts]
    if service.as_json:
        printer.document({"items": answers})
    else:
        _show(printer, answers)
    refused = not answers or any("refused" in each for each in answers)
    raise typer.Exit(ExitCode.REFUSED if refused else ExitCode.DONE)


def _a_reason(word: str) -> str:
    why_not = why_not_a_reason(word)
    if why_not is not None:
        raise typer.BadParameter(f"{word!r} cannot be given. {why_not}")
    return find_named(word) or word


@errors_app.command(
    epilog="""
    \b
    Examples:
      retrier errors dead 3f2b91c0 --why "the shop is closed"
      retrier errors dead 3f2b91c0 --why "crashes the parser" --reason poison_message
    """
)
@command
def dead(
    ctx: typer.Context,
    message_id: MessageId,
    service: Service,
    *,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="Why; shown with it.")],
    reason: Annotated[
        str | None,
        typer.Option(
            "--reason",
            parser=_a_reason,
            metavar="REASON",
            help="A built-in reason, such as poison_message: it has that until its retry fails.",
        ),
    ] = None,
    user: User = "",
) -> None:
    """Give up an unresolved message.

    Only a person's retry takes it from now on. A retry that has claimed it and not sent it goes on without it. One that is being sent or was
    sent is refused. `retrier errors revive` takes it back.
    """
    printer = tools_of(ctx).printer
    with service.open(ctx) as api:
        whole = find_one_message(api, message_id)
        body = {"why": why} if reason is None else {"why": why, "reason": reason}
        found = api.act("POST", ("errors", whole, "dead"), body, name_user(user))
    if service.as_json:
        printer.document(found)
    else:
        printer.line(f"{short_id(whole)} is dead: {why}")


def _revive(api: ApiClient, text: str, headers: dict[bytes, bytes], *, alone: bool) -> Json:
    """Ask for one; return the answer, or why it is refused.

    A key stands for one request: with several messages each has a key of its own, made of the one
    that was given. So the whole command can be run again.
    """
    try:
        whole = find_one_message(api, text)
        key = headers[IDEMPOTENCY_KEY] if alone else headers[IDEMPOTENCY_KEY] + f".{whole}".encode()
        keyed = {**headers, IDEMPOTENCY_KEY: key}
        return {"id": whole} | api.ask(("errors", whole, "revive"), None, keyed)
    except RequestRefused as refused:
        return {"id": text, "refused": str(refused)}


def _show(printer: Printer, answers: list[Json]) -> None:
    for each in answers:
        if "refused" in each:
            printer.note(f"{each['id']}: {each['refused']}")
        else:
            operation = short_id(each["operation_id"])
            printer.line(f"{short_id(each['id'])} is retried: operation {operation}")

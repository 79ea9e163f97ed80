"""`retrier comment`: what a person wants others to know of a group."""

from typing import Annotated

import typer

from retrier.cli.api_client import Json
from retrier.cli.command import CalledService, User, command, find_group_id, make_app, name_user
from retrier.cli.printer import short_id

app = make_app("Comment on failure groups.")

Group = Annotated[
    str, typer.Argument(metavar="GROUP", help="The id of a group, or its first 8 characters.")
]
Text = Annotated[str | None, typer.Argument(metavar="TEXT", help="The comment.")]
Delete = Annotated[bool, typer.Option("--delete", help="Take the comment away.")]


@app.command(
    epilog="""
    \b
    Examples:
      retrier comment 5a1d0b7e 'Ada asks the warehouse; do not retry before Monday'
      retrier comment 5a1d0b7e --delete
    """
)
@command
def comment(
    ctx: typer.Context,
    group: Group,
    service: CalledService,
    text: Text = None,
    *,
    delete: Delete = False,
    user: User = "",
) -> None:
    """Comment on a group, or take its comment away.

    A new comment takes the place of the one before.
    """
    if (text is None) != delete:
        raise typer.BadParameter("give the text of the comment, or --delete.")
    with service.open(ctx) as api:
        whole = find_group_id(api, group)
        path = ("recoverability", "groups", whole, "comment")
        params = {} if text is None else {"comment": text}
        api.act("DELETE" if delete else "POST", path, None, name_user(user), params)
    done: Json = {"group": whole, "comment": text}
    printer = service.printer(ctx)
    printer.show(done, f"comment {'deleted' if delete else 'kept'}: group {short_id(whole)}")

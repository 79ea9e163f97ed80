"""`retrier groups`: what failed, by cause."""

from typing import Annotated

import typer

from retrier.cli.options import Service
from retrier.cli.parameters import command
from retrier.cli.tools import tools_of
from retrier.cli.typer_app import make_app
from retrier.cli.views.groups import show_groups

app = make_app("Look at failure groups.")

Classifier = Annotated[
    str | None,
    typer.Option(
        "--classifier", metavar="NAME", help="How to group; the service's first one by default."
    ),
]


@app.command(
    epilog="""
    \b
    Examples:
      retrier groups
      retrier groups --classifier 'Message Type'
      retrier retry --group 5a1d0b7e --watch
    """
)
@command
def groups(ctx: typer.Context, service: Service, classifier: Classifier = None) -> None:
    """List failure groups.

    Those that have unresolved messages, or a retry under way; the newest failure first.
    """
    printer = tools_of(ctx).printer
    with service.open(ctx) as api:
        names = api.texts("recoverability", "classifiers")
        if classifier is not None and classifier not in names:
            raise typer.BadParameter(f"{classifier!r} is none of: {', '.join(names)}")
        found = api.page("recoverability", "groups", classifier or names[0])
    if service.as_json:
        printer.document({"total": found.total, "items": found.items})
    elif found.items:
        show_groups(printer, found.items)
    else:
        printer.note("no group has an unresolved message")

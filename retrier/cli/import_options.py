"""Options about failed imports: which are read again, and what is sent where."""

from dataclasses import dataclass
from typing import Annotated

import typer

from retrier.cli.api_client import ApiClient, Json
from retrier.cli.command import Headers
from retrier.cli.import_acts import act_on_each, add_up, find_import_ids

Queue = Annotated[
    str | None, typer.Option("--queue", metavar="NAME", help="Those from this error queue.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """Which imports are read again, and where their retries go."""

    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID",
            help="Ids, or their first 8 characters or more; - reads them from standard input.",
        ),
    ] = None
    queue: Queue = None
    everything: Annotated[bool, typer.Option("--all", help="Every failed import.")] = False
    destination: Annotated[
        str | None,
        typer.Option(
            "--destination",
            metavar="QUEUE",
            help="Read them as if their error queue had this destination: retries go there.",
        ),
    ] = None

    def check(self) -> None:
        """Raise BadParameter unless it is one kind of target."""
        kinds = (bool(self.ids), self.queue is not None, self.everything)
        if sum(kinds) != 1 or self.queue == "":
            raise typer.BadParameter("give ids, or one of --queue and --all.")
        if self.destination is not None and not self.destination.strip():
            # A script that found no name must not have them read as if it had given none.
            raise typer.BadParameter("--destination: give the name of a queue.")

    def ask(self, api: ApiClient, headers: Headers) -> Json:
        """Have them read again; return what they came to."""
        going_to = {"destination": self.destination} if self.destination else {}
        if not self.ids:
            params = {"error_queue": self.queue} if self.queue else {}
            return api.act("POST", ("imports", "retry"), None, headers, params | going_to)
        named = find_import_ids(api, self.ids)
        return add_up(*act_on_each(api, ("POST", "retry"), named, headers, params=going_to))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """Where imports are sent, and which of them only because a person insists."""

    to: Annotated[str, typer.Option("--to", metavar="QUEUE", help="The queue to send them to.")]
    again: Annotated[
        bool, typer.Option("--again", help="Also those in doubt: they may arrive twice.")
    ] = False
    confirmation: Annotated[
        bool,
        typer.Option("--confirmation", help="Also those without a body that only confirm a retry."),
    ] = False

    def content(self) -> Json:
        """Return the body of the request."""
        return {"to": self.to, "again": self.again, "confirmation": self.confirmation}

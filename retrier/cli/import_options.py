"""Options about failed imports: which are read again, and what is sent where."""

from dataclasses import dataclass
from typing import Annotated

import typer

from retrier.cli.api_client import ApiClient, Json
from retrier.cli.command import Headers
from retrier.cli.import_acts import act_on_each, add_up, find_import_ids
from retrier.cli.plans import PlanOption, planned

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

    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what would be read again; change nothing.")
    ] = False
    plan: PlanOption = None

    def check(self) -> None:
        """Raise BadParameter unless it is one kind of target."""
        if self.ids and (self.dry_run or self.plan is not None):
            raise typer.BadParameter("--dry-run and --plan go with no ids.")
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
            params = self._params() | going_to | planned(self.plan)
            return api.act("POST", ("imports", "retry"), None, headers, params)
        named = find_import_ids(api, self.ids)
        return add_up(*act_on_each(api, ("POST", "retry"), named, headers, params=going_to))

    def look(self, api: ApiClient) -> Json:
        """Return how many would be read again, and the plan of it."""
        return api.act("POST", ("imports", "retry", "preview"), None, {}, self._params())

    def _params(self) -> dict[str, str]:
        return {"error_queue": self.queue} if self.queue else {}


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

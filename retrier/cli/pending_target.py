"""Which pending retries a command is about: filters of a list, and what is changed."""

from dataclasses import dataclass
from typing import Annotated

import typer

from retrier.cli.api_client import ApiClient, Json
from retrier.cli.ids import find_operation_id
from retrier.cli.plans import PlanOption
from retrier.cli.selection_options import Ids
from retrier.domain.times import NoTime, read_duration

Queue = Annotated[str | None, typer.Option("--queue", metavar="NAME", help="Failed on this queue.")]
OlderThan = Annotated[
    str | None,
    typer.Option("--older-than", metavar="TIME", help="Sent so long ago: 30s, 5m, 1h, 2d."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which pending retries are listed: those that match all options given."""

    queue: Queue = None
    older_than: OlderThan = None
    operation: Annotated[
        str | None, typer.Option("--operation", metavar="ID", help="Asked for by this operation.")
    ] = None
    ids: Annotated[
        bool, typer.Option("--ids", help="Print whole ids only, one per line, for a pipe.")
    ] = False

    def params(self, api: ApiClient) -> dict[str, str]:
        """Return the query parameters of the API."""
        parts = {name: str(value) for name, value in _matching(self.queue, self.older_than).items()}
        if self.operation is not None:
            parts["operation"] = find_operation_id(api, self.operation)
        return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which pending retries are changed: ids, or those that match, or all; and whether to ask."""

    ids: Ids = None
    queue: Queue = None
    older_than: OlderThan = None
    everything: Annotated[bool, typer.Option("--all", help="Every pending retry.")] = False
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether to go on.")] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be changed; change nothing.")
    ] = False
    plan: PlanOption = None

    def check(self) -> dict[str, object]:
        """Return the condition of a bulk. Raises BadParameter unless one kind is given."""
        some = self.queue is not None or self.older_than is not None
        if [bool(self.ids), some, self.everything].count(True) != 1:
            raise typer.BadParameter("give ids, or --queue and --older-than, or --all.")
        if self.ids and (self.dry_run or self.plan is not None):
            raise typer.BadParameter("--dry-run and --plan go with no ids.")
        return _matching(self.queue, self.older_than)

    def look(self, api: ApiClient, act: str) -> Json:
        """Return what an act on those that match would change, and its plan."""
        return api.look(("pendingretries", act, "all", "preview"), self.check())


def _matching(queue: str | None, older_than: str | None) -> Json:
    """Return the condition as the API reads it. Raises BadParameter."""
    if queue == "":
        raise typer.BadParameter("the name of the queue is empty.")
    parts: Json = {} if queue is None else {"queue": queue}
    return parts if older_than is None else {**parts, "older_than": _seconds(older_than)}


def _seconds(text: str) -> float:
    try:
        age = read_duration(text).total_seconds()
    except NoTime as error:
        raise typer.BadParameter(f"--older-than: {error}") from None
    if not age:
        raise typer.BadParameter("--older-than: everything is older than nothing: use --all.")
    return age

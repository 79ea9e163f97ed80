"""The target of a retry: messages by their ids, or every unresolved message that matches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from retrier.cli.api_client import ApiClient
from retrier.cli.ids import find_group_id, find_message_id
from retrier.cli.options import with_standard_input
from retrier.cli.printer import counted
from retrier.errors import RequestRefused

MOST_IDS = 100_000
"""Ids that one request to the service may name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Messages by their ids."""

    ids: tuple[str, ...]

    @property
    def words(self) -> str:
        """The target in words, for people."""
        return counted(len(self.ids), "named message")

    @property
    def path(self) -> tuple[str, ...]:
        """The path of the request under /api, in parts."""
        return ("errors", self.ids[0], "retry") if len(self.ids) == 1 else ("errors", "retry")

    @property
    def content(self) -> Sequence[str] | None:
        """The content of the request, sent as JSON."""
        return None if len(self.ids) == 1 else self.ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """Every unresolved message that matches; `filter` is the same condition for a list."""

    words: str
    path: tuple[str, ...]
    filter: tuple[tuple[str, str], ...] = ()
    content: None = None


Target = Named | Matching


Ids = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ID",
        help="Ids, or their first 8 characters or more; - reads them from standard input.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryTarget:
    """The options that name the target; exactly one of them must be given."""

    ids: Ids = None
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="NAME", help="What failed on this queue.")
    ] = None
    endpoint: Annotated[
        str | None,
        typer.Option("--endpoint", metavar="NAME", help="What failed at this endpoint."),
    ] = None
    group: Annotated[
        str | None, typer.Option("--group", metavar="ID", help="This failure group.")
    ] = None
    everything: Annotated[bool, typer.Option("--all", help="Every unresolved message.")] = False

    def check(self) -> None:
        """Check that exactly one option is given. Raises BadParameter; asks no service."""
        named = (self.queue, self.endpoint, self.group)
        kinds = [bool(self.ids), self.everything, *(each is not None for each in named)]
        if sum(kinds) != 1:
            raise typer.BadParameter("give ids, or one of --queue, --endpoint, --group and --all.")
        if "" in named:
            # With an empty part, the path may match another route: a retry of everything.
            raise typer.BadParameter("the name of a queue, endpoint or group is empty.")

    def resolve(self, api: ApiClient) -> Target:
        """Return the target, with whole ids. Raises RequestRefused, ServiceUnavailable."""
        if self.ids:
            return Named(ids=resolve_ids(api, self.ids))
        if self.group is not None:
            group = find_group_id(api, self.group)
            path = ("recoverability", "groups", group, "errors", "retry")
            return Matching(words=f"group {group}", path=path, filter=(("group", group),))
        return self._resolve_names()

    def _resolve_names(self) -> Matching:
        if self.queue is not None:
            path = ("errors", "queues", self.queue, "retry")
            words = f"queue {self.queue}"
            return Matching(words=words, path=path, filter=(("queue", self.queue),))
        if self.endpoint is not None:
            path = ("errors", self.endpoint, "retry", "all")
            words = f"endpoint {self.endpoint}"
            return Matching(words=words, path=path, filter=(("endpoint", self.endpoint),))
        return Matching(words="everything", path=("errors", "retry", "all"))


def resolve_ids(api: ApiClient, given: Sequence[str]) -> tuple[str, ...]:
    """Return whole ids, each once. Raises RequestRefused, BadParameter, ServiceUnavailable."""
    texts = list(dict.fromkeys(with_standard_input(given)))
    if not texts:
        raise RequestRefused("Standard input named no message: there is nothing to retry.")
    if len(texts) > MOST_IDS:
        raise typer.BadParameter(f"one request names {MOST_IDS:,} ids at most.")
    ids = tuple(dict.fromkeys(find_message_id(api, text) for text in texts))
    if len(ids) == 1:
        # The service accepts an unknown id and skips it. For a single id the error is shown here.
        api.find("errors", "last", ids[0])
    return ids

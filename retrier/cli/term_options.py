"""The options that say how a retry is to be sent: how many, how fast, where to, from when on."""

from dataclasses import dataclass, fields
from typing import Annotated

import typer

from retrier.cli.api_client import Json, valid_text
from retrier.cli.plans import PlanOption
from retrier.cli.selection_options import coming_moment, duration


@dataclass(frozen=True, slots=True, kw_only=True)
class TermOptions:
    """Named like the members of the request, except `begin_in`, which is `in` there."""

    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, metavar="N", help="The first N messages at most."),
    ] = None
    rate: Annotated[
        int | None, typer.Option("--rate", min=1, metavar="N", help="Messages a second at most.")
    ] = None
    canary: Annotated[
        int | None,
        typer.Option("--canary", min=1, metavar="N", help="Send N first, and wait for them."),
    ] = None
    canary_wait: Annotated[
        str | None,
        typer.Option(
            "--canary-wait", parser=duration, metavar="TIME", help="Wait so long for them: 60s, 5m."
        ),
    ] = None
    canary_limit: Annotated[
        int | None,
        typer.Option(
            "--canary-limit", min=0, metavar="N", help="Go on if at most N of them came back."
        ),
    ] = None
    not_before: Annotated[
        str | None,
        typer.Option(
            "--not-before",
            parser=coming_moment,
            metavar="TIME",
            help="Begin then: a date or time, or 2h.",
        ),
    ] = None
    begin_in: Annotated[
        str | None,
        typer.Option(
            "--in", parser=duration, metavar="TIME", help="Begin after this time: 30s, 5m, 2h, 7d."
        ),
    ] = None
    destination: Annotated[
        str | None,
        typer.Option("--destination", metavar="QUEUE", help="Send all to this queue instead."),
    ] = None
    drop_headers: Annotated[
        list[str] | None,
        typer.Option(
            "--drop-header", metavar="NAME", help="Send it without this header; with * for many."
        ),
    ] = None
    why: Annotated[
        str | None,
        typer.Option("--why", metavar="TEXT", help="Why, for those who look at it later."),
    ] = None
    plan: PlanOption = None

    def check(self) -> None:
        """Check what can be seen without the service. Raises BadParameter."""
        if self.canary is None and (self.canary_wait, self.canary_limit) != (None, None):
            raise typer.BadParameter("--canary-wait and --canary-limit go with --canary only.")
        if self.not_before is not None and self.begin_in is not None:
            raise typer.BadParameter("give --not-before or --in, not both.")

    def given(self) -> Json:
        """Return the terms that were given, as the API reads them."""
        values = {each.name: getattr(self, each.name) for each in fields(TermOptions)}
        named = {"in" if name == "begin_in" else name: value for name, value in values.items()}
        return {name: _valid(value) for name, value in named.items() if value not in (None, [])}


def _valid(value: object) -> object:
    match value:
        case str():
            return valid_text(value)
        case list():
            return [valid_text(each) for each in value]
        case _:
            return value

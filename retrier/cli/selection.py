"""The options that select messages and say how they are sent, and the plan of a dry run."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Annotated

import typer

from retrier.cli.api_client import ApiClient, Json, valid_text
from retrier.cli.command import (
    find_group_id,
    find_messages,
    find_one_message,
    find_operation_id,
    offer_groups,
    offer_messages,
    offer_operations,
    offer_queues,
    offer_words,
    one_of,
    with_standard_input,
)
from retrier.cli.printer import Printer, counted
from retrier.clock import SystemClock
from retrier.domain.fields import PREFIX, NoCondition, read_conditions
from retrier.domain.outcomes import RetryOutcome
from retrier.domain.retry_operation import read_plan
from retrier.domain.selection import WantedDisposition, is_of_content
from retrier.domain.times import NoTime, is_duration, read_duration, read_moment
from retrier.domain.values import dataclass
from retrier.errors import RequestRefused
from retrier.policy.reasons import BUILT_IN


def _plan(text: str) -> str:
    if read_plan(text) is None:
        raise typer.BadParameter("it is not what a --dry-run has printed as --plan.")
    return text


PlanOption = Annotated[
    str | None,
    typer.Option("--plan", parser=_plan, metavar="PLAN", help="Only what this --dry-run counted."),
]


def planned(plan: str | None) -> Json:
    """Return the member of a request that names a plan; none without one."""
    return {} if plan is None else {"plan": valid_text(plan)}


def note_plan(printer: Printer, plan: str) -> None:
    """Say how to do what a dry run counted, and no more."""
    printer.note("nothing was asked for, nothing has changed")
    printer.note(f"To do it to what was counted, and to no more: --plan {plan}")


MOST_IDS = 100_000
"""Ids that one request to the service may name."""

Ids = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ID",
        autocompletion=offer_messages,
        help="Ids, their first 8 characters or more, or message ids; - reads them from standard input.",
    ),
]


def moment(text: str) -> str:
    """Return a time in ISO 8601: as it was typed, or that which was so long ago.

    Raises BadParameter for any other text.
    """
    return _absolute(text, coming=False)


def coming_moment(text: str) -> str:
    """Return the same of something that is to happen: `2h` is in two hours."""
    return _absolute(text, coming=True)


def _absolute(text: str, *, coming: bool) -> str:
    """Say which moment is meant by a duration: the command can be repeated with that."""
    try:
        found = read_moment(text, SystemClock().now(), coming=coming)
    except NoTime as error:
        raise typer.BadParameter(str(error)) from None
    if not is_duration(text):
        return text
    absolute = f"{found:%Y-%m-%dT%H:%M:%SZ}"
    typer.echo(f"{text} is {absolute}", err=True)
    return absolute


def duration(text: str) -> str:
    """Return a duration as it was typed; an empty text is none. Raises BadParameter for others."""
    try:
        if text:
            read_duration(text)
    except NoTime as error:
        raise typer.BadParameter(str(error)) from None
    return text


def field_condition(text: str) -> str:
    """Return a condition on a declared field as it was typed. Raises BadParameter."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise typer.BadParameter("it is NAME=VALUE, such as order=4711 or total=10..20.")
    try:
        read_conditions([(name, value)])
    except NoCondition as error:
        raise typer.BadParameter(str(error)) from None
    return text


def _by_name(given: Sequence[str]) -> Json:
    """Return conditions on fields as the API has them. Raises BadParameter if one stands twice."""
    parts = [text.partition("=") for text in given]
    names = [name for name, _, _ in parts]
    twice = next((each for each in names if names.count(each) > 1), None)
    if twice is not None:
        raise typer.BadParameter(f"--field {twice}: it stands there twice, and takes one value.")
    return {f"{PREFIX}{name}": valid_text(value) for name, _, value in parts}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Conditions on messages: those that match all options given."""

    group: Annotated[
        str | None,
        typer.Option(
            "--group", metavar="ID", autocompletion=offer_groups, help="In this failure group."
        ),
    ] = None
    queue: Annotated[
        str | None,
        typer.Option(
            "--queue", metavar="NAME", autocompletion=offer_queues, help="Failed on this queue."
        ),
    ] = None
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", metavar="NAME", help="Failed at this endpoint.")
    ] = None
    exception_type: Annotated[
        str | None,
        typer.Option("--exception-type", metavar="NAME", help="Failed with this exception."),
    ] = None
    message_type: Annotated[
        str | None, typer.Option("--message-type", metavar="NAME", help="Of this type.")
    ] = None
    reason: Annotated[
        str | None,
        typer.Option(
            "--reason",
            metavar="WORD",
            autocompletion=offer_words(sorted(BUILT_IN)),
            help="Failed for this reason.",
        ),
    ] = None
    stream: Annotated[
        str | None, typer.Option("--stream", metavar="ID", help="Of the stream with this id.")
    ] = None
    host: Annotated[
        str | None, typer.Option("--host", metavar="NAME", help="Failed last on this machine.")
    ] = None
    process: Annotated[
        str | None,
        typer.Option("--process", metavar="PID", help="Failed last in this process of a machine."),
    ] = None
    node: Annotated[
        str | None,
        typer.Option(
            "--node", metavar="NAME", help="Failed last at this worker of its application."
        ),
    ] = None
    failed_from: Annotated[
        str | None,
        typer.Option(
            "--failed-from",
            parser=moment,
            metavar="TIME",
            help="Last failed then or later: 2h, 7d, or a date or time.",
        ),
    ] = None
    failed_to: Annotated[
        str | None,
        typer.Option(
            "--failed-to",
            parser=moment,
            metavar="TIME",
            help="Last failed then or before: 2h, 7d, or a date or time.",
        ),
    ] = None
    attempts_at_least: Annotated[
        int | None,
        typer.Option("--attempts-at-least", min=1, metavar="N", help="Failed so often or more."),
    ] = None
    disposition: Annotated[
        WantedDisposition | None,
        typer.Option(
            "--disposition",
            parser=one_of(WantedDisposition),
            metavar="WORD",
            help=f"What was decided about it: {', '.join(WantedDisposition)}.",
        ),
    ] = None
    operation: Annotated[
        str | None,
        typer.Option(
            "--operation",
            metavar="ID",
            help="Retried by this operation.",
            autocompletion=offer_operations,
        ),
    ] = None
    outcome: Annotated[
        RetryOutcome | None,
        typer.Option(
            "--outcome",
            parser=one_of(RetryOutcome),
            metavar="WORD",
            autocompletion=offer_words(RetryOutcome),
            help=f"What became of its retry by that operation: {', '.join(RetryOutcome)}.",
        ),
    ] = None
    field: Annotated[
        list[str] | None,
        typer.Option(
            "--field",
            parser=field_condition,
            metavar="NAME=VALUE",
            help="With this value of a declared field, or one in a range: total=10..20.",
        ),
    ] = None
    text: Annotated[
        str | None,
        typer.Option(
            "--text",
            metavar="TEXT",
            help="With this in its queue, endpoint, types, exception or reason; or this id.",
        ),
    ] = None

    words: Annotated[
        str | None,
        typer.Option(
            "--words",
            metavar="WORDS",
            help="With all these words in its headers, stack trace or body, if full text is on.",
        ),
    ] = None

    def given(self) -> Json:
        """Return the conditions that were given, by their names in the API. Raises BadParameter."""
        values = {each.name: getattr(self, each.name) for each in fields(Conditions)}
        of_fields = _by_name(values.pop("field") or ())
        empty = [name for name, value in values.items() if value == ""]
        if empty:
            raise typer.BadParameter(f"--{empty[0].replace('_', '-')}: the value is empty.")
        if self.outcome is not None and self.operation is None:
            raise typer.BadParameter("--outcome goes with --operation: whose retries are meant?")
        given = {name: _plain(value) for name, value in values.items() if value is not None}
        return {**given, **of_fields}

    def resolved(self, api: ApiClient) -> Json:
        """Return the same, with the whole ids of group and operation. Raises RequestRefused."""
        parts = self.given()
        if self.group is not None:
            parts |= {"group": find_group_id(api, self.group)}
        if self.operation is not None:
            parts |= {"operation": find_operation_id(api, self.operation)}
        return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionOptions(Conditions):
    """Which messages a command is about: ids, or all that match the conditions, or everything."""

    ids: Ids = None
    everything: Annotated[bool, typer.Option("--all", help="Every message.")] = False

    def check(self) -> None:
        """Check that one kind is given. Raises BadParameter; asks no service."""
        if [bool(self.ids), self.everything, bool(self.given())].count(True) != 1:
            raise typer.BadParameter("give ids, or conditions such as --queue, or --all alone.")

    def selection(self, api: ApiClient) -> Json:
        """Return the selection as the API reads it. Raises RequestRefused, ServiceUnavailable."""
        if self.ids:
            return {"ids": list(resolve_ids(api, self.ids))}
        return {"all": True} if self.everything else self.resolved(api)


def describe(selection: Json) -> str:
    """Return a selection in words, for people."""
    if "ids" in selection:
        return counted(len(selection["ids"]), "named message")
    if "all" in selection:
        return "everything"
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in selection.items())


def content_of(selection: Mapping[str, object]) -> Mapping[str, object]:
    """Return the conditions on content: the name of an operation does not tell their values."""
    return {name: value for name, value in selection.items() if is_of_content(name)}


def resolve_ids(api: ApiClient, given: Sequence[str]) -> tuple[str, ...]:
    """Return whole ids, each once. Raises RequestRefused, BadParameter, ServiceUnavailable."""
    texts = list(dict.fromkeys(with_standard_input(given)))
    if not texts:
        raise RequestRefused("Standard input named no message: there is nothing to do.")
    if len(texts) > MOST_IDS:
        raise typer.BadParameter(f"one request names {MOST_IDS:,} ids at most.")
    if len(texts) == 1:
        # The service accepts an unknown id and skips it. For a single id the error is shown here.
        return (find_one_message(api, texts[0]),)
    return tuple(find_messages(api, texts))


def _plain(value: object) -> object:
    """Return what JSON and an address can hold: a shell hands over any bytes."""
    return valid_text(str(value)) if isinstance(value, str) else value


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
        typer.Option(
            "--destination",
            metavar="QUEUE",
            autocompletion=offer_queues,
            help="Send all to this queue instead.",
        ),
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

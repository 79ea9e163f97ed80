"""`retrier groups`, and `retrier comment`: what a person wants others to know of a group."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated

import typer

from retrier.api.shapes.messages import GroupWithOperation, ValuesOfField
from retrier.cli.api_client import Json, Listing
from retrier.cli.command import (
    CalledService,
    Pages,
    User,
    command,
    find_group_id,
    make_app,
    name_user,
    note_imports,
    offer_groups,
    offer_words,
    one_of,
)
from retrier.cli.printer import Column, Printer, counted, minute, short_id
from retrier.cli.selection import moment
from retrier.domain.classifiers import CLASSIFIERS, GroupKey
from retrier.domain.values import dataclass

_ID = Column(title="id")
_TIMES = (
    Column(title="first (UTC)", time=True),
    Column(title="last (UTC)", time=True),
)
_RETRY = Column(title="retry")
_TITLE = Column(title="title", flexible=True)
_WAITS = Column(title="waits because", flexible=True, below=True)

_COMMENT_COLUMNS = (
    Column(title="id"),
    Column(title="written (UTC)", time=True),
    Column(title="by"),
    Column(title="comment", flexible=True),
)


def show_groups(printer: Printer, items: Sequence[GroupWithOperation]) -> None:
    """Print one line per group; what is scheduled or dead, retried, or waits, only if any is."""
    apart = [name for name in ("scheduled", "dead") if any(item[name] for item in items)]
    counts = [Column(title=name, number=True) for name in ("unresolved", *apart)]
    columns = [_ID, *counts, *_TIMES]
    rows = [_group_row(item, apart) for item in items]
    for column, cells in (
        (_RETRY, [_retry(item) for item in items]),
        (_TITLE, [item["title"] for item in items]),
        (_WAITS, [item.get("waits_because") for item in items]),
    ):
        if any(cells):
            columns.append(column)
            rows = [(*row, cell) for row, cell in zip(rows, cells, strict=True)]
    printer.table(columns, rows)
    if commented := [item for item in items if "comment" in item]:
        printer.heading("comments")
        printer.table(_COMMENT_COLUMNS, [_comment_row(item) for item in commented])


def _comment_row(item: GroupWithOperation) -> tuple[object, ...]:
    return short_id(item["id"]), minute(item["commented_at"]), item["commented_by"], item["comment"]


def _group_row(item: GroupWithOperation, apart: Iterable[str]) -> tuple[object, ...]:
    shown: Mapping[str, object] = item
    counts = (f"{each:,}" for each in (_unresolved(item), *(shown[name] for name in apart)))
    times = (minute(shown[name]) if name in item else "" for name in ("first_seen", "last"))
    return short_id(item["id"]), *counts, *times


def _unresolved(item: GroupWithOperation) -> int:
    """Return how many messages wait; the count of a group that is over is what its retry was about."""
    return item["manual"] + item["scheduled"] + item["dead"]


def _retry(item: GroupWithOperation) -> str:
    """Say how far its retry or its archive is: `forwarding 40%`, `archive completed 100%`."""
    status = item["operation_status"]
    if status == "None":
        return ""
    words = "".join(f" {each.lower()}" if each.isupper() else each for each in status)
    return f"{words.strip()} {item['operation_progress']:.0%}"


app = make_app("Look at failure groups, and comment on them.")

Classifier = Annotated[
    str | None,
    typer.Option(
        "--classifier",
        metavar="NAME",
        autocompletion=offer_words(CLASSIFIERS),
        help="How to group; the service's first one by default.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """Which groups are listed, and in which order."""

    classifier: Classifier = None
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            parser=moment,
            metavar="TIME",
            help="First seen then or later: 2h, 7d, or a date or time.",
        ),
    ] = None
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="With this in its title.")
    ] = None
    sort: Annotated[
        GroupKey,
        typer.Option(
            "--sort",
            parser=one_of(GroupKey),
            metavar="KEY",
            help=f"Sort by one of: {', '.join(GroupKey)}; the newest or largest first.",
        ),
    ] = GroupKey.LAST
    ascending: Annotated[
        bool, typer.Option("--ascending", help="The oldest or smallest first.")
    ] = False
    field: Annotated[
        str | None,
        typer.Option(
            "--field",
            metavar="NAME",
            help="By the values of a declared field instead, the most messages first.",
        ),
    ] = None

    def params(self) -> dict[str, str]:
        """Return the query parameters of the API. Raises BadParameter."""
        conditions = {"since": self.since, "text": self.text}
        if self.text == "":
            raise typer.BadParameter("--text: the value is empty.")
        given = {name: value for name, value in conditions.items() if value is not None}
        return {**given, "sort": self.sort, "direction": "asc" if self.ascending else "desc"}


_USUAL_GROUPS = 200
"""So many at once say what is wrong; the service, too, shows so many to who asks for no page."""


@app.command(
    epilog="""
    \b
    Examples:
      retrier groups
      retrier groups --since 2h --sort first
      retrier groups --classifier 'Message Type' --text order
      retrier groups --field customer
      retrier retry --group 5a1d0b7e --watch
    """
)
@command
def groups(ctx: typer.Context, wanted: GroupOptions, pages: Pages, service: CalledService) -> None:
    """List failure groups.

    Groups with unresolved messages or with a retry in progress, the newest failure first.
    """
    printer = service.printer(ctx)
    if wanted.field is not None:
        if wanted != GroupOptions(field=wanted.field) or pages != Pages():
            raise typer.BadParameter(_FIELD_ALONE)
        with service.open(ctx) as api:
            by_value = api.find(ValuesOfField, "recoverability", "fields", wanted.field)
        printer.show(by_value, _show_values)
        return
    params = wanted.params()
    with service.open(ctx) as api:
        names = api.texts("recoverability", "classifiers")
        if wanted.classifier is not None and wanted.classifier not in names:
            raise typer.BadParameter(f"{wanted.classifier!r} is none of: {', '.join(names)}")
        path = ("recoverability", "groups", wanted.classifier or names[0])
        many = pages if pages.limit or pages.per_page else replace(pages, per_page=_USUAL_GROUPS)
        found = many.fetch(api, GroupWithOperation, *path, **params)
        if service.as_json:
            printer.document({"total": found.total, "items": found.items})
            return
        are_some_left_out = wanted.since is not None or wanted.text is not None
        _show_page(printer, found, _NONE_MATCHES if are_some_left_out else _NONE)
        note_imports(printer, api)


_FIELD_ALONE = (
    "--field goes with no other option of this list: it shows 200 values, the most first."
)
_VALUES = (Column(title="unresolved", number=True), Column(title="value", flexible=True))


def _show_values(printer: Printer, found: ValuesOfField) -> None:
    values = found["values"]
    if not values:
        printer.note(f"no unresolved message has the field {found['field']}")
        return
    printer.table(_VALUES, [(f"{each['count']:,}", each["value"]) for each in values])
    printer.note(
        f"{len(values):,} of {counted(found['total'], 'value')}, "
        f"of {counted(found['messages'], 'message')}"
    )


_NONE = "no group has an unresolved message"
_NONE_MATCHES = "no group with an unresolved message matches"


def _show_page(printer: Printer, found: Listing[GroupWithOperation], nothing: str) -> None:
    shown = [each for each in found.items if _unresolved(each) or _is_under_way(each)]
    over = len(found.items) - len(shown)
    if shown:
        show_groups(printer, shown)
    if over == found.total:
        printer.note(nothing)
    else:
        printer.note(f"{len(found.items):,} of {counted(found.total, 'group')}")
    if over:
        printer.note(
            f"{counted(over, 'group')} whose retry or archive is over without unresolved messages: "
            "not shown, but with --json, until `retrier acknowledge`"
        )


def _is_under_way(group: GroupWithOperation) -> bool:
    """Say whether something of a group is not over; what is over stays in the service's list."""
    return group["operation_status"] not in ("None", "Completed", "ArchiveCompleted")


GroupId = Annotated[
    str,
    typer.Argument(
        metavar="GROUP",
        autocompletion=offer_groups,
        help="The id of a group, or its first 8 characters.",
    ),
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
    group: GroupId,
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
        api.do("DELETE" if delete else "POST", path, None, name_user(user), params)
    done: Json = {"group": whole, "comment": text}
    printer = service.printer(ctx)
    printer.show(done, f"comment {'deleted' if delete else 'kept'}: group {short_id(whole)}")

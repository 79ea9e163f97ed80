"""`retrier errors edit`: changes a failed message in an editor, shows what differs, and sends it."""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Annotated

import typer

from retrier.api.shapes.messages import AskedEdit, EditableMessage
from retrier.cli.command import (
    CalledService,
    ExitCode,
    User,
    command,
    find_one_message,
    name_user,
    offer_messages,
    tools_of,
)
from retrier.cli.pending import confirm
from retrier.cli.printer import Printer, short_id
from retrier.cli.retry import given_up_app
from retrier.domain.values import dataclass
from retrier.errors import ConfigurationError, RequestRefused

app = given_up_app
"""That of `retrier errors`, with this command added."""

_HINT = """\
# The headers that can be changed, one on each line: a line that is deleted removes its header, and a
# new one adds one. A value in double quotes is written as in JSON. Behind the first empty line
# comes the body.
"""
_NO_BODY = "# The body is no text: `--body-file` gives another one.\n"
_SEPARATOR = ": "


@dataclass(frozen=True, slots=True)
class Edited:
    """What is to be sent: all headers that can be changed, and the body as text or as bytes."""

    headers: Mapping[str, str]
    body: str | None
    given: bytes | None = None


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise typer.BadParameter(f"{text!r} is no NAME=VALUE.")
    return name, value


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is changed without an editor; nothing given opens one."""

    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=VALUE", help="Set this header; may be given again."),
    ] = None
    remove_header: Annotated[
        list[str] | None,
        typer.Option("--remove-header", metavar="NAME", help="Remove it; may be given again."),
    ] = None
    body_file: Annotated[
        Path | None,
        typer.Option(
            "--body-file", metavar="FILE", help="Send the bytes of this file as the body, unpacked."
        ),
    ] = None
    broken: Annotated[
        bool, typer.Option("--broken", help="Send a body that is no JSON or XML any more.")
    ] = False
    dead: Annotated[bool, typer.Option("--dead", help="Send it although it is dead.")] = False
    why: Annotated[
        str | None, typer.Option("--why", metavar="TEXT", help="Why, shown with the edit.")
    ] = None
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether to go on.")] = False

    @property
    def is_given(self) -> bool:
        """Whether the command line says what is to be changed."""
        return bool(self.header or self.remove_header or self.body_file)

    def apply(self, found: EditableMessage) -> Edited:
        """Return the message as the command line wants it."""
        headers = dict(_changeable(found)) | dict(map(_pair, self.header or ()))
        for name in self.remove_header or ():
            if headers.pop(name, None) is None:
                raise typer.BadParameter(f"it has no header {name} that can be removed.")
        given = None if self.body_file is None else _read(self.body_file)
        return Edited(headers, found.get("body"), given)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError([f"--body-file: cannot read {path}: {error.strerror}"]) from error


@app.command(
    epilog="""
    \b
    Examples:
      retrier errors edit 3f2b91c0
      retrier errors edit 3f2b91c0 --header Shop.Tenant=north --why "wrong tenant"
      retrier errors edit 3f2b91c0 --body-file order.json --yes
    """
)
@command
def edit(
    ctx: typer.Context,
    message_id: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            autocompletion=offer_messages,
            help="Its id, the first 8 characters or more of it, or its message id.",
        ),
    ],
    changes: Changes,
    service: CalledService,
    user: User = "",
) -> None:
    """Change a failed message, and send that instead of it.

    Opens $EDITOR with its headers and its body, shows what differs, and asks. The edited message has
    an id of its own; the one that failed is resolved when it is sent. The first edit of a message
    wins.
    """
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        whole = find_one_message(api, message_id)
        found = api.find(EditableMessage, "errors", whole, "edit")
        edited = changes.apply(found) if changes.is_given else _open_editor(ctx, found)
        if not _show_difference(printer, found, edited):
            printer.note("Nothing is changed, so nothing is sent.")
            raise typer.Exit(ExitCode.REFUSED)
        if not changes.yes:
            confirm(printer, f"Send this instead of {short_id(whole)}?")
        body = _body(found, edited, changes)
        path = ("errors", whole, "edit")
        asked = api.act(AskedEdit, "POST", path, body, name_user(user))
    printer.show(asked, _show)


def _show(printer: Printer, asked: AskedEdit) -> None:
    if asked.get("waits_for_approval"):
        operation = short_id(asked["operation_id"])
        printer.line(f"the edit waits for approval: operation {operation}")
        printer.note(f"Another person approves it: `retrier operations approve {operation}`.")
        return
    printer.line(f"the edited message is on its way: operation {asked['operation_id']}")


def _changeable(found: EditableMessage) -> Iterator[tuple[str, str]]:
    for each in found["headers"]:
        if not each["fixed"]:
            yield each["key"], each["value"]


def _open_editor(ctx: typer.Context, found: EditableMessage) -> Edited:
    before = Edited(dict(_changeable(found)), found.get("body"))
    text = tools_of(ctx).edit(_write(before))
    return before if text is None else _parse(text, before)


def _write(edited: Edited) -> str:
    """Return headers and body as one text, in the order in which it is read back."""
    lines = [f"{name}{_SEPARATOR}{_quoted(value)}\n" for name, value in _shown(edited.headers)]
    body = _NO_BODY if edited.body is None else f"\n{edited.body}"
    return "".join((_HINT, *lines, body))


def _shown(headers: Mapping[str, str]) -> Sequence[tuple[str, str]]:
    """Return the headers that a line can hold; others stay as they are."""
    return [
        (name, value)
        for name, value in sorted(headers.items())
        if _SEPARATOR not in name and name.isprintable() and name.strip(" #") == name
    ]


def _quoted(value: str) -> str:
    plain = value.isprintable() and value.strip() == value and not value.startswith('"')
    return value if plain else json.dumps(value, ensure_ascii=False)


def _parse(text: str, before: Edited) -> Edited:
    """Read what the editor has left. Raises RequestRefused."""
    lines = text.replace("\r\n", "\n").split("\n")
    end = next((at for at, line in enumerate(lines) if not line.strip()), len(lines))
    named = [line for line in lines[:end] if not line.startswith("#")]
    shown = dict(_shown(before.headers))
    kept = {name: value for name, value in before.headers.items() if name not in shown}
    headers = kept | dict(map(_read_line, named))
    return Edited(headers, _body_of("\n".join(lines[end + 1 :]), before.body))


def _read_line(line: str) -> tuple[str, str]:
    name, separator, value = line.partition(_SEPARATOR)
    if not separator:
        # An empty value is written without the space that many editors take away.
        name, separator, value = line.rstrip().removesuffix(":"), line.rstrip()[-1:], ""
        if separator != ":":
            raise RequestRefused(f"This line is no header: {line[:100]}")
    if value.startswith('"'):
        try:
            read = json.loads(value)
        except ValueError:
            raise RequestRefused(f"The value of {name} is no text as JSON writes it.") from None
        value = read if isinstance(read, str) else value
    return name, value


def _body_of(text: str, before: str | None) -> str | None:
    """Return the body; an editor ends its last line, and ends lines as this machine does."""
    if before is None:
        return None
    if "\r\n" in before:
        text = text.replace("\n", "\r\n")
    ended = before.endswith(("\n", "\r"))
    return text if ended else text.removesuffix("\n").removesuffix("\r")


def _show_difference(printer: Printer, found: EditableMessage, edited: Edited) -> bool:
    """Write what differs to standard error; say whether anything does."""
    before = Edited(dict(_changeable(found)), found.get("body"))
    lines = list(_differing(before, edited))
    if edited.given is not None:
        lines.append(
            f"body: {found['body_size']:,} bytes as it came, now {len(edited.given):,} bytes"
        )
    for line in lines:
        printer.note(line)
    return bool(lines)


def _differing(before: Edited, after: Edited) -> Iterator[str]:
    for name in sorted(before.headers.keys() | after.headers.keys()):
        was, now = before.headers.get(name), after.headers.get(name)
        if was != now:
            yield from (f"- {name}: {was}" for _ in [was] if was is not None)
            yield from (f"+ {name}: {now}" for _ in [now] if now is not None)
    if after.given is None and before.body != after.body:
        one, other = ((each.body or "").splitlines() for each in (before, after))
        shown = list(unified_diff(one, other, "body", "edited", n=2, lineterm=""))
        yield from shown or ["body: only the ends of its lines differ"]


def _body(found: EditableMessage, edited: Edited, changes: Changes) -> dict[str, object]:
    before = dict(_changeable(found))
    told = {name: value for name, value in edited.headers.items() if before.get(name) != value}
    removed = sorted(before.keys() - edited.headers.keys())
    body: dict[str, object] = {
        "headers": {"set": told, "remove": removed},
        "attempt_id": found["attempt_id"],
        "send_broken": changes.broken,
        "send_dead": changes.dead,
    }
    if edited.given is not None:
        body["body_base64"] = b64encode(edited.given).decode()
    elif edited.body != found.get("body"):
        body["body"] = edited.body
    return body | ({"why": changes.why} if changes.why else {})

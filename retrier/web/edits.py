"""Edit of a message on the page: headers as rows, the body in lines, what differs before it is sent.

One form with two buttons: the first shows what differs, and only then there is one that sends. What
is sent is what was shown: a form that was changed in between shows once more.
"""

from collections.abc import Iterator, Sequence
from difflib import unified_diff
from hashlib import sha256

from fastapi import APIRouter, HTTPException, Request, Response

from retrier.domain.edits import (
    OF_THE_STATE,
    Changes,
    Editable,
    EditRefusal,
    EditRefused,
    EditRequest,
    HeaderChange,
    find_changes,
)
from retrier.domain.identity import canonical
from retrier.domain.values import dataclass
from retrier.web.bodies import SHOWN, show_body
from retrier.web.forms import LONGEST_WHY, Form, SentForm
from retrier.web.page import see_other, show
from retrier.web.parts import PageParts, Parts
from retrier.web.wording import sentence

MOST_ROWS = 300
"""Headers that a page lets one change: a form has a largest size."""
NEW_ROWS = 3
"""Empty rows for headers that are added."""
LONGEST_VALUE = 4000
"""Characters of a value that a row can hold; a longer one stays as it is."""
_LARGEST_BODY = SHOWN
_MOST_DIGITS = 18
_NO_TEXT = "The body is no text: `retrier errors edit ID --body-file FILE` gives another one."
_MUCH = "The body is too large for this page: `retrier errors edit ID` opens it in an editor."


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A header as the form has it."""

    name: str
    value: str
    removed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """What differs from the message that failed. `body` has the lines of both, each with its mark."""

    headers: Sequence[HeaderChange]
    body: Sequence[tuple[str, str]]

    @property
    def is_any(self) -> bool:
        """Whether anything does."""
        return bool(self.headers or self.body)


class _Shown:
    """The message as the editor shows it: the body set in lines where it is JSON or XML."""

    def __init__(self, found: Editable) -> None:
        self.found = found
        names = [name for name in found.headers if name not in found.fixed]
        fits = [each for each in names if len(found.headers[each]) <= LONGEST_VALUE]
        self.rows = {name: found.headers[name] for name in sorted(fits, key=str.lower)[:MOST_ROWS]}
        self.others = {
            name: value for name, value in found.headers.items() if name not in self.rows
        }
        self.text, self.is_set, self.note = "", False, ""
        if found.text is None:
            self.note = _NO_TEXT
        elif len(found.text.encode()) > _LARGEST_BODY:
            self.note = _MUCH
        else:
            self._set(found.text)

    def _set(self, text: str) -> None:
        content = text.encode()
        body = show_body(content, len(content))
        self.is_set = body.is_set
        self.text = body.text if body.is_set else text

    def read(self, form: Form) -> Changes:
        """Return what a form wants to be another. Raises HTTPException."""
        rows = _rows(form)
        wanted = {each.name: each.value for each in rows if not each.removed}
        before = {name: _plain(value) for name, value in self.rows.items()}
        told, removed = find_changes(before, wanted.items())
        return Changes(
            set_headers=told,
            remove=removed,
            text=self._read_body(form),
            broken=form.text("broken") == "yes",
            dead=form.text("dead") == "yes",
        )

    def _read_body(self, form: Form) -> str | None:
        """Return the body; None if it is as it was shown. A form ends its lines with CR LF."""
        if self.note or "body" not in form.fields:
            return None
        written, before = _plain(form.exactly("body")), self.found.text or ""
        if written == _plain(self.text):
            return None
        ended = written.replace("\n", "\r\n") if "\r\n" in before else written
        return f"\ufeff{ended}" if self.is_set and before.startswith("\ufeff") else ended

    def compare(self, changes: Changes) -> Differing:
        """Return what differs, for people."""
        names = sorted({*changes.set_headers, *changes.remove})
        headers = [
            HeaderChange(name=name, before=self.rows.get(name), after=changes.set_headers.get(name))
            for name in names
        ]
        text = None if changes.text is None else _plain(changes.text).removeprefix("\ufeff")
        lines = [] if text is None else list(_lines(_plain(self.text), text))
        return Differing(headers=headers, body=lines)


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _lines(before: str, after: str) -> Iterator[tuple[str, str]]:
    lines = list(unified_diff(before.splitlines(), after.splitlines(), n=2, lineterm=""))
    if not lines:
        yield "", "Only the ends of lines differ."
    for line in lines[2:]:
        mark = {"+": "ins", "-": "del"}.get(line[:1], "")
        yield mark, "…" if line.startswith("@@") else line[1:]


def _rows(form: Form) -> Sequence[Row]:
    """Return the headers of a form. Raises HTTPException if they are not those of ours."""
    names, values = form.values("header"), form.values("value")
    if len(names) != len(values):
        raise HTTPException(400, "The form cannot be read: it has not as many names as values.")
    removed = set(form.values("remove"))
    return [
        Row(name=name, value=_plain(value), removed=name in removed)
        for name, value in zip(names, values, strict=True)
        if name
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class EditorState:
    """What is in the editor, what differs, and why it was refused; `looked` says what was shown."""

    rows: Sequence[Row]
    text: str
    differing: Differing | None = None
    refused: EditRefused | None = None
    looked: str = ""
    form: Form | None = None


router = APIRouter(prefix="/messages/{unique_id}/edit")


@router.get("")
def get_editor(request: Request, unique_id: str, parts: Parts) -> Response:
    """Show the editor of a message."""
    shown = _find(parts, unique_id)
    rows = [Row(name=name, value=value) for name, value in shown.rows.items()]
    return _show(request, unique_id, shown, EditorState(rows=rows, text=shown.text))


@router.post("")
def edit(request: Request, unique_id: str, parts: Parts, form: SentForm) -> Response:
    """Show what differs; or send it, if that is what was shown."""
    shown = _find(parts, unique_id)
    changes = shown.read(form)
    asked = EditRequest(
        unique_message_id=unique_id,
        changes=changes,
        who=form.requested_by,
        why=form.text("why", LONGEST_WHY) or None,
        attempt_id=_attempt(form),
        idempotency_key=form.key,
    )
    tried = parts.gateway.edits.try_out(asked)
    refused = tried if isinstance(tried, EditRefused) else None
    looked = _digest(form)
    if refused is None and form.text("do") == "send" and form.exactly("looked") == looked:
        made = parts.gateway.edits.ask(asked)
        if not isinstance(made, EditRefused):
            return see_other(f"/messages/{canonical(unique_id)}?done=retry:{made.operation_id}")
        refused = made
    state = EditorState(
        rows=_rows(form),
        text=_plain(form.exactly("body")) if "body" in form.fields else shown.text,
        differing=shown.compare(changes),
        refused=refused,
        looked=looked,
        form=form,
    )
    return _show(request, unique_id, shown, state)


def _find(parts: PageParts, unique_id: str) -> _Shown:
    found = parts.gateway.edits.find(unique_id)
    if isinstance(found, EditRefused):
        unknown = found.why is EditRefusal.UNKNOWN
        raise HTTPException(404 if unknown else 409, f"Nothing can be edited: {found}.")
    return _Shown(found)


def _attempt(form: Form) -> int | None:
    text = form.text("attempt", _MOST_DIGITS)
    return int(text) if text.isascii() and text.isdecimal() else None


def _digest(form: Form) -> str:
    """Return a hash of all that is sent: what a person has seen is what goes out."""
    names = ("header", "value", "remove", "body", "broken", "dead")
    said = "\0".join(f"{name}\1{each}" for name in names for each in form.values(name))
    return sha256(said.encode(errors="surrogatepass")).hexdigest()


def _show(request: Request, unique_id: str, shown: _Shown, state: EditorState) -> Response:
    form, refused = state.form, state.refused
    why = None if refused is None else refused.why
    said = {name: "" if form is None else form.text(name, LONGEST_WHY) for name in _SAID}
    is_broken, is_dead = said["broken"] == "yes", said["dead"] == "yes"
    return show(
        request,
        "edit.html",
        current="/messages",
        status=409 if why in OF_THE_STATE and why is not EditRefusal.DEAD else 200,
        here=f"/messages/{canonical(unique_id)}",
        unique_id=canonical(unique_id),
        attempt=said["attempt"] or shown.found.attempt_id,
        rows=state.rows,
        new_rows=NEW_ROWS,
        others=sorted(shown.others.items())[:MOST_ROWS],
        longest=LONGEST_VALUE,
        text=state.text,
        note=shown.note,
        packed=shown.found.packed,
        is_set=shown.is_set,
        differing=state.differing,
        trouble="" if refused is None else sentence(str(refused)),
        asks_broken=why is EditRefusal.BROKEN or is_broken,
        is_broken=is_broken,
        asks_dead=why is EditRefusal.DEAD or is_dead,
        is_dead=is_dead,
        may_send=state.differing is not None and state.differing.is_any and refused is None,
        looked=state.looked,
        why=said["why"],
    )


_SAID = ("why", "broken", "dead", "attempt")

"""Edit of a message: what of it can be changed, and the edit itself, also as ServiceControl has it."""

from base64 import b64decode
from binascii import Error as NoBase64
from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

from retrier.api.answers import (
    Answer,
    Refusal,
    Routes,
    accepted,
    answer,
    present,
    problem,
    time,
    told,
)
from retrier.api.parts import Parts
from retrier.api.requests import WITHOUT_NUL, InContext
from retrier.api.shapes import messages as shapes
from retrier.api.shapes.service import EditConfiguration, EditOutcome
from retrier.domain.edits import (
    LOCKED,
    OF_THE_STATE,
    SENSITIVE,
    Changes,
    Editable,
    EditRefusal,
    EditRefused,
    EditRequest,
    ShownEdit,
    find_changes,
    is_locked,
)
from retrier.http.problems import WrongField

LONGEST_WHY = 1000
MOST_HEADERS = 1000

router = Routes(prefix="/api", tags=["edit"])


class HeaderPair(BaseModel):
    """One header, as ServiceControl writes it."""

    key: str
    value: str | None = None


class EditBody(BaseModel):
    """What ServiceControl's clients send: the whole body as text, and all headers."""

    message_body: str | None = None
    message_headers: list[HeaderPair] | dict[str, str | None] | None = None


@router.get("/edit/config")
def get_edit_configuration(request: Request) -> Answer[EditConfiguration]:
    """Say which headers an edit may not change, and which decide where a message goes."""
    shown: EditConfiguration = {
        "enabled": True,
        "locked_headers": LOCKED,
        "sensitive_headers": SENSITIVE,
    }
    return answer(request, shown)


@router.post("/edit/{failed_message_id}", status_code=202)
def edit_message(
    failed_message_id: str, body: EditBody, context: InContext
) -> Answer[EditOutcome] | Refusal:
    """Send a changed message instead of the one that failed; the first edit wins.

    Who comes second is told with `edit_ignored`, and who was faster with `edited_by`.
    """
    if not (body.message_body or "").strip() or body.message_headers is None:
        return problem(400, f"{EditRefusal.EMPTY}, or there are no headers.")
    before = context.gateway.edits.headers_of(failed_message_id)
    if isinstance(before, EditRefused):
        return _refuse(before, unknown=400)
    changed, removed = find_changes(before, _pairs(body.message_headers))
    refused = next(filter(is_locked, sorted(removed)), None)
    if refused is not None:
        return _refuse(EditRefused(why=EditRefusal.LOCKED, about=refused), unknown=400)
    asked = context.gateway.edits.ask(
        EditRequest(
            unique_message_id=failed_message_id,
            changes=Changes(set_headers=changed, remove=removed, text=body.message_body),
            who=context.requested_by,
            idempotency_key=context.idempotency_key,
        )
    )
    if isinstance(asked, EditRefused):
        if asked.why in (EditRefusal.EDITED, EditRefusal.OWN, EditRefusal.ASKED):
            ignored: EditOutcome = {"edit_ignored": True, "edited_by": asked.who}
            return told(ignored)
        return _refuse(asked, unknown=400)
    outcome: EditOutcome = {"edit_ignored": False}
    return accepted(outcome, f"/api/operations/{asked.operation_id}")


def _pairs(
    headers: Sequence[HeaderPair] | Mapping[str, str | None],
) -> Sequence[tuple[str, str]]:
    if isinstance(headers, Mapping):
        return [(name, value or "") for name, value in headers.items()]
    return [(each.key, each.value or "") for each in headers]


class HeaderChanges(BaseModel):
    """Which headers are set, and which removed; all others stay byte for byte as they are."""

    model_config = ConfigDict(extra="forbid")

    set: Annotated[dict[str, str], Field(max_length=MOST_HEADERS)] = {}
    remove: Annotated[list[str], Field(max_length=MOST_HEADERS)] = []


class OwnEditBody(BaseModel):
    """What is to be another. `body` is text in the charset of the message, `body_base64` bytes.

    Both are without the gzip or deflate around them: that is put on again. `attempt_id` is the
    failure that was looked at. `send_broken`: although it is no JSON or XML any more; `send_dead`:
    although the message is dead.
    """

    model_config = ConfigDict(extra="forbid")

    headers: HeaderChanges = HeaderChanges()
    body: str | None = None
    body_base64: str | None = None
    attempt_id: StrictInt | None = None
    send_broken: StrictBool = False
    send_dead: StrictBool = False
    why: Annotated[str, Field(max_length=LONGEST_WHY), WITHOUT_NUL] | None = None

    def changes(self) -> Changes:
        """Return what is asked for. Raises WrongField for what cannot be meant."""
        if self.body is not None and self.body_base64 is not None:
            raise WrongField("body.body_base64", "The body is given twice.")
        try:
            given = None if self.body_base64 is None else b64decode(self.body_base64, validate=True)
        except (NoBase64, ValueError):
            raise WrongField("body.body_base64", "This is no base64.") from None
        return Changes(
            set_headers=self.headers.set,
            remove=frozenset(self.headers.remove),
            text=self.body,
            body=given,
            broken=self.send_broken,
            dead=self.send_dead,
        )


@router.get("/errors/{failed_message_id}/edit")
def get_editable(
    request: Request, failed_message_id: str, parts: Parts
) -> Answer[shapes.EditableMessage] | Refusal:
    """Show what of a message can be changed: the headers that go back, and the body as text."""
    found = parts.gateway.edits.find(failed_message_id)
    if isinstance(found, EditRefused):
        return _refuse(found)
    return answer(request, editable(found))


@router.post("/errors/{failed_message_id}/edit", status_code=202)
def ask_edit(
    failed_message_id: str, body: OwnEditBody, context: InContext
) -> Answer[shapes.AskedEdit] | Refusal:
    """Send a changed message instead of the one that failed; the first edit wins.

    With `waits_for_approval` nothing is sent before a second person has approved its operation.
    """
    asked = context.gateway.edits.ask(
        EditRequest(
            unique_message_id=failed_message_id,
            changes=body.changes(),
            who=context.requested_by,
            idempotency_key=context.idempotency_key,
            why=body.why,
            attempt_id=body.attempt_id,
        )
    )
    if isinstance(asked, EditRefused):
        return _refuse(asked)
    made: shapes.AskedEdit = {"edit_id": asked.edit_id, "operation_id": asked.operation_id}
    if asked.is_asking:
        made["waits_for_approval"] = True
    return accepted(made, f"/api/operations/{asked.operation_id}")


def editable(found: Editable) -> shapes.EditableMessage:
    """Show what of a message can be changed."""
    shown: shapes.EditableMessage = {
        "attempt_id": found.attempt_id,
        "headers": [
            {"key": name, "value": value, "fixed": name in found.fixed}
            for name, value in found.headers.items()
        ],
        "body": found.text,
        "body_size": found.size,
        "charset": found.charset,
        "packed": found.packed or None,
    }
    return present(shown)


def edit(shown: ShownEdit) -> shapes.Edit:
    """Show an edit, with the headers that it changes."""
    changed = None
    if shown.headers is not None:
        changed = [
            present(shapes.HeaderChange(key=each.name, before=each.before, after=each.after))
            for each in shown.headers
        ]
    made: shapes.Edit = {
        "edit_id": shown.edit_id,
        "operation_id": shown.operation_id,
        "state": shown.state.value,
        "who": shown.who,
        "why": shown.why,
        "reason": shown.reason,
        "asked_at": time(shown.asked_at),
        "ended_at": time(shown.ended_at),
        "message_id": shown.message_id,
        "body_changed": shown.body_changed,
        "body_size": shown.body_size,
        "headers": changed,
    }
    if shown.is_asking:
        made["waits_for_approval"] = True
    return present(made)


def _refuse(refused: EditRefused, *, unknown: int = 404) -> Refusal:
    """Answer why an edit is not taken: 409 for what the message is at the moment."""
    if refused.why is EditRefusal.UNKNOWN:
        return problem(unknown, f"{refused}.")
    if refused.why in OF_THE_STATE:
        return problem(409, f"{refused}.")
    return problem(400, f"{refused}.", reason=refused.why.name.lower())

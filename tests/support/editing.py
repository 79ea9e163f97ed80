"""Edits over the bench: asked for as the gateway does, and what then lies on the queue."""

from typing import Any

from sqlalchemy import select

from retrier.domain import headers
from retrier.domain.approval import ApprovalTerms
from retrier.domain.edits import AskedEdit, Changes, EditRefused, EditRequest
from retrier.domain.wire import Properties
from retrier.edits import Edits
from retrier.events.event import ignore
from retrier.guard import Guard
from retrier.store.schema import message_edits
from tests.support.bench import QUEUE, Bench

BODY = '{"order": "mended"}'


def edits_of(bench: Bench, approval: ApprovalTerms | None = None) -> Edits:
    """Return what takes edits in the database of a bench."""
    codec, guard = bench.transport.codec, Guard(bench.db)
    return Edits(bench.db, lambda: None, ignore, codec, guard, approval)


def edit(bench: Bench, unique_id: str, who: str = "ada", **changes: Any) -> AskedEdit | EditRefused:
    """Ask for an edit; of the body, unless something else is said."""
    changed = Changes(**(changes or {"text": BODY}))
    request = EditRequest(unique_message_id=unique_id, changes=changed, who=who)
    return edits_of(bench).ask(request)


def asked(bench: Bench, unique_id: str, **changes: Any) -> AskedEdit:
    """Ask for an edit that is taken."""
    found = edit(bench, unique_id, **changes)
    assert isinstance(found, AskedEdit), found
    return found


def edit_row(bench: Bench, edit_id: str) -> dict[str, Any]:
    """Return the row of an edit."""
    return bench.rows(select(message_edits).where(message_edits.c.edit_id == edit_id))[0]


def lying(bench: Bench, queue: str = QUEUE) -> list[tuple[Properties, bytes]]:
    """Return properties and bodies of what lies in a queue."""
    codec = bench.transport.codec
    return [(codec.read(each.raw), each.body) for each in bench.transport.broker.holds(queue)]


def versions(bench: Bench, unique_id: str) -> tuple[list[bytes], list[bytes]]:
    """Return the bodies that lie in the queue of the edited version, and of the message itself."""
    found = lying(bench)
    edited = [body for props, body in found if props.text(headers.EDIT_OF) == unique_id]
    plain = [body for props, body in found if props.text(headers.UNIQUE_MESSAGE_ID) == unique_id]
    return edited, plain

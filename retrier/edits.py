"""Edits that a person asks for: the gateway's part about them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from uuid import uuid4

from retrier.audit import audited, audited_if_refused
from retrier.domain.access import (
    Right,
)
from retrier.domain.approval import (
    ApprovalTerms,
)
from retrier.domain.copies import without_envelope
from retrier.domain.edits import (
    AskedEdit,
    Editable,
    EditedMessage,
    EditRefusal,
    EditRefused,
    EditRequest,
    edit_message,
    header_texts,
    show_editable,
)
from retrier.domain.identity import canonical
from retrier.domain.values import dataclass
from retrier.domain.wire import PropertyCodec, UnreadableProperties
from retrier.events.event import Emit
from retrier.events.processor import (
    ApprovalAsked,
)
from retrier.events.service import EditAsked
from retrier.guard import Guard
from retrier.imports import recording
from retrier.store.edit_requests import FoundOriginal, ask_edit, find_original
from retrier.store.engine.database import Database


@dataclass(frozen=True, slots=True)
class Edits:
    """Takes edits of messages, and shows what of a message can be changed.

    `codec` reads and writes the properties of the broker's messages. By `approval` an edit waits for
    a second person.
    """

    db: Database
    wake: Callable[[], None]
    emit: Emit
    codec: PropertyCodec
    guard: Guard
    approval: ApprovalTerms | None = None

    @audited_if_refused("edit")
    def find(self, unique_id: str) -> Editable | EditRefused:
        """Return what of a message can be changed; or why it cannot be edited."""
        found = self._find(unique_id)
        if isinstance(found, EditRefused):
            return found
        try:
            return show_editable(self.codec, found.original, found.attempt_id)
        except UnreadableProperties as error:
            return EditRefused(why=EditRefusal.UNREADABLE, about=str(error))

    @audited_if_refused("edit")
    def headers_of(self, unique_id: str) -> Mapping[str, str] | EditRefused:
        """Return all headers of a message as texts, for one who sends back the whole list."""
        found = self._find(unique_id)
        if isinstance(found, EditRefused):
            return found
        try:
            return header_texts(self.codec.read(found.original.raw).headers)
        except UnreadableProperties as error:
            return EditRefused(why=EditRefusal.UNREADABLE, about=str(error))

    @audited_if_refused("edit")
    def try_out(self, request: EditRequest) -> EditedMessage | EditRefused:
        """Return what would be sent, or why not; nothing is changed."""
        made = self._make(request)
        return made if isinstance(made, EditRefused) else made[1]

    @audited("edit")
    def ask(self, request: EditRequest) -> AskedEdit | EditRefused:
        """Send a changed message instead of the one that failed; durable when this returns.

        The first edit of a message wins. Then wake the processor. Raises KeyReused, NotAllowed.
        """
        made = self._make(request)
        if isinstance(made, EditRefused):
            return made
        found, edited = made
        with recording(self.emit):
            waiting = replace(request, approval=self.approval)
            asked = ask_edit(self.db, waiting, edited, found.attempt_id)
        if isinstance(asked, AskedEdit):
            key = canonical(request.unique_message_id)
            self.emit(EditAsked(operation_id=asked.operation_id, unique_message_id=key))
            if asked.is_asking:
                self.emit(ApprovalAsked(operation_id=asked.operation_id, total=1))
            self.wake()
        return asked

    def _find(self, unique_id: str) -> FoundOriginal | EditRefused:
        """Return what is edited: of an error envelope what stands in it, for that goes back.

        Raises NotAllowed for who may not edit it: an editor shows all of a message, too. The queue
        is looked at after the message was read: what fails elsewhere after that is another failure,
        which `ask_edit` does not take for this one.
        """
        self.guard.must(Right.EDIT)
        found = find_original(self.db, unique_id)
        self.guard.must_own_message(unique_id)
        if isinstance(found, EditRefusal):
            return EditRefused(why=found)
        try:
            return replace(found, original=without_envelope(self.codec, found.original))
        except UnreadableProperties as error:
            return EditRefused(why=EditRefusal.UNREADABLE, about=str(error))

    def _make(self, request: EditRequest) -> tuple[FoundOriginal, EditedMessage] | EditRefused:
        found = self._find(request.unique_message_id)
        if isinstance(found, EditRefused):
            return found
        key, new_id = canonical(request.unique_message_id), str(uuid4())
        try:
            edited = edit_message(self.codec, found.original, request.changes, key, new_id)
        except UnreadableProperties as error:
            return EditRefused(why=EditRefusal.UNREADABLE, about=str(error))
        return edited if isinstance(edited, EditRefused) else (found, edited)

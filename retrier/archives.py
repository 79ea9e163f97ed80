"""The gateway's part about archive, unarchive, resolve and dead: what a person asks for, and undo."""

from collections.abc import Callable
from dataclasses import replace
from enum import Enum

from retrier.domain.archive_operation import (
    AT_ONCE,
    Act,
    ArchiveOperationState,
    ArchiveRequest,
    Refusal,
)
from retrier.domain.selection import Selection
from retrier.events.event import Emit
from retrier.events.processor import ArchiveAsked, DoneAtOnce
from retrier.events.service import DeclaredDead, RequestReceived, RequestRecorded
from retrier.store.engine.database import Database
from retrier.store.queries.archive_operations import find_archive_operation
from retrier.store.verbs.archive_requests import AskedArchive, ask_archive
from retrier.store.verbs.dead_messages import declare_dead


class UndoRefusal(Enum):
    """Why an operation cannot be undone."""

    UNKNOWN = "no archive operation has this id"
    NO_ARCHIVE = "only an operation that archived messages can be undone"


class Archives:
    """Takes requests about messages that are to be archived, unarchived, resolved or given up.

    A request about at most `at_once` messages is done in one transaction when it is answered; a
    larger one is durable then, and `wake` wakes the thread that works it off. `notices` returns the
    queue that gets a notice of each dead message, or None.
    """

    def __init__(
        self,
        db: Database,
        wake: Callable[[], None],
        emit: Emit,
        at_once: int = AT_ONCE,
        notices: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._db = db
        self._wake = wake
        self._emit = emit
        self._at_once = at_once
        self._notices = notices

    def ask(self, request: ArchiveRequest) -> AskedArchive:
        """Do it or write it down; the same request under the same key gives the same operation.

        Raises KeyReused.
        """
        self._emit(RequestReceived())
        asked = ask_archive(self._db, request, self._at_once)
        self._emit(RequestRecorded())
        if not asked.repeated:
            self._tell(asked)
        return asked

    def undo(
        self, operation_id: str, make: Callable[[Selection], ArchiveRequest]
    ) -> AskedArchive | UndoRefusal:
        """Take back what is still archived by an operation: this is an operation itself.

        `make` makes the request from the selection of these messages.

        Raises KeyReused.
        """
        found = find_archive_operation(self._db, operation_id)
        if found is None:
            return UndoRefusal.UNKNOWN
        if found.act is not Act.ARCHIVE:
            return UndoRefusal.NO_ARCHIVE
        request = make(Selection(archived_by=found.operation_id))
        return self.ask(replace(request, undo_of=found.operation_id))

    def declare_dead(
        self, unique_id: str, why: str, who: str, reason: str | None = None
    ) -> Refusal | None:
        """Declare one message dead; return why it is left as it is, or None.

        `reason` is a built-in one, by which it is found until its retry fails.
        """
        self._emit(RequestReceived())
        refusal = declare_dead(
            self._db, unique_id, why=why, who=who, reason=reason, notices=self._notices()
        )
        self._emit(RequestRecorded())
        if refusal is None:
            self._emit(DeclaredDead(unique_message_id=unique_id))
        return refusal

    def _tell(self, asked: AskedArchive) -> None:
        found = asked.operation
        about = {"operation_id": found.operation_id, "act": str(found.act)}
        if found.state is ArchiveOperationState.COMPLETED:
            self._emit(DoneAtOnce(done=found.done, skipped=found.skipped, **about))
        else:
            self._emit(ArchiveAsked(total=found.total, **about))
            self._wake()

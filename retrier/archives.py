"""What a person archives, resolves or gives up: the gateway's part about it."""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from datetime import datetime
from enum import Enum

from retrier.audit import Audit, audited, audited_if_refused
from retrier.domain.access import (
    Access,
    Right,
)
from retrier.domain.archive_operation import (
    AT_ONCE,
    Act,
    ActRefusal,
    ArchiveOperationState,
    ArchiveRequest,
)
from retrier.domain.selection import Selection
from retrier.events.event import Emit
from retrier.events.processor import (
    ArchiveAsked,
    DoneAtOnce,
)
from retrier.events.service import DeclaredDead
from retrier.guard import Guard, without_others
from retrier.imports import recording
from retrier.store.archive import AskedArchive, ask_archive
from retrier.store.archive_lists import PlannedAct, find_archive_operation, plan_act
from retrier.store.dead_messages import declare_dead
from retrier.store.engine.database import Database
from retrier.store.selections import (
    check_frozen,
)


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
        audit: Audit | None = None,
    ) -> None:
        self._db = db
        self._wake = wake
        self._emit = emit
        self._at_once = at_once
        self._notices = notices
        self.guard = Guard(db, audit=audit)

    def of(self, access: Access) -> "Archives":
        """Return the same for somebody with these rights."""
        bound = copy(self)
        bound.guard = self.guard.of(access)
        return bound

    @audited_if_refused("preview")
    def plan(self, act: Act, selection: Selection, at: datetime, *more: str) -> PlannedAct:
        """Count what an act would do to these messages, and plan it (`plan_act`)."""
        selection, _ = self.guard.narrow(selection)
        planned = plan_act(self._db, act, selection, at, *more)
        check_frozen(selection, planned.preview.total)
        if not self.guard.access.reads_own_only:
            return planned
        found = planned.preview
        skipped = without_others(found.skipped_because)
        return replace(planned, preview=replace(found, skipped_because=skipped))

    @audited("archive")
    def ask(self, request: ArchiveRequest) -> AskedArchive:
        """Do it or write it down; the same request under the same key gives the same operation.

        Raises KeyReused, NotAllowed.
        """
        return self._narrow_and_ask(request)

    def _narrow_and_ask(self, request: ArchiveRequest) -> AskedArchive:
        self.guard.must(_RIGHTS[request.act])
        selection, foreign = self.guard.narrow(request.selection)
        asked = self._ask(replace(request, selection=selection))
        return replace(asked, not_yours=len(foreign))

    def _ask(self, request: ArchiveRequest) -> AskedArchive:
        with recording(self._emit):
            asked = ask_archive(self._db, request, self._at_once)
        if not asked.repeated:
            self._tell(asked)
        return asked

    @audited("undo")
    def undo(
        self, operation_id: str, make: Callable[[Selection], ArchiveRequest]
    ) -> AskedArchive | UndoRefusal:
        """Take back what is still archived by an operation: this is an operation itself.

        `make` makes the request from the selection of these messages.

        Raises KeyReused.
        """
        self.guard.must(Right.ARCHIVE)
        found = find_archive_operation(self._db, operation_id)
        if found is None:
            return UndoRefusal.UNKNOWN
        if found.act is not Act.ARCHIVE:
            return UndoRefusal.NO_ARCHIVE
        request = make(Selection(archived_by=found.operation_id))
        return self._narrow_and_ask(replace(request, undo_of=found.operation_id))

    @audited("declare_dead")
    def declare_dead(
        self, unique_id: str, why: str, who: str, reason: str | None = None
    ) -> ActRefusal | None:
        """Declare one message dead; return why it is left as it is, or None.

        `reason` is a built-in one, by which it is found until its retry fails. Raises
        NotAllowed, DatabaseUnavailable.
        """
        self.guard.must(Right.DECLARE_DEAD)
        self.guard.must_own_message(unique_id)
        with recording(self._emit):
            refusal = declare_dead(
                self._db,
                unique_id,
                why=why,
                who=who,
                reason=reason,
                notices=self._notices(),
                within=self.guard.access.queues,
            )
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


_RIGHTS = {
    Act.ARCHIVE: Right.ARCHIVE,
    Act.UNARCHIVE: Right.ARCHIVE,
    Act.RESOLVE: Right.RESOLVE,
    Act.RELEASE: Right.RESOLVE,
}

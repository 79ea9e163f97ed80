"""The guard: holds a request to the rights of who asks, before anything is changed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from retrier.audit import Audit
from retrier.domain.access import NOT_YOURS, OPEN, Access, Right, covers
from retrier.domain.selection import Selection
from retrier.domain.values import dataclass
from retrier.errors import NotAllowed
from retrier.store.engine.database import Database
from retrier.store.imports import find_error_queue
from retrier.store.operation_lists import find_operation
from retrier.store.selections import find_queues, has_any


@dataclass(frozen=True, slots=True)
class Guard:
    """Holds requests to the rights of who asks. `audit` keeps them, if the settings have `access`."""

    db: Database
    access: Access = OPEN
    audit: Audit | None = None

    def of(self, access: Access) -> "Guard":
        """Return the guard for somebody with these rights."""
        return replace(self, access=access)

    def must(self, right: Right) -> None:
        """Raise NotAllowed if the role does not allow it."""
        why_not = self.access.why_not(right)
        if why_not is not None:
            raise NotAllowed(why_not)

    def must_own(self, *queues: str | None) -> None:
        """Raise NotAllowed if there is no right to one of these queues."""
        for queue in queues:
            why_not = self.access.why_not_on(queue)
            if why_not is not None:
                raise NotAllowed(why_not)

    def must_own_all(self) -> None:
        """Raise NotAllowed if the rights are to some queues only: it concerns all of them."""
        if self.access.queues is not None:
            raise NotAllowed(
                f"{self.access.shown} has a right only to {self.access.shown_queues}, and this "
                "concerns all queues."
            )

    def must_own_message(self, unique_id: str) -> None:
        """Raise NotAllowed if a message failed on a queue to which there is no right."""
        if self.access.queues is not None:
            for queue in find_queues(self.db, [unique_id]).values():
                self.must_own(queue)

    def must_own_import(self, import_id: str) -> None:
        """Raise NotAllowed if a failed import was found on an error queue to which there is no right."""
        if self.access.queues is not None:
            queue = find_error_queue(self.db, import_id)
            if queue is not None:
                self.must_own(queue)

    def must_own_some(self, selection: Selection) -> None:
        """Raise NotAllowed if none of these messages failed on a queue to which there is a right."""
        within = self.access.queues
        if within is not None and not has_any(self.db, replace(selection, within=within)):
            raise NotAllowed(
                f"None of it failed on a queue to which {self.access.shown} has a right: "
                f"{self.access.shown_queues}."
            )

    def must_own_operation(self, operation_id: str) -> None:
        """Raise NotAllowed if an operation was asked for with other rights to queues.

        It may hold messages of other queues, and what is left of it cannot be told apart.
        """
        if self.access.queues is None:
            return
        found = find_operation(self.db, operation_id)
        within = None if found is None else found.operation.selection.within
        own = self.access.queues
        if found is not None and (within is None or not covers(own, within)):
            raise NotAllowed(
                "This operation may hold messages of other queues: it was not asked for with a "
                f"right to {self.access.shown_queues} only."
            )

    def narrow(self, selection: Selection) -> tuple[Selection, Sequence[str]]:
        """Return what of a selection may be acted on, and which of its ids may not.

        A message may fail elsewhere after this look: the rights go with the selection, and are
        looked at again where the act is done. Raises NotAllowed if nothing of it can be theirs, or
        if it asks for words that they may not read.
        """
        if selection.words is not None:
            self.must(Right.READ_CONTENT)
        within = self.access.queues
        if within is None:
            return selection, ()
        if selection.queue is not None:
            self.must_own(selection.queue)
        narrowed = replace(selection, within=within)
        if selection.ids is None:
            return narrowed, ()
        foreign = {
            each: queue
            for each, queue in find_queues(self.db, selection.ids).items()
            if not self.access.owns(queue)
        }
        own = tuple(each for each in selection.ids if each not in foreign)
        if foreign and not own:
            self.must_own(next(iter(foreign.values())))
        return replace(narrowed, ids=own), tuple(foreign)


def without_others(counted: Mapping[str, int]) -> Mapping[str, int]:
    """Return counts by reason without that of others' messages: it could be searched by them."""
    return {why: count for why, count in counted.items() if why != NOT_YOURS}

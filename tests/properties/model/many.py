"""Acts on many: written down, and worked off chunk by chunk while everything else goes on."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sqlalchemy import select

from retrier.archives import Archives, UndoRefusal
from retrier.domain.archive_operation import Act, ArchiveOperation, ArchiveOperationState
from retrier.domain.selection import Selection
from retrier.errors import DatabaseUnavailable, LeaseLost
from retrier.events.event import ignore
from retrier.processor.archive import Archiving
from retrier.store.archive_lists import list_archive_operations
from retrier.store.engine.database import Database
from retrier.store.message_lists import PageRequest
from retrier.store.schema import failed_messages
from tests.properties.model.account import ARCHIVED, RESOLVED, UNRESOLVED, Account, Message
from tests.properties.model.look import Seen
from tests.support.archiving import make_archiving, request_for
from tests.support.bench import Bench

SOURCES = {Act.ARCHIVE: UNRESOLVED, Act.RESOLVE: UNRESOLVED, Act.UNARCHIVE: ARCHIVED}
RESULTS = {Act.ARCHIVE: ARCHIVED, Act.RESOLVE: RESOLVED, Act.UNARCHIVE: UNRESOLVED}
MOST_CHUNKS = 200
Ask = Callable[[Archives], object]
ALL = PageRequest(number=1, size=500)


@dataclass(slots=True)
class ManyActs:
    """The operations, when each was asked for, and what each one archived."""

    db: Database
    account: Account
    asked: dict[str, int] = field(default_factory=dict)
    taken: dict[str, dict[str, int]] = field(default_factory=dict)

    def ask(self, act: Act, group: str) -> bool:
        """Ask for an act on a group, however few it is about; say whether it was taken."""
        return self._take(lambda each: each.ask(request_for(act, Selection(group=group))))

    def undo(self, which: int) -> bool:
        """Take back what one of the operations archived."""
        known = sorted(self.asked)
        if not known:
            return False
        wanted = known[which % len(known)]
        return self._take(
            lambda each: each.undo(wanted, lambda still: request_for(Act.UNARCHIVE, still))
        )

    def work(self, bench: Bench) -> bool:
        """Do one chunk in the process of the bench; say whether there was one."""
        archiving: Archiving = make_archiving(bench)
        try:
            return archiving.work_once()
        except (DatabaseUnavailable, LeaseLost):
            return False

    def note_written(self) -> None:
        """Note when an operation was asked for that is not known yet."""
        for each in list_archive_operations(self.db, ALL).items:
            if each.state is ArchiveOperationState.WAITING:
                self.asked.setdefault(each.operation_id, self.account.now)

    def follow(self, seen: dict[str, Seen]) -> Iterator[str]:
        """Yield what a chunk may not have done; do the rest of it to the account."""
        took = self._archived_by()
        for key, message in list(self.account.all()):
            now = seen.get(key)
            if now is None or (now.status, now.claim) == (message.status, message.claim):
                continue
            # Two operations may wait that want the same message: its row says which one it was.
            fitting = (each for each in self._all() if RESULTS[each.act] == now.status)
            named = (each for each in fitting if took.get(key) in (None, each.operation_id))
            one = next((each for each in named if self._may(each, key, message)), None)
            if one is None or self.account.why_not(one.act, key):
                yield f"no act on many may turn {key} from {message} into {now}"
            else:
                since = message.since
                self.account.act(one.act, [key])
                if one.act is Act.ARCHIVE:
                    self.taken.setdefault(one.operation_id, {})[key] = since
        yield from self.account.differences(seen)
        yield from self._left_behind()

    def finish(self, bench: Bench) -> Iterator[str]:
        """Work to the end, in a world without faults; yield what has not come to it."""
        # One that was lost unheard is taken again, as after the next renewal: without other work
        # nothing else notices it, and only its holder works anything off.
        bench.context.lease.lose()
        bench.take_turn()
        chunks = 0
        while self.work(bench) and chunks < MOST_CHUNKS:
            chunks += 1
        for each in self._all():
            over = each.state is ArchiveOperationState.COMPLETED
            if not over or each.remaining:
                yield f"act on many {each.operation_id} is not over: {each}"

    def _take(self, ask: Ask) -> bool:
        try:
            return not isinstance(ask(Archives(self.db, lambda: None, ignore, 0)), UndoRefusal)
        except DatabaseUnavailable:
            return False

    def _archived_by(self) -> dict[str, str | None]:
        columns = failed_messages.c
        query = select(columns.unique_message_id, columns.archive_operation_id)
        return self.db.read(lambda tx: {row[0]: row[1] for row in tx.execute(query)})

    def _all(self) -> tuple[ArchiveOperation, ...]:
        """Return those that were written down: what is done at once is the account's own."""
        found = list_archive_operations(self.db, ALL).items
        return tuple(each for each in found if each.operation_id in self.asked)

    def _may(self, each: ArchiveOperation, key: str, message: Message) -> bool:
        """Say whether the message is as the operation selected it, and not newer than that."""
        if message.status != SOURCES[each.act] or message.since > self.asked[each.operation_id]:
            return False
        if each.undo_of is not None:
            return self.taken.get(each.undo_of, {}).get(key) == message.since
        return each.selection.group in message.groups

    def _left_behind(self) -> Iterator[str]:
        """Yield what a completed archive should have taken: all that was unresolved all along."""
        for each in self._all():
            if each.state is ArchiveOperationState.COMPLETED and each.act is not Act.UNARCHIVE:
                for key, message in self.account.all():
                    if self._is_due(each, key, message):
                        yield f"{each.act} {each.operation_id} completed without {key}"

    def _is_due(self, each: ArchiveOperation, key: str, message: Message) -> bool:
        by_name = each.selection.ids is not None or each.selection.pending
        if by_name or not each.selection.group:
            return False
        return self._may(each, key, message) and not self.account.why_not(each.act, key)

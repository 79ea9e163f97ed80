"""What a person does with failed imports: the gateway's part about them."""

from collections.abc import Container, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Protocol

from retrier.audit import Audit, audited, audited_if_refused
from retrier.domain.access import OPEN, Access, Right
from retrier.domain.copies import as_it_came, why_not_sendable
from retrier.domain.dialects import BUILT_IN
from retrier.domain.failed_imports import (
    REFUSED,
    ImportRefusal,
    ReadAgain,
    SendOutcome,
    WrongDialect,
    WrongQueue,
    why_not_send,
)
from retrier.domain.failed_message import FailedImport, Received
from retrier.domain.identity import canonical, is_guid
from retrier.domain.text import clean
from retrier.domain.values import dataclass
from retrier.domain.wire import Outgoing, PropertyCodec
from retrier.errors import DataRefused
from retrier.events.event import Emit
from retrier.events.service import (
    ImportPublished,
    ImportStamped,
    RequestReceived,
    RequestRecorded,
)
from retrier.guard import Guard
from retrier.policy.policy_set import WAITING, Judge
from retrier.store.engine.database import Database
from retrier.store.import_acts import (
    StampedImport,
    delete_import,
    keep_refused,
    read_again,
    record_send,
    stamp_import,
)
from retrier.store.imports import ImportSelection, find_end, find_import_chunk, find_send
from retrier.store.recording import Reception


@contextmanager
def recording(emit: Emit) -> Iterator[None]:
    """Emit that a request is received, and that it is recorded if nothing is raised inside."""
    emit(RequestReceived())
    yield
    emit(RequestRecorded())


SendAnswer = SendOutcome | ImportRefusal | WrongQueue


class ReadImport(Protocol):
    """Understands a failed import with the settings of today."""

    def __call__(
        self, kept: FailedImport, destination: str | None = None, dialect: str | None = None
    ) -> Received:
        """Return what it turns out to be, with both as if its error queue had them."""
        ...


class SendLine(Protocol):
    """A connection to a broker that takes messages."""

    def send(self, message: Outgoing) -> SendOutcome:
        """Send one message; return what became of it."""
        ...


class Sender(Protocol):
    """Opens a connection for one message, in bounded time; transport.sender is the one there is."""

    @property
    def codec(self) -> PropertyCodec:
        """What reads and edits the properties of this broker's messages."""
        ...

    @property
    def user(self) -> str | None:
        """The connection's own user."""
        ...

    def connected(self) -> AbstractContextManager[SendLine]:
        """Connect. Raises BrokerUnavailable when the broker takes nothing; then nothing was sent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedImports:
    """Reads failed imports again, sends them to a queue, and deletes them.

    `read` understands one with the settings of today; `sender` sends one, over a connection of its
    own. `instance` is who counts in the ledger, `forward_to` the log queue if there is one. `judge`
    decides about what becomes a failure. Nothing is sent to `own_queues`. What is sent is persistent,
    unless `keep_transient`. `dialects` are the names of all formats.
    """

    db: Database
    emit: Emit
    own_queues: Container[str]
    read: ReadImport
    sender: Sender
    instance: str
    forward_to: str | None = None
    judge: Judge = WAITING
    keep_transient: bool = False
    dialects: tuple[str, ...] = BUILT_IN
    access: Access = OPEN
    audit: Audit | None = None

    def of(self, access: Access) -> "FailedImports":
        """Return the same for somebody with these rights."""
        return replace(self, access=access)

    @property
    def guard(self) -> Guard:
        """What holds requests to the rights of who asks."""
        return Guard(self.db, self.access, self.audit)

    def _must(self, import_id: str, to: str | None = None) -> None:
        """Raise NotAllowed unless this import may be acted on, and may go to that queue."""
        self.guard.must(Right.IMPORT)
        if to is not None:
            self.guard.must_own(to)
        self.guard.must_own_import(import_id)

    @audited_if_refused("read_import_again")
    def reading_as(
        self, destination: str | None, dialect: str | None = None
    ) -> "FailedImports | WrongQueue | WrongDialect":
        """Return the same, reading each as if its error queue had these two; None: as it is.

        Those of the settings would hold for all messages of the queue, and for all to come.
        """
        if destination is not None:
            self.guard.must_own(destination)
        if dialect is not None and dialect not in self.dialects:
            return WrongDialect(f"it must be one of {', '.join(self.dialects)}")
        reason = None if destination is None else self._why_not(destination)
        if reason is not None:
            return WrongQueue(reason)
        return replace(self, read=partial(self.read, destination=destination, dialect=dialect))

    @audited("read_import_again")
    def read_again(self, import_id: str, who: str) -> ReadAgain:
        """Read one again."""
        self._must(import_id)
        if not is_guid(import_id):
            return ReadAgain.refusing(ImportRefusal.UNKNOWN)
        return self._read_again([canonical(import_id)], who)

    @audited("read_imports_again")
    def read_all_again(
        self, error_queue: str | None, who: str, counted_to: int | None = None
    ) -> ReadAgain:
        """Read all of an error queue again, or all there are; what comes meanwhile is left out.

        With `counted_to` also what came after the preview that counted up to there. In transactions
        of at most 500. After a crash the same request reads the rest.
        """
        self.guard.must(Right.IMPORT)
        if error_queue is None:
            self.guard.must_own_all()
        else:
            self.guard.must_own(error_queue)
        total, wanted = ReadAgain(), ImportSelection(error_queue=error_queue, counted_to=counted_to)
        for import_ids in self._find_chunks(wanted):
            total = total.add(self._read_again(import_ids, who))
        # Nobody has named them: with what is gone by now somebody else was quicker.
        return total.without(ImportRefusal.UNKNOWN)

    @audited("send_import")
    def send(
        self, import_id: str, to: str, who: str, *, again: bool, confirmation: bool = False
    ) -> SendAnswer:
        """Send one to a queue as it came; `again`: although it may have been sent before.

        `confirmation`: although it has no body and only confirms a retry.

        It is stamped before it is sent and recorded after, each in a transaction of its own: a
        crash in between leaves it in doubt. Raises BrokerUnavailable when nothing was sent, and
        DatabaseUnavailable, after which it may be in doubt.
        """
        self._must(import_id, to)
        reason = self._why_not(to)
        if reason is not None:
            return WrongQueue(reason)
        refusal = self._look(import_id, again=again, confirmation=confirmation)
        if refusal is not None:
            return refusal
        # Connected before it is stamped: a broker that is away, or takes nothing, leaves no stamp.
        with self.sender.connected() as line:
            with recording(self.emit):
                stamped = stamp_import(self.db, canonical(import_id), to, again=again, who=who)
            if isinstance(stamped, ImportRefusal):
                return stamped
            return self._send(line, stamped)

    @audited("delete_import")
    def delete(self, import_id: str, who: str) -> ImportRefusal | None:
        """Delete one; None, or why it may not be."""
        self._must(import_id)
        if not is_guid(import_id):
            return ImportRefusal.UNKNOWN
        with recording(self.emit):
            return delete_import(self.db, canonical(import_id), who=who)

    def _read_again(self, import_ids: Sequence[str], who: str) -> ReadAgain:
        """Read them in one transaction, or one by one if the database refuses one of them."""
        into = Reception(instance=self.instance, forward_to=self.forward_to, judge=self.judge)
        try:
            with recording(self.emit):
                return read_again(self.db, import_ids, read=self.read, into=into, who=who)
        except DataRefused as refusal:
            if len(import_ids) == 1:
                reason = f"{REFUSED}: {refusal}"
                with recording(self.emit):
                    return keep_refused(self.db, import_ids[0], reason, who=who)
        total = ReadAgain()
        for import_id in import_ids:
            total = total.add(self._read_again([import_id], who))
        return total

    def _find_chunks(self, wanted: ImportSelection) -> Iterator[Sequence[str]]:
        end = find_end(self.db)
        if end is None:
            return
        after = None
        while chunk := find_import_chunk(self.db, wanted, end, after):
            yield chunk.import_ids
            after = chunk.last

    def _why_not(self, to: str) -> str | None:
        if clean(to) != to:
            return "the name of a queue is text without NUL, of 255 bytes at most"
        return why_not_sendable(to, self.own_queues)

    def _look(self, import_id: str, *, again: bool, confirmation: bool) -> ImportRefusal | None:
        """Look before a connection is opened; the stamp decides."""
        found = find_send(self.db, import_id)
        if found is None:
            return ImportRefusal.UNKNOWN
        if found.only_confirms and not confirmation:
            return ImportRefusal.ONLY_CONFIRMS
        return why_not_send(found.send, found.now, again=again)

    def _send(self, line: SendLine, stamped: StampedImport) -> SendOutcome:
        self.emit(ImportStamped(import_id=stamped.import_id))
        raw = as_it_came(
            self.sender.codec,
            stamped.raw,
            self.sender.user,
            keep_transient=self.keep_transient,
        )
        outcome = line.send(Outgoing(queue=stamped.send.to, raw=raw, body=stamped.body))
        self.emit(ImportPublished(import_id=stamped.import_id))
        with recording(self.emit):
            record_send(self.db, stamped, outcome)
        return outcome

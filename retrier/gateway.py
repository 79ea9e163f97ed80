"""The gateway: every request of a person that changes something passes through it.

Whoever asks does so through a gateway of their own (`of`), which knows what they may: it refuses what
their role does not allow, and adds the queues of their rights to what they select.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from typing import assert_never

from retrier.archives import Archives
from retrier.audit import Audit, audited, audited_if_refused
from retrier.domain.access import (
    NOT_YOURS,
    Access,
    Right,
)
from retrier.domain.approval import (
    ApprovalRefusal,
    ApprovalRules,
    ApprovalTerms,
    Decided,
    Decider,
    Verdict,
    is_of_all,
)
from retrier.domain.archive_operation import (
    ActRefusal,
)
from retrier.domain.breakers import BreakerKey, BreakerState, Per, why_closed, why_waiting
from retrier.domain.comments import CommentRefusal, read_comment
from retrier.domain.copies import why_not_sendable
from retrier.domain.edits import (
    EditRefused,
)
from retrier.domain.fields import DeclaredField
from retrier.domain.recovery import Recovery, RecoveryRefusal
from retrier.domain.retry_operation import (
    AskedAgain,
    Cancel,
    Order,
    Pause,
    Resume,
    RetryRequest,
    SetRate,
    Steered,
    SteeringRefusal,
)
from retrier.domain.selection import Selection
from retrier.domain.streams import NotInStream, Released, Stream, UnknownStream
from retrier.domain.text import count_messages
from retrier.domain.values import dataclass
from retrier.domain.views import SavedView, View, ViewRefusal
from retrier.domain.wire import PropertyCodec
from retrier.edits import Edits
from retrier.events.event import Emit, Event, ignore
from retrier.events.processor import (
    ApprovalAsked,
    ApprovalDecided,
    BreakerSet,
    CancelAsked,
    OperationPaused,
    OperationResumed,
    RateChanged,
)
from retrier.events.service import RetryAsked, StreamReleased
from retrier.guard import Guard, without_others
from retrier.imports import FailedImports, recording
from retrier.store import operation_requests, redirects, streams
from retrier.store.approval_acts import decide_approval
from retrier.store.archive import acknowledge_archives, retry_pending
from retrier.store.breakers import HandedBreaker, set_breaker
from retrier.store.comments import delete_comment, write_comment
from retrier.store.dead_messages import revive
from retrier.store.engine.database import Database
from retrier.store.fields import ReadAnew, read_anew
from retrier.store.operation_requests import CreatedOperation, create_operation, steer_operation
from retrier.store.previews import Preview, TermsOf, preview, usual_terms
from retrier.store.recovery import begin_recovery, end_recovery
from retrier.store.selections import (
    CHUNK,
    check_frozen,
    count_matches,
    find_chunk,
    known_by_now,
    last_number,
    take_cut_off,
)
from retrier.store.views import delete_view, save_view
from retrier.tokens import Tokens


@dataclass(frozen=True, slots=True)
class Comments:
    """Takes requests about comments. A comment changes nothing of messages: nobody is woken."""

    db: Database
    emit: Emit
    guard: Guard

    @audited("write_comment")
    def write(self, group_id: str, written: str, who: str) -> CommentRefusal | None:
        """Comment on a group, in place of an earlier comment; return why not, or None."""
        self._must(group_id)
        text = read_comment(written)
        if isinstance(text, CommentRefusal):
            return text
        with recording(self.emit):
            return write_comment(self.db, group_id, text, who)

    @audited("delete_comment")
    def delete(self, group_id: str, who: str) -> CommentRefusal | None:
        """Delete the comment of a group; return why not, or None: also if it had no comment."""
        self._must(group_id)
        with recording(self.emit):
            return delete_comment(self.db, group_id, who)

    def _must(self, group_id: str) -> None:
        self.guard.must(Right.COMMENT)
        self.guard.must_own_some(Selection(group=group_id))


@dataclass(frozen=True, slots=True)
class Views:
    """Takes requests about saved views."""

    db: Database
    emit: Emit
    guard: Guard

    @audited("save_view")
    def save(self, view: View, who: str, version: int | None = None) -> SavedView | ViewRefusal:
        """Save a view, in place of that with this version if one is named; return it, or why not."""
        self.guard.must(Right.SAVE_VIEW)
        with recording(self.emit):
            return save_view(self.db, view, who, version)

    @audited("delete_view")
    def delete(self, name: str, who: str) -> bool:
        """Delete a view; say whether there was one."""
        self.guard.must(Right.SAVE_VIEW)
        with recording(self.emit):
            return delete_view(self.db, name, who)


_NO_NAME = "the name is empty"


class Gateway:
    """Takes requests, makes them durable, and wakes the processor.

    `own_queues` are the error queues and the staging queue: no redirect may lead to them.
    `imports` handles requests about failed imports, `archives` those to archive, unarchive, resolve.
    By the rules of `approval` large retries wait for a second person. `audit` keeps what somebody with
    rights asks for; without it nothing is kept. Every request may raise NotAllowed.
    """

    def __init__(
        self,
        db: Database,
        wake: Callable[[], None],
        own_queues: Container[str] = frozenset(),
        emit: Emit = ignore,
        *,
        imports: FailedImports,
        archives: Archives | None = None,
        audit: Audit | None = None,
        approval: ApprovalRules | None = None,
    ) -> None:
        self._db = db
        self._wake = wake
        self._own_queues = own_queues
        self._emit = emit
        self.imports = imports
        self.archives = archives or Archives(db, wake, emit, audit=audit)
        self._codec = imports.sender.codec
        self._approval = approval
        self.tokens_given: frozenset[str] | None = None
        """Names of tokens of the settings: no other token is called so. None: nobody is asked."""
        self.fields: Sequence[DeclaredField] = ()
        """The declared fields."""
        self.terms_of: TermsOf = usual_terms
        """How messages of an error queue are sent back; by it a preview tells what is too large."""
        self.guard = Guard(db, audit=audit)

    def of(self, access: Access) -> "Gateway":
        """Return the gateway of somebody with these rights."""
        bound = copy(self)
        bound.imports = self.imports.of(access)
        bound.archives = self.archives.of(access)
        bound.guard = self.guard.of(access)
        return bound

    @property
    def comments(self) -> Comments:
        """What handles requests about comments."""
        return Comments(self._db, self._emit, self.guard)

    @property
    def edits(self) -> Edits:
        """What handles edits of messages."""
        approval = self._approval_terms()
        return Edits(self._db, self._wake, self._emit, self._codec, self.guard, approval)

    @property
    def tokens(self) -> Tokens:
        """What handles requests about tokens."""
        return Tokens(self._db, self._emit, self.guard, self.tokens_given)

    @property
    def views(self) -> Views:
        """What handles requests about saved views."""
        return Views(self._db, self._emit, self.guard)

    @audited_if_refused("preview")
    def plan(self, request: RetryRequest, codec: PropertyCodec) -> Preview:
        """Count what a retry would do as things are; nothing is changed."""
        self._must_edit(request)
        selection, foreign = self.guard.narrow(request.selection)
        if request.terms.destination is not None:
            self.guard.must_own(request.terms.destination)
        narrowed = replace(request, selection=selection)
        found = preview(self._db, narrowed, take_cut_off(self._db), codec, self.terms_of)
        if self.guard.access.reads_own_only:
            # Who sees own queues only is not told how much there is of others: it could be searched.
            return replace(found, skipped=without_others(found.skipped))
        if not foreign:
            return found
        return replace(
            found,
            skipped={**found.skipped, NOT_YOURS: len(foreign)},
            reasons={**found.reasons, **dict.fromkeys(foreign, NOT_YOURS)},
        )

    @audited("retry")
    def retry(self, request: RetryRequest) -> CreatedOperation:
        """Create the operation, durable when this returns, then wake the processor.

        The same request under the same idempotency key gives the same operation again. A crash
        before the wake-up costs time, not the request. Raises KeyReused.
        """
        request, foreign = self._allowed(request, Right.RETRY)
        with recording(self._emit):
            created = create_operation(self._db, request)
        if foreign:
            skipped = {**created.skipped, **dict.fromkeys(foreign, NOT_YOURS)}
            created = replace(created, skipped=skipped)
        self._emit_asked(created)
        self._wake()
        return created

    def why_not_send_to(self, destination: str) -> str | None:
        """Return why no retry may be sent to this queue; None if it may."""
        return why_not_sendable(destination, self._own_queues) if destination else _NO_NAME

    @audited("retry_again")
    def retry_again(self, request: RetryRequest, selection: Selection | None = None) -> AskedAgain:
        """Retry pending retries again: those the request names, or those of a selection.

        For each 1000 of them one transaction releases their claims and creates an operation. With
        an idempotency key that is known, the first operation is returned and nothing is done.
        Raises KeyReused.
        """
        request, _ = self._allowed(request, Right.RETRY)
        if selection is not None:
            selection, _ = self.guard.narrow(selection)
        made: list[CreatedOperation] = []
        selection = None if selection is None else known_by_now(self._db, selection)
        if selection is not None and selection.words is not None:
            check_frozen(selection, count_matches(self._db, selection))
        request = self._of_whole(request, selection)
        for ids in self._chunks(request, selection):
            # Only the first operation gets the key: its column is unique.
            key = request.idempotency_key if not made else None
            keyed = replace(request, idempotency_key=key)
            with recording(self._emit):
                again = retry_pending(self._db, keyed, ids, selection)
            if again.created is not None:
                self._emit_asked(again.created)
                made.append(again.created)
            if made and made[-1].repeated:
                break
        self._wake()
        return AskedAgain(
            operation_ids=tuple(each.operation_id for each in made),
            total=sum(each.total for each in made),
            is_asking=any(each.is_asking for each in made),
        )

    @audited("revive")
    def revive(self, request: RetryRequest, unique_id: str) -> CreatedOperation | ActRefusal:
        """Create the operation that retries one dead message; or return why it is not retried.

        Raises KeyReused.
        """
        request, _ = self._allowed(request, Right.REVIVE)
        self.guard.must_own_message(unique_id)
        with recording(self._emit):
            created = revive(self._db, request, unique_id)
        if isinstance(created, ActRefusal):
            return created
        self._wake()
        self._emit_asked(created)
        return created

    @audited("decide_approval")
    def decide(
        self, operation_id: str, verdict: Verdict, who: str, plan_hash: str | None = None
    ) -> Decided | ApprovalRefusal | EditRefused:
        """Approve what another person asked for, or refuse it; then wake the processor.

        `plan_hash` is that of what was seen. The same verdict again changes nothing.
        """
        self.guard.must(Right.APPROVE)
        self.guard.must_own_operation(operation_id)
        access = self.guard.access
        decider = Decider(
            identity=access.identity,
            shown=who,
            plan_hash=plan_hash,
            may_edit=access.may(Right.EDIT),
        )
        with recording(self._emit):
            decided = decide_approval(self._db, operation_id, verdict, decider)
        if isinstance(decided, Decided) and decided.changed:
            self._emit(ApprovalDecided(operation_id=decided.operation_id, verdict=str(verdict)))
            self._wake()
        return decided

    @audited("acknowledge_group")
    def acknowledge_group(self, group_id: str, who: str) -> bool:
        """Note that a person has seen that the retries and archives of a group are over.

        False if there was nothing to see.
        """
        self.guard.must(Right.ACKNOWLEDGE)
        self.guard.must_own_some(Selection(group=group_id))
        with recording(self._emit):
            seen = operation_requests.acknowledge_group(self._db, group_id, who)
        with recording(self._emit):
            archived = acknowledge_archives(self._db, group_id, who)
        return seen or archived > 0

    @audited("acknowledge_operation")
    def acknowledge_operation(self, operation_id: str, who: str) -> bool:
        """Note that a person has seen that a retry is over, and earlier ones that asked for the same.

        False if there was nothing to see.
        """
        self.guard.must(Right.ACKNOWLEDGE)
        self.guard.must_own_operation(operation_id)
        with recording(self._emit):
            return operation_requests.acknowledge_operation(self._db, operation_id, who)

    @audited("steer")
    def steer(
        self, operation_id: str, orders: Sequence[Order], who: str
    ) -> Steered | SteeringRefusal:
        """Pause, resume or cancel an operation, or set its rate; then wake the processor.

        An order that is carried out already changes nothing.
        """
        self.guard.must(Right.STEER)
        self.guard.must_own_operation(operation_id)
        with recording(self._emit):
            steered = steer_operation(self._db, operation_id, orders, who)
        if isinstance(steered, Steered) and steered.changed:
            for order in orders:
                self._emit(_event_of(order, steered.operation_id))
            self._wake()
        return steered

    @audited("release_stream")
    def release_stream(
        self,
        stream: Stream,
        ids: Sequence[str] | None,
        who: str,
        counted: Sequence[int] | None = None,
    ) -> Released | UnknownStream | NotInStream:
        """Let go of what is held in a stream, all of it or these; then wake the processor.

        With `counted`, failure numbers of a plan, only of what has one of these.
        """
        self.guard.must(Right.RELEASE)
        self.guard.must_own(stream.queue)
        with recording(self._emit):
            done = streams.release_stream(self._db, stream, ids, who, counted)
        if isinstance(done, Released) and done.ids:
            where = {"queue": stream.queue, "stream_id": stream.stream_id}
            self._emit(StreamReleased(**where, count=len(done.ids)))
            self._wake()
        return done

    @audited("set_breaker")
    def set_breaker(
        self,
        key: BreakerKey,
        state: BreakerState,
        lasts: timedelta | None,
        who: str,
        why: str | None,
    ) -> HandedBreaker:
        """Open or close a breaker by hand, then wake the processor."""
        self.guard.must(Right.SET_BREAKER)
        self._must_own_breaker(key)
        with recording(self._emit):
            done = set_breaker(self._db, key, state, lasts=lasts, who=who, why=why)
        words = why_waiting(done.breaker, done.at) or why_closed(done.breaker, f"{who} says so")
        self._emit(BreakerSet(breaker=str(key), words=words))
        self._wake()
        return done

    @audited("begin_recovery")
    def begin_recovery(self, since: datetime, who: str) -> Recovery | RecoveryRefusal:
        """Begin a recovery after a restore: nothing is presumed."""
        self.guard.must(Right.RECOVER)
        self.guard.must_own_all()
        with recording(self._emit):
            return begin_recovery(self._db, since, who)

    @audited("end_recovery")
    def end_recovery(self, who: str) -> bool:
        """End the recovery; False if none is under way."""
        self.guard.must(Right.RECOVER)
        self.guard.must_own_all()
        with recording(self._emit):
            return end_recovery(self._db, who)

    @audited("read_fields_anew")
    def read_fields_anew(self, after: int) -> ReadAnew:
        """Read the declared fields of the next stored messages behind a number."""
        self.guard.must(Right.CONFIGURE)
        self.guard.must_own_all()
        with recording(self._emit):
            return read_anew(self._db, after, self.fields, self._codec)

    @audited("create_redirect", says_why_not=True)
    def create_redirect(self, from_queue: str, to_queue: str, who: str) -> str | None:
        """Create a redirect; return None, or why it is refused."""
        self.guard.must(Right.REDIRECT)
        self.guard.must_own(from_queue, to_queue)
        with recording(self._emit):
            return redirects.create_redirect(
                self._db, from_queue, to_queue, own_queues=self._own_queues, who=who
            )

    @audited("change_redirect", says_why_not=True)
    def change_redirect(self, redirect_id: str, to_queue: str, who: str) -> str | None:
        """Change where a redirect leads; None, or why it is refused."""
        self._must_own_redirect(redirect_id)
        self.guard.must_own(to_queue)
        with recording(self._emit):
            return redirects.change_redirect(
                self._db, redirect_id, to_queue, own_queues=self._own_queues, who=who
            )

    @audited("delete_redirect")
    def delete_redirect(self, redirect_id: str, who: str) -> None:
        """Delete a redirect if it exists."""
        self._must_own_redirect(redirect_id)
        with recording(self._emit):
            redirects.delete_redirect(self._db, redirect_id, who=who)

    def _allowed(self, request: RetryRequest, right: Right) -> tuple[RetryRequest, Sequence[str]]:
        """Return what of a request is allowed, and the ids of messages that are left out of it."""
        self.guard.must(right)
        self._must_edit(request)
        if request.terms.destination is not None:
            self.guard.must_own(request.terms.destination)
        selection, foreign = self.guard.narrow(request.selection)
        return replace(request, selection=selection, approval=self._approval_terms()), foreign

    def _must_edit(self, request: RetryRequest) -> None:
        """A patch edits what it is applied to; a preview of one shows bodies."""
        if request.terms.patch is not None:
            self.guard.must(Right.EDIT)

    def _approval_terms(self) -> ApprovalTerms | None:
        if self._approval is None:
            return None
        return ApprovalTerms(rules=self._approval, asked_as=self.guard.access.identity)

    def _of_whole(self, request: RetryRequest, selection: Selection | None) -> RetryRequest:
        """Let each part of a request wait for approval if all of it together has to."""
        terms = request.approval
        if terms is None:
            return request
        ids = request.selection.ids or ()
        whole = len({*ids}) if selection is None else count_matches(self._db, selection)
        of_all = selection is not None and is_of_all(selection)
        return replace(request, approval=replace(terms, whole=whole, of_all=of_all))

    def _must_own_breaker(self, key: BreakerKey) -> None:
        if key.per is Per.DESTINATION:
            self.guard.must_own(key.name)
        else:
            self.guard.must_own_all()

    def _must_own_redirect(self, redirect_id: str) -> None:
        self.guard.must(Right.REDIRECT)
        for each in redirects.list_redirects(self._db):
            if each.redirect_id == redirect_id:
                self.guard.must_own(each.from_queue, each.to_queue)

    def _emit_asked(self, created: CreatedOperation) -> None:
        if not created.repeated:
            self._emit(RetryAsked(operation_id=created.operation_id, total=created.total))
            if created.is_asking:
                self._emit(ApprovalAsked(operation_id=created.operation_id, total=created.total))

    def _chunks(
        self, request: RetryRequest, selection: Selection | None
    ) -> Iterator[Sequence[str]]:
        if selection is None:
            return _cut(request.selection.ids or ())
        # The empty chunk at the end looks up the key even if no pending retry is left to release.
        return chain(self._find_chunks(selection), [()])

    def _find_chunks(self, selection: Selection) -> Iterator[Sequence[str]]:
        """Walk what exists now; new failures are left out, or the walk might never end."""
        bounded = replace(selection, up_to=last_number(self._db))
        after = 0
        while chunk := find_chunk(self._db, bounded, after):
            yield chunk.unique_ids
            after = chunk.last


def _cut(unique_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Cut a list into chunks, each id once; an empty list is one empty chunk."""
    ids = tuple(dict.fromkeys(unique_ids))
    return (ids[start : start + CHUNK] for start in range(0, max(1, len(ids)), CHUNK))


def _event_of(order: Order, operation_id: str) -> Event:
    """Return the event of an order that was carried out."""
    match order:
        case Pause():
            return OperationPaused(operation_id=operation_id)
        case Resume():
            return OperationResumed(operation_id=operation_id)
        case Cancel():
            return CancelAsked(operation_id=operation_id)
        case SetRate(rate):
            told = (
                "as fast as possible"
                if rate is None
                else f"{count_messages(rate)} a second at most"
            )
            return RateChanged(operation_id=operation_id, rate=told)
        case _ as never:
            assert_never(never)

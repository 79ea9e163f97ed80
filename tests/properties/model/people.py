"""People: retries, message actions and redirects, each through the gateway as the API does it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar
from uuid import uuid4

from retrier.domain.archive_operation import Act, ActRefusal
from retrier.domain.breakers import BreakerKey, BreakerState, Per
from retrier.domain.edits import AskedEdit, Changes, EditRequest
from retrier.domain.failed_message import FailedMessageStatus, Resolution
from retrier.domain.patches import write_patch
from retrier.domain.redirects import redirect_id
from retrier.domain.retention import OldMessages
from retrier.domain.retry_operation import (
    STANDING_OPERATION,
    Cancel,
    Order,
    Resume,
    RetryRequest,
    RetryTerms,
    RetryType,
    Steered,
)
from retrier.domain.selection import Selection, WantedDisposition
from retrier.domain.streams import Released, Stream
from retrier.errors import DatabaseUnavailable, LeaseLost
from retrier.store.retention import delete_chunk
from tests.properties.model.account import PATCH, PENDING, UNRESOLVED, Account, Message
from tests.properties.model.look import look
from tests.properties.model.streams import Place, held
from tests.properties.model.world import World
from tests.support.archiving import request_for

T = TypeVar("T")
WHO = "ada"
AS_IT_IS = RetryTerms()
ORDERS = BreakerKey(per=Per.DESTINATION, name="orders")
AT_ONCE = timedelta(days=-1)
"""However lately it was settled."""
OLD = [
    (OldMessages(status=status, resolution=how, age=AT_ONCE), how is Resolution.CONFIRMED)
    for status, how in (
        (FailedMessageStatus.RESOLVED, Resolution.CONFIRMED),
        (FailedMessageStatus.RESOLVED, Resolution.BY_HAND),
        (FailedMessageStatus.ARCHIVED, None),
    )
]


class People:
    """Everybody who asks for something; whoever gets no answer asks again with the same key."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._edits = 0

    @property
    def _account(self) -> Account:
        return self._world.account

    def retry_ids(self, ids: Sequence[str]) -> bool:
        """Ask for the retry of some messages; say whether one of them may be retried."""
        one = len(set(ids)) == 1
        kind = RetryType.SINGLE_MESSAGE if one else RetryType.MULTIPLE_MESSAGES
        return self._retry(kind, Selection(ids=tuple(ids)), set(ids))

    def retry_patched(self, ids: Sequence[str]) -> bool:
        """Ask for the retry of some messages as others; say whether one of them may be retried."""
        kind, terms = RetryType.MULTIPLE_MESSAGES, RetryTerms(patch=write_patch(PATCH))
        return self._retry(kind, Selection(ids=tuple(ids)), set(ids), terms)

    def set_breaker(self, state: BreakerState) -> bool:
        """Open the breaker of `orders` for an hour, or close it."""
        lasts = timedelta(hours=1) if state is BreakerState.OPEN else None
        gateway = self._world.gateway
        self._insist(lambda: gateway.set_breaker(ORDERS, state, lasts, WHO, None))
        return True

    def release(self, which: int) -> bool:
        """Let go of what is held in one stream; say whether there was anything."""
        streams = self._streams()
        return bool(streams) and self._release(streams[which % len(streams)])

    def release_all(self) -> None:
        """Let go of what is held in all streams."""
        for stream in self._streams():
            self._release(stream)

    def _release(self, stream: Place) -> bool:
        done: list[str] = []
        first: list[str] = []

        def follow() -> None:
            done[:] = self._account.release(stream)
            first.extend(done)

        self._world.acting = follow
        released = self._insist(
            lambda: self._world.gateway.release_stream(Stream(*stream), None, WHO)
        )
        found = list(released.ids) if isinstance(released, Released) else None
        if found != done:
            self._world.findings.append(f"released of {stream}: {found} and not {done}")
        return bool(first)

    def _streams(self) -> list[Place]:
        return sorted(
            {each.stream for _, each in self._account.all() if each.stream and _is_open(each)}
        )

    def steer(self, which: int, order: Order) -> bool:
        """Pause, resume or cancel one of all operations; say whether that changed it."""
        made = [STANDING_OPERATION, *self._world.requests.made]
        return self.steer_one(made[-1 - which % len(made)], order)

    def steer_one(self, operation_id: str, order: Order) -> bool:
        """Do so with this one."""
        requests = self._world.requests
        gateway = self._world.gateway
        steered = self._insist(lambda: gateway.steer(operation_id, [order], WHO))
        if isinstance(order, Cancel) and isinstance(steered, Steered):
            requests.cancelled.add(operation_id)
        return isinstance(steered, Steered) and steered.changed

    def resume_all(self) -> None:
        """Let every operation go on that somebody has paused."""
        for operation_id in (STANDING_OPERATION, *self._world.requests.made):
            self._world.gateway.steer(operation_id, [Resume()], WHO)

    def retry_all(
        self, queue: str | None = None, limit: int | None = None, *, dead: bool = False
    ) -> bool:
        """Ask for the retry of everything unresolved, of one queue, or of the first ones.

        What is dead is left out unless it is asked for.
        """
        found = [
            (key, each)
            for key, each in self._account.all()
            if each.status == UNRESOLVED and queue in (None, each.queue)
        ]
        kind = RetryType.ALL if queue is None else RetryType.BY_QUEUE_ADDRESS
        selection = Selection(queue=queue, disposition=WantedDisposition.ANY if dead else None)
        return self._retry_matching(kind, selection, found, limit)

    def retry_group(self, which: int) -> bool:
        """Ask for the retry of one group."""
        group = self._group(which)
        found = [
            (key, each)
            for key, each in self._account.all()
            if each.status == UNRESOLVED and group in each.groups
        ]
        return self._retry_matching(RetryType.FAILURE_GROUP, Selection(group=group), found)

    def revive(self, key: str) -> bool:
        """Ask for the retry of a dead message; say whether it is one."""
        request = self._request(RetryType.SINGLE_MESSAGE, Selection(ids=(key,)))
        refused: list[bool] = []
        self._world.acting = lambda: refused.append(self._account.why_not("revive", key))
        at = self._account.now
        asked = self._insist(lambda: self._world.gateway.revive(request, key))
        if isinstance(asked, ActRefusal):
            self._expect("revived", 0, int(not refused[-1]))
            return False
        # The first transaction made the operation; a later one found it under its key.
        self._expect("revived", 1, int(not refused[0]))
        self._world.requests.add(asked.operation_id, {key}, at, named=True)
        return True

    def declare_dead(self, key: str) -> bool:
        """Declare a message dead; say whether it was not."""
        done: list[str] = []
        self._world.acting = lambda: done.extend(self._account.act("declare dead", [key]))
        try:
            refusal = self._world.gateway.archives.declare_dead(key, "hopeless", WHO)
        except DatabaseUnavailable:
            return bool(done)
        self._expect("declared dead", int(refusal is None), len(done))
        return bool(done)

    def edit(self, key: str) -> bool:
        """Send something else instead of a message; say whether that was taken."""
        self._edits += 1
        body = b"edited %d" % self._edits
        taken: list[str] = []

        def follow() -> None:
            claim = look(self._world.flaky).get(key)
            if self._account.why_not("edit", key) or key in held(self._account.messages):
                return
            if claim is not None and claim.claim is not None:
                # Nobody can know which retry id it gets.
                self._account.edit(key, claim.claim, body)
                at, operation_id = self._account.now, claim.claim.operation_id
                self._world.requests.add(operation_id, {key}, at, named=True)
                self._world.requests.claimed[operation_id] = {key}
            taken.append(key)

        self._world.acting = follow
        changes = Changes(text=body.decode())
        request = EditRequest(unique_message_id=key, changes=changes, who=WHO)
        try:
            asked = self._world.gateway.edits.ask(request)
        except DatabaseUnavailable:
            return bool(taken)
        self._expect("edited", int(isinstance(asked, AskedEdit)), len(taken))
        return bool(taken)

    def retry_again(self, ids: Sequence[str], queue: str | None = None) -> bool:
        """Ask for another retry of pending ones: those named, or those of a queue."""
        selection = None
        if queue is not None:
            selection = _pending_of(queue)
            ids = self._pending(queue)
        kind = RetryType.MULTIPLE_MESSAGES
        request = self._request(kind, Selection(ids=tuple(ids) if selection is None else ()))
        released: list[str] = []
        self._world.acting = lambda: released.extend(self._account.act("release", ids))
        asked = self._insist(lambda: self._world.gateway.retry_again(request, selection))
        wanted = set(ids) if selection is None else set(released)
        for operation_id in asked.operation_ids:
            self._world.requests.add(operation_id, wanted, self._account.now, named=True)
        self._expect("messages to retry again", asked.total, len(wanted))
        return bool(released)

    def act(self, act: Act, ids: Sequence[str]) -> bool:
        """Archive, unarchive or resolve some messages; say whether any changed."""
        return self._act(act, ids, lambda: self._ask(act, Selection(ids=tuple(ids))))

    def act_on_group(self, act: Act, which: int) -> bool:
        """Do it to a whole group."""
        sources = {
            Act.ARCHIVE: FailedMessageStatus.UNRESOLVED,
            Act.UNARCHIVE: FailedMessageStatus.ARCHIVED,
            Act.RESOLVE: FailedMessageStatus.UNRESOLVED,
        }
        source, group = sources[act], self._group(which)
        ids = [k for k, m in self._account.all() if m.status == source and group in m.groups]
        return self._act(act, ids, lambda: self._ask(act, Selection(group=group)))

    def act_on_many(self, act: Act, which: int) -> bool:
        """Ask for the same, to be worked off chunk by chunk."""
        # Of nothing, it is done at once, and changes nothing.
        self._world.acting = lambda: None
        return self._world.many.ask(act, self._group(which))

    def undo(self, which: int) -> bool:
        """Take back what one of these acts archived."""
        self._world.acting = lambda: None
        return self._world.many.undo(which)

    def resolve_pending(self, queue: str) -> bool:
        """Resolve the pending retries of a queue by hand."""
        ids = self._pending(queue)
        selection = _pending_of(queue)
        return self._act(Act.RESOLVE, ids, lambda: self._ask(Act.RESOLVE, selection))

    def delete_old(self, which: int) -> bool:
        """Delete what is settled in one of the ways, as retention does; say whether any is gone."""
        old, confirmed = OLD[which % len(OLD)]
        gone: list[str] = []
        account, lease = self._account, self._world.bench.context.lease
        self._world.acting = lambda: gone.extend(account.delete(old.status, confirmed=confirmed))
        try:
            deleted = delete_chunk(self._world.flaky, lease.fence, old, "test")
        except (DatabaseUnavailable, LeaseLost):
            return bool(gone)
        self._expect("messages deleted", deleted.count, len(gone))
        return bool(gone)

    def redirect(self, source: str, target: str) -> bool:
        """Create a redirect, or let it lead elsewhere; say whether it is there."""
        gateway = self._world.gateway
        if gateway.create_redirect(source, target, WHO) is None:
            return True
        return gateway.change_redirect(redirect_id(source), target, WHO) is None

    def delete_redirect(self, source: str) -> None:
        """Delete a redirect."""
        self._world.gateway.delete_redirect(redirect_id(source), WHO)

    def _retry_matching(
        self,
        kind: RetryType,
        selection: Selection,
        found: Sequence[tuple[str, Message]],
        limit: int | None = None,
    ) -> bool:
        """Ask for the retry of these: of all that match, or of all but the dead ones."""
        with_dead = selection.disposition is not None
        wanted = {key for key, each in found if with_dead or not each.dead}
        terms = RetryTerms(limit=limit)
        return self._retry(kind, selection, wanted, terms, len(found) - len(wanted))

    def _retry(
        self,
        kind: RetryType,
        selection: Selection,
        wanted: set[str],
        terms: RetryTerms = AS_IT_IS,
        dead: int = 0,
    ) -> bool:
        at, limit = self._account.now, terms.limit
        request = replace(self._request(kind, selection), terms=terms)
        created = self._insist(lambda: self._world.gateway.retry(request))
        how = {"limited": limit is not None, "named": selection.ids is not None}
        self._world.requests.add(created.operation_id, wanted, at, **how)
        if terms.patch is not None:
            self._account.patching.add(created.operation_id)
        self._expect("messages asked for", created.total, min(len(wanted), limit or len(wanted)))
        self._expect("dead ones left out", created.dead_left_out, dead)
        found = (self._account.messages.get(key) for key in wanted)
        return any(each and each.status == UNRESOLVED and not each.claim for each in found)

    def _act(self, act: Act, ids: Sequence[str], do: Callable[[], int]) -> bool:
        done: list[str] = []

        def follow() -> None:
            done[:] = [*done, *self._account.act(act, ids)]

        self._world.acting = follow
        try:
            number = do()
        except DatabaseUnavailable:
            return bool(done)
        self._expect(f"messages changed by {act}", number, len(done))
        return bool(done)

    def _ask(self, act: Act, selection: Selection) -> int:
        """Ask for an act; return how many it has changed, none yet if it goes behind another."""
        request = request_for(act, selection, who=WHO)
        return self._world.gateway.archives.ask(request).operation.done

    def _insist(self, ask: Callable[[], T]) -> T:
        """Ask, and again if nobody answers; the key says that it is the same request."""
        while True:
            try:
                return ask()
            except DatabaseUnavailable:
                continue

    def _expect(self, what: str, found: int, expected: int) -> None:
        if found != expected:
            self._world.findings.append(f"{what}: {found} and not {expected}")

    def _pending(self, queue: str) -> list[str]:
        return [
            key
            for key, each in self._account.all()
            if each.queue == queue and each.claim and each.claim.recorded
        ]

    def _group(self, which: int) -> str:
        groups = sorted({group for _, each in self._account.all() for group in each.groups})
        return groups[which % len(groups)] if groups else "none"

    def _request(self, kind: RetryType, selection: Selection) -> RetryRequest:
        return RetryRequest(
            retry_type=kind,
            selection=selection,
            originator="the model",
            requested_by=WHO,
            idempotency_key=str(uuid4()),
        )


def _is_open(message: Message) -> bool:
    return message.status in PENDING


def _pending_of(queue: str) -> Selection:
    statuses = frozenset({FailedMessageStatus.RETRY_ISSUED})
    return Selection(queue=queue, statuses=statuses, pending=True)

"""People: retries, message actions and redirects, each through the gateway as the API does it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar
from uuid import uuid4

from retrier.domain.failed_message import FailedMessageStatus, Resolution
from retrier.domain.message_actions import Act
from retrier.domain.redirects import redirect_id
from retrier.domain.retention import OldMessages
from retrier.domain.retry_operation import RetryRequest, RetryTerms, RetryType
from retrier.domain.selection import Selection
from retrier.domain.steering import Cancel, Order, Resume, Steered
from retrier.errors import DatabaseUnavailable, LeaseLost
from retrier.store.verbs.retention import delete_chunk
from tests.properties.model.account import UNRESOLVED, Account
from tests.properties.model.world import World

T = TypeVar("T")
WHO = "ada"
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

    @property
    def _account(self) -> Account:
        return self._world.account

    def retry_ids(self, ids: Sequence[str]) -> bool:
        """Ask for the retry of some messages; say whether one of them may be retried."""
        one = len(set(ids)) == 1
        kind = RetryType.SINGLE_MESSAGE if one else RetryType.MULTIPLE_MESSAGES
        return self._retry(kind, Selection(ids=tuple(ids)), set(ids))

    def steer(self, which: int, order: Order) -> bool:
        """Pause, resume or cancel one of all operations; say whether that changed it."""
        requests = self._world.requests
        made = list(requests.made)
        if not made:
            return False
        operation_id = made[-1 - which % len(made)]
        gateway = self._world.gateway
        steered = self._insist(lambda: gateway.steer(operation_id, [order], WHO))
        if isinstance(order, Cancel) and isinstance(steered, Steered):
            requests.cancelled.add(operation_id)
        return isinstance(steered, Steered) and steered.changed

    def resume_all(self) -> None:
        """Let every operation go on that somebody has paused."""
        for operation_id in self._world.requests.made:
            self._world.gateway.steer(operation_id, [Resume()], WHO)

    def retry_all(self, queue: str | None = None, limit: int | None = None) -> bool:
        """Ask for the retry of everything unresolved, of one queue, or of the first ones."""
        wanted = {
            key
            for key, each in self._account.all()
            if each.status == UNRESOLVED and queue in (None, each.queue)
        }
        kind = RetryType.ALL if queue is None else RetryType.BY_QUEUE_ADDRESS
        return self._retry(kind, Selection(queue=queue), wanted, limit)

    def retry_group(self, which: int) -> bool:
        """Ask for the retry of one group."""
        group = self._group(which)
        wanted = {
            key
            for key, each in self._account.all()
            if each.status == UNRESOLVED and group in each.groups
        }
        return self._retry(RetryType.FAILURE_GROUP, Selection(group=group), wanted)

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
            self._world.requests.add(operation_id, wanted, self._account.now)
        self._expect("messages to retry again", asked.total, len(wanted))
        return bool(released)

    def act(self, act: Act, ids: Sequence[str]) -> bool:
        """Archive, unarchive or resolve some messages; say whether any changed."""
        return self._act(act, ids, lambda: self._world.gateway.act(act, ids, WHO).done)

    def act_on_group(self, act: Act, which: int) -> bool:
        """Do it to a whole group."""
        sources = {
            Act.ARCHIVE: FailedMessageStatus.UNRESOLVED,
            Act.UNARCHIVE: FailedMessageStatus.ARCHIVED,
            Act.RESOLVE: FailedMessageStatus.UNRESOLVED,
        }
        source, group = sources[act], self._group(which)
        ids = [k for k, m in self._account.all() if m.status == source and group in m.groups]
        selection = Selection(group=group, statuses=frozenset({source}))
        return self._act(act, ids, lambda: self._world.gateway.act_on(act, selection, WHO).done)

    def resolve_pending(self, queue: str) -> bool:
        """Resolve the pending retries of a queue by hand."""
        ids = self._pending(queue)
        selection = _pending_of(queue)
        gateway = self._world.gateway
        return self._act(Act.RESOLVE, ids, lambda: gateway.act_on(Act.RESOLVE, selection, WHO).done)

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

    def _retry(
        self, kind: RetryType, selection: Selection, wanted: set[str], limit: int | None = None
    ) -> bool:
        at = self._account.now
        request = replace(self._request(kind, selection), terms=RetryTerms(limit=limit))
        created = self._insist(lambda: self._world.gateway.retry(request))
        self._world.requests.add(created.operation_id, wanted, at, limited=limit is not None)
        self._expect("messages asked for", created.total, min(len(wanted), limit or len(wanted)))
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


def _pending_of(queue: str) -> Selection:
    statuses = frozenset({FailedMessageStatus.RETRY_ISSUED})
    return Selection(queue=queue, statuses=statuses, pending=True)

"""The gateway: the single door for whatever a person asks for, whoever asks."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TypeVar

from retrier.domain.message_actions import Act, Refusal
from retrier.domain.retry_operation import RetryRequest
from retrier.domain.selection import Selection
from retrier.events.event import Emit, ignore
from retrier.events.service import RequestReceived, RequestRecorded, RetryAsked
from retrier.imports import FailedImports
from retrier.store.engine.database import Database
from retrier.store.queries.selections import CHUNK, find_chunk, last_number
from retrier.store.verbs import redirects
from retrier.store.verbs.message_actions import Action, ActionResult, apply_action, retry_pending
from retrier.store.verbs.operations import CreatedOperation, create_operation

Done = TypeVar("Done")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How many messages an act changed, and how many it left as they were, by reason."""

    done: int
    refused: Mapping[Refusal, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedAgain:
    """The operations that retry pending retries again, and how many messages they have."""

    operation_ids: tuple[str, ...]
    total: int


class Gateway:
    """Takes requests, makes them durable, and wakes the processor.

    A request about many messages is done in transactions of at most 1000. A crash between two of
    them leaves the rest as it was; the same request again does the rest. `own_queues` are the
    error queues and the staging queue: no redirect may lead there. `imports` does what is asked for
    failed imports.
    """

    def __init__(
        self,
        db: Database,
        wake: Callable[[], None],
        own_queues: frozenset[str] = frozenset(),
        emit: Emit = ignore,
        *,
        imports: FailedImports,
    ) -> None:
        self._db = db
        self._wake = wake
        self._own_queues = own_queues
        self._emit = emit
        self.imports = imports

    def retry(self, request: RetryRequest) -> CreatedOperation:
        """Create the operation, durable when this returns, then wake the processor.

        The same request under the same idempotency key gives the same operation again. A crash
        before the wake-up costs time, not the request. Raises KeyReused, DatabaseUnavailable.
        """
        created = self._tell_asked(self._record(partial(create_operation, self._db, request)))
        self._wake()
        return created

    def retry_again(self, request: RetryRequest, selection: Selection | None = None) -> AskedAgain:
        """Retry pending retries again: those the request names, or those of a selection.

        Each thousand of them is an operation of its own, which the release of their claims
        creates. An idempotency key that is known gives the first one and does nothing more.
        Raises KeyReused, DatabaseUnavailable.
        """
        made: list[CreatedOperation] = []
        for ids in self._chunks(request, selection):
            # The key is the first one's: a column that is unique cannot hold it twice.
            key = request.idempotency_key if not made else None
            keyed = replace(request, idempotency_key=key)
            again = self._record(partial(retry_pending, self._db, keyed, ids, selection))
            if again.created is not None:
                made.append(self._tell_asked(again.created))
            if made and made[-1].repeated:
                break
        self._wake()
        return AskedAgain(
            operation_ids=tuple(each.operation_id for each in made),
            total=sum(each.total for each in made),
        )

    def act(self, act: Act, unique_ids: Sequence[str], who: str) -> Outcome:
        """Archive, unarchive or resolve the messages that are named. Raises DatabaseUnavailable."""
        action = Action(act=act, who=who)
        return _sum_up(self._apply(action, ids) for ids in _cut(unique_ids))

    def act_on(self, act: Act, selection: Selection, who: str) -> Outcome:
        """Archive, unarchive or resolve what is like this by now. Raises DatabaseUnavailable."""
        action = Action(act=act, who=who, selection=selection)
        return _sum_up(self._apply(action, ids) for ids in self._find_chunks(selection))

    def create_redirect(self, from_queue: str, to_queue: str, who: str) -> str | None:
        """Create a redirect; None, or why it may not be. Raises DatabaseUnavailable."""
        create = partial(redirects.create_redirect, own_queues=self._own_queues, who=who)
        return self._record(partial(create, self._db, from_queue, to_queue))

    def change_redirect(self, redirect_id: str, to_queue: str, who: str) -> str | None:
        """Let a redirect lead elsewhere; None, or why it may not. Raises DatabaseUnavailable."""
        change = partial(redirects.change_redirect, own_queues=self._own_queues, who=who)
        return self._record(partial(change, self._db, redirect_id, to_queue))

    def delete_redirect(self, redirect_id: str, who: str) -> None:
        """Delete a redirect if it is there. Raises DatabaseUnavailable."""
        self._record(partial(redirects.delete_redirect, self._db, redirect_id, who=who))

    def _apply(self, action: Action, ids: Sequence[str]) -> ActionResult:
        return self._record(partial(apply_action, self._db, action, ids))

    def _record(self, transact: Callable[[], Done]) -> Done:
        self._emit(RequestReceived())
        done = transact()
        self._emit(RequestRecorded())
        return done

    def _tell_asked(self, created: CreatedOperation) -> CreatedOperation:
        if not created.repeated:
            self._emit(RetryAsked(operation_id=created.operation_id, total=created.total))
        return created

    def _chunks(
        self, request: RetryRequest, selection: Selection | None
    ) -> Iterator[Sequence[str]]:
        if selection is None:
            return _cut(request.selection.ids or ())
        # An empty one at the end: when all are released already, the key is still looked up.
        return chain(self._find_chunks(selection), [()])

    def _find_chunks(self, selection: Selection) -> Iterator[Sequence[str]]:
        """Walk what is there now, not what comes meanwhile: chunks end even if failures do not."""
        bounded = replace(selection, up_to=last_number(self._db))
        after = 0
        while chunk := find_chunk(self._db, bounded, after):
            yield chunk.unique_ids
            after = chunk.last


def _cut(unique_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Cut a list into chunks, each id once; an empty list is one empty chunk."""
    ids = tuple(dict.fromkeys(unique_ids))
    return (ids[start : start + CHUNK] for start in range(0, max(1, len(ids)), CHUNK))


def _sum_up(chunks: Iterator[ActionResult]) -> Outcome:
    done = 0
    refused: Counter[Refusal] = Counter()
    for acted in chunks:
        done += len(acted.done)
        refused.update(acted.refused.values())
    return Outcome(done=done, refused=refused)

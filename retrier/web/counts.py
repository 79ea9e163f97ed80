"""The counts of the page, kept in memory: a page of a million messages must not count them itself.

A job of the service calls `tick` every second. It decides by what the last count cost whether it
counts again: at most a tenth of a thread is spent, however many messages there are.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from retrier.clock import Clock
from retrier.domain.retry_operation import RetryOperation
from retrier.errors import DatabaseUnavailable, RetrierError
from retrier.store.engine.database import Database
from retrier.store.queries.breaker_waits import show_breakers
from retrier.store.queries.event_log import find_newest_event
from retrier.store.queries.history import read_history
from retrier.store.queries.operation_outcomes import count_outcomes
from retrier.store.queries.operations import find_operation
from retrier.store.queries.page_counts import (
    CauseCount,
    CauseFacts,
    count_others,
    count_unresolved,
    find_cause_facts,
)
from retrier.store.queries.processor_work import ProcessorState, find_processor
from retrier.web.message_watch import MessageWatch
from retrier.web.pace import LEAST, WATCHED_FOR, Pace
from retrier.web.series import Series
from retrier.web.snapshot import (
    Snapshot,
    add_causes,
    count_groups,
    count_queues,
    newest,
    operations_of,
)
from retrier.web.watches import ArchiveWatch, StreamWatch

QUICK = 0.1
"""Seconds: a count that takes no longer is made when a page asks for it."""
_FACTS_AT_ONCE = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why the counts are not renewed, and since when, by our own clock."""

    reason: str
    since: float


class Counts:
    """Counts, and hands each snapshot to `publish`. Any thread may read."""

    def __init__(
        self, db: Database, clock: Clock, publish: Callable[[Snapshot, Trouble | None], str]
    ) -> None:
        self._db = db
        self._clock = clock
        self._publish = publish
        self._series = Series(db)
        self._archives = ArchiveWatch(db)
        self._messages = MessageWatch(db, clock)
        self._streams = StreamWatch(db)
        self._facts: dict[int, CauseFacts] = {}
        self._snapshot: Snapshot | None = None
        self._trouble: Trouble | None = None
        self._whole = Pace()
        self._news = Pace()
        self._looked_at = clock.monotonic() - WATCHED_FOR
        self._changed = False
        self._counting = threading.Lock()
        self._before: Callable[[], object] | None = None

    @property
    def trouble(self) -> Trouble | None:
        """Why the counts are old, if they could not be renewed."""
        return self._trouble

    @property
    def last(self) -> Snapshot | None:
        """The last snapshot; None before the first. Nobody needs the database for it."""
        return self._snapshot

    def look(self) -> Snapshot:
        """Return the snapshot that a person sees; where counting is quick, it is made now.

        Raises DatabaseUnavailable if there is none yet.
        """
        self.note_reader()
        if self._is_to_be_made():
            with self._counting:
                if self._is_to_be_made():
                    self._try_to_count()
        found = self._snapshot
        if found is None:
            reason = "nothing was counted yet" if self._trouble is None else self._trouble.reason
            raise DatabaseUnavailable(reason)
        return found

    def note_change(self) -> None:
        """Note that a person has changed something: the next page has to show it if it can."""
        self._changed = True

    def note_reader(self) -> None:
        """Note that somebody looks: from now on the counts are renewed as often as they may be."""
        self._looked_at = self._clock.monotonic()

    def note_reader_of(self, unique_id: str) -> None:
        """Note that somebody looks at one message."""
        self.note_reader()
        self._messages.note(unique_id)

    def now(self) -> datetime:
        """Return the time of the database, as far as known without asking it."""
        found = self._snapshot
        if found is None:
            return self._clock.now()
        return found.at + timedelta(seconds=self._clock.monotonic() - found.taken)

    def age(self) -> float:
        """Return how many seconds ago the counts were made; 0 before the first."""
        found = self._snapshot
        return 0.0 if found is None else self._clock.monotonic() - found.taken

    def do_before(self, act: Callable[[], object]) -> None:
        """Have the job do this once, before it counts for the first time."""
        self._before = act

    def tick(self) -> None:
        """Count if it is time to. Raises DatabaseUnavailable."""
        act, self._before = self._before, None
        if act is not None:
            act()
        now = self._clock.monotonic()
        watched = now - self._looked_at < WATCHED_FOR
        whole = self._snapshot is None or self._whole.is_due(now, watched=watched)
        if not whole and not (watched and self._news.is_due(now, watched=True)):
            return
        with self._counting:
            try:
                self._count_all() if whole else self._count_new()
            except RetrierError as error:
                self._note_trouble(str(error))
                raise

    def _is_to_be_made(self) -> bool:
        if self._snapshot is None:
            return True
        old = self._changed or self._clock.monotonic() >= self._whole.ended + LEAST
        return old and self._whole.cost <= QUICK and self._trouble is None

    def _try_to_count(self) -> None:
        try:
            self._count_all()
        except DatabaseUnavailable as error:
            self._note_trouble(str(error))

    def _count_all(self) -> None:
        self._changed = False
        began = self._clock.monotonic()
        found = count_unresolved(self._db)
        causes = {each.cause_id: each for each in found.causes}
        self._learn(causes)
        self._series.look(found.at)
        last, history = self._snapshot, read_history(self._db)
        alive = find_processor(self._db)
        shown = {each.operation_id: each for each in (*history.historic, *history.unacknowledged)}
        operations = newest({**shown, **operations_of(alive)}.values())
        found_now = Snapshot(
            at=found.at,
            taken=began,
            up_to=found.up_to,
            last_event=find_newest_event(self._db) if last is None else last.last_event,
            causes=causes,
            groups=count_groups(causes, self._facts),
            queues=count_queues(causes, self._facts),
            others=count_others(self._db),
            minutes=self._series.minutes(),
            work=alive,
            operations=operations,
            outcomes=count_outcomes(self._db, list(operations)),
            archives=self._archives.look(),
            breakers=show_breakers(self._db),
            streams=self._streams.look(),
            messages=self._messages.look(),
        )
        self._keep(found_now)
        pace = self._pace(began)
        # The first count also prepares its statements: that says nothing of the next one, and who
        # opens a page just after the start would see what was there 30 seconds ago.
        self._whole = pace if last is not None else replace(pace, cost=min(pace.cost, QUICK))

    def _count_new(self) -> None:
        """Add what failed since the last count, and look at what is being retried."""
        last = self._snapshot
        if last is None:
            return
        began = self._clock.monotonic()
        found = count_unresolved(self._db, after=last.up_to)
        causes = add_causes(last.causes, found.causes)
        self._learn(causes)
        self._series.count_new_failures()
        alive = find_processor(self._db)
        news = replace(
            last,
            up_to=max(last.up_to, found.up_to),
            last_event=find_newest_event(self._db),
            causes=causes,
            groups=count_groups(causes, self._facts) if found.causes else last.groups,
            queues=count_queues(causes, self._facts) if found.causes else last.queues,
            minutes=self._series.minutes(),
            work=alive,
            archives=self._archives.look(),
            breakers=show_breakers(self._db),
            messages=self._messages.look(),
            operations={**last.operations, **self._ended(last, alive), **operations_of(alive)},
        )
        self._keep(news)
        self._news = self._pace(began)

    def _ended(self, last: Snapshot, alive: ProcessorState) -> Mapping[str, RetryOperation]:
        """Return the operations that were alive a moment ago as they ended."""
        gone = operations_of(last.work).keys() - operations_of(alive).keys()
        found = (find_operation(self._db, each) for each in gone)
        return {each.operation.operation_id: each.operation for each in found if each is not None}

    def _learn(self, causes: Mapping[int, CauseCount]) -> None:
        unknown = iter(causes.keys() - self._facts.keys())
        while some := list(islice(unknown, _FACTS_AT_ONCE)):
            self._facts.update(find_cause_facts(self._db, some))

    def _pace(self, began: float) -> Pace:
        ended = self._clock.monotonic()
        return Pace(ended=ended, cost=ended - began)

    def _keep(self, found: Snapshot) -> None:
        self._trouble = None
        self._snapshot = replace(found, version=self._publish(found, None))

    def _note_trouble(self, reason: str) -> None:
        if self._trouble is None:
            self._trouble = Trouble(reason=reason, since=self._clock.monotonic())
            if self._snapshot is not None:
                self._publish(self._snapshot, self._trouble)

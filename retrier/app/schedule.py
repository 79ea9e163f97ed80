"""Recurring small work: the lease, adoption, queue depths, sweeps (APScheduler)."""

import logging
from collections.abc import Callable
from datetime import UTC, timedelta

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from retrier.app.composition import Parts
from retrier.app.readiness import Backlogs, ReadinessBoard
from retrier.errors import BrokerUnavailable, LeaseLost, RetrierError
from retrier.events.event import Emit
from retrier.events.service import SessionsEnded, TickFailed, TickRecovered
from retrier.processor.lease import Lease
from retrier.store.queries.imports import count_imports
from retrier.store.queries.next_work import is_work_due
from retrier.store.verbs.upkeep import end_stuck_sessions, sweep_events, sweep_staging_ids

_LEASE_LOOK = 1
_REQUESTS = 1
_REQUESTS_UNHEARD = 5
"""Seconds between two looks where PostgreSQL tells of requests: only for what it could not tell."""
_ADOPTION = 30
_DEPTHS = 10
_STUCK = 1
_SWEEP = 3600
_STAGING_IDS_KEPT = timedelta(days=90)
"""So long a copy may lie somewhere, and is known to be ours when it comes to an error queue."""


class GuardedTick:
    """One job that tells when it begins to fail and when it works again, and not of its tries."""

    def __init__(self, name: str, tick: Callable[[], object], emit: Emit) -> None:
        self._name = name
        self._tick = tick
        self._emit = emit
        self._failing = False

    def __call__(self) -> None:
        """Run it once; what Retrier itself raises is told and survived."""
        try:
            self._tick()
        except RetrierError as error:
            if not self._failing:
                self._emit(TickFailed(tick=self._name, reason=str(error)))
            self._failing = True
        else:
            if self._failing:
                self._emit(TickRecovered(tick=self._name))
            self._failing = False


class Ticks:
    """The scheduler and its jobs. Kept in memory: everything durable is in the database."""

    def __init__(self, parts: Parts, board: ReadinessBoard) -> None:
        self._parts = parts
        self._board = board
        self.backlogs = Backlogs(parts.clock)
        self.imports = 0
        """How many failed imports there were at the last look."""
        # Late or missed ticks are made up for by one; a slow one is not run twice at a time.
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            logger=_scheduler_log(),
            executors={"default": ThreadPoolExecutor(3)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )

    def start(self, lease: Lease | None) -> None:
        """Start ticking; the lease only where there is a processor."""
        if lease is not None:
            self._add("lease", _LEASE_LOOK, lambda: self._renew(lease))
            look = _REQUESTS if self._parts.db.is_sqlite else _REQUESTS_UNHEARD
            self._add("requests", look, lambda: self._look_for_requests(lease))
            self._add("adoption", _ADOPTION, self._parts.wake.set)
        self._add("stuck sessions", _STUCK, self._end_stuck_sessions)
        self._add("queue depths", _DEPTHS, self.look_at_queues)
        self._add("failed imports", _DEPTHS, self.count_imports)
        self._add("event log sweep", _SWEEP, self._sweep)
        self._add("staging id sweep", _SWEEP, self._sweep_staging_ids)
        self._scheduler.start()

    def stop(self) -> None:
        """Stop; a tick that is running ends by itself."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    def look_at_queues(self) -> None:
        """Read the depth of the queues: the broker is reached if that works."""
        try:
            queues = self._parts.transport.queues()
            try:
                names = (*self._parts.error_queues, self._parts.settings.staging_queue)
                depths = {name: queues.depth(name) for name in names}
            finally:
                queues.close()
        except BrokerUnavailable as error:
            self._board.put("broker", ready=False, reason=str(error))
            self._parts.metrics.queues.lost()
            # What lay there once may be stored by now: nobody else is to blame for it.
            self.backlogs.note({})
            raise
        self._parts.metrics.queues.reached(depths)
        self.backlogs.note(depths)
        shown = ", ".join(f"{name}: {_show(depth)}" for name, depth in depths.items())
        self._board.put("broker", ready=True, reason=f"reached; {shown}")

    def count_imports(self) -> None:
        """Count the messages that could not be read: they wait, and are no reason not to be ready."""
        self.imports = count_imports(self._parts.db)

    def _renew(self, lease: Lease) -> None:
        try:
            lease.renew_if_due()
        except LeaseLost:
            # The processor finds out before it does anything else, and says so.
            self._parts.wake.set()

    def _look_for_requests(self, lease: Lease) -> None:
        """Wake the processor for what another process was asked, and for what has become due."""
        if lease.held and is_work_due(self._parts.db):
            self._parts.wake.set()

    def _end_stuck_sessions(self) -> None:
        """Do what the server cannot: a statement lasts half a lease at most."""
        limit = self._parts.settings.processor.lease / 2
        if ended := end_stuck_sessions(self._parts.db, older_than=limit):
            self._parts.emit(SessionsEnded(count=ended))

    def _sweep(self) -> None:
        sweep_events(self._parts.db, older_than=self._parts.settings.retention.events)

    def _sweep_staging_ids(self) -> None:
        sweep_staging_ids(self._parts.db, older_than=_STAGING_IDS_KEPT)

    def _add(self, name: str, seconds: int, tick: Callable[[], object]) -> None:
        self._scheduler.add_job(
            GuardedTick(name, tick, self._parts.emit),
            "interval",
            seconds=seconds,
            id=name,
            name=name,
        )


def _scheduler_log() -> logging.Logger:
    # It warns of each tick left out while the one before hangs, which is how it should be: a
    # frozen database would fill the log.
    log = logging.getLogger(f"{__name__}.scheduler")
    log.setLevel(logging.ERROR)
    return log


def _show(depth: int | None) -> str:
    return "not created yet" if depth is None else f"{depth} ready"

"""Small recurring tasks: the lease, adoption, queue depths, presumption, sweeps (APScheduler)."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Event

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from retrier.app.audit import HEAD_SECONDS, RunningAudit
from retrier.app.parts import Parts, make_retention
from retrier.app.process import describe_holder
from retrier.app.readiness import Backlogs, ReadinessBoard
from retrier.app.reports import PolicyReport, Process, ProcessReport, ReadReport
from retrier.app.server import Listening
from retrier.clock import Clock
from retrier.domain.retention import SecondLook
from retrier.domain.values import dataclass
from retrier.domain.wire import PropertyCodec
from retrier.errors import BrokerUnavailable, LeaseLost, RetrierError, ServiceUnavailable
from retrier.events.event import Emit
from retrier.events.processor import ApprovalLapsed
from retrier.events.service import (
    BrokerWarned,
    ChunkPresumed,
    RetriesPresumed,
    SessionsEnded,
    TickFailed,
    TickRecovered,
)
from retrier.http.login import LoginProvider
from retrier.processor.lease import Lease
from retrier.store.approval_acts import is_any_over, lapse_approvals
from retrier.store.engine.database import Database, DatabaseClock
from retrier.store.imports import count_imports
from retrier.store.message_counts import fold
from retrier.store.message_texts import sweep_texts
from retrier.store.pending import PRESUMED_AT_ONCE, find_presumable, presume
from retrier.store.processor_work import is_work_due
from retrier.store.recovery import get_recovery
from retrier.store.upkeep import (
    end_stuck_sessions,
    find_vacuum_warnings,
    sweep_breaker_counts,
    sweep_events,
    sweep_staging_ids,
)
from retrier.store.wait_reasons import count_waits_anew, is_any_wait_of_later
from retrier.store.words import Taken, WordLag, fill_words, get_lag, look_at_numbers
from retrier.web.counts import PageCounts

_PACE = 0.2
"""Seconds from one transaction to the next at least: ingestion has the database in between."""

_LONGEST_LOOK = 60.0


def seconds_between_looks(sent_for: timedelta) -> float:
    """Return how often to look: a tenth of that time, between a second and a minute."""
    return min(_LONGEST_LOOK, max(1.0, sent_for.total_seconds() / 10))


@dataclass(frozen=True, slots=True, kw_only=True)
class Presumption:
    """Walks all pending retries once, whenever it is called, if this process holds the lease."""

    db: Database
    lease: Lease
    sent_for: timedelta
    second_look: SecondLook
    clock: Clock
    emit: Emit
    stop: Event
    wake: Event

    def __call__(self) -> None:
        """Resolve what was sent that long ago, chunk by chunk. Raises DatabaseUnavailable."""
        as_of = self.second_look.agreed
        if as_of is None or not self.lease.held:
            return
        presumed = after = 0
        try:
            while found := self._find(after, as_of):
                presumed += self._presume(found, as_of)
                after = found[-1]
        except LeaseLost:
            # The processor notices it in its next turn and reports it; the next holder goes on.
            self.wake.set()
        finally:
            if presumed:
                self.emit(RetriesPresumed(count=presumed))

    def _find(self, after: int, as_of: datetime) -> Sequence[int]:
        if self.stop.is_set():
            return ()
        return find_presumable(self.db, self.sent_for, after, as_of)

    def _presume(self, numbers: Sequence[int], as_of: datetime) -> int:
        began = self.clock.monotonic()
        count = presume(self.db, self.lease.fence, self.sent_for, numbers, as_of)
        self.emit(ChunkPresumed(count=count))
        if len(numbers) == PRESUMED_AT_ONCE:
            took = self.clock.monotonic() - began
            self.stop.wait(max(took, _PACE - took))
        return count


_FILLING = 3.0
"""Seconds that one look at unread words may take: the scheduler ends it with the service."""
_WHILE_BUSY, _WHILE_IDLE = 15, 1
"""So many times as long as a chunk takes, nothing is read after it: while failures come, and else."""


@dataclass(slots=True, kw_only=True)
class WordFilling:
    """Reads words of messages, whenever it is called, if this process holds the lease.

    Ingestion goes first: it has this process and the database for itself most of the time.
    """

    db: Database
    lease: Lease
    codec: PropertyCodec
    body_bytes: int
    clock: Clock
    stop: Event
    _doubt: Taken | None = None
    _up_to: int | None = None
    _pause: float = _WHILE_BUSY

    def __call__(self) -> None:
        """Read chunks for a few seconds, or until nothing is left. Raises DatabaseUnavailable."""
        if not self.lease.held:
            return
        self._settle(look_at_numbers(self.db))
        ends = self.clock.monotonic() + _FILLING
        while self._up_to is not None and not self.stop.is_set():
            began = self.clock.monotonic()
            filled = fill_words(self.db, self._up_to, self.codec, self.body_bytes)
            now = self.clock.monotonic()
            if filled is None or now > ends:
                break
            self.stop.wait(self._pause * (now - began))

    def _settle(self, taken: Taken) -> None:
        """Find the number up to which all attempts are stored, or never will be."""
        doubt = self._doubt
        if doubt is not None:
            self._pause = _WHILE_IDLE if taken.last == doubt.last else _WHILE_BUSY
        if not taken.writers:
            self._up_to = taken.last
        elif doubt is not None and not doubt.writers & taken.writers:
            self._up_to = doubt.last
        else:
            # Somebody still has a lower number: the next look waits for the same ones.
            self._doubt = doubt or taken
            return
        self._doubt = taken


_LEASE_LOOK = 1
_REQUESTS = 1
_REQUESTS_HEARD = 5.0
"""Seconds between two looks while notifications arrive, which replace most of them."""
_ADOPTION = 30
_RETENTION = 5
_WAITS = 2
_DEPTHS = 10
DEPTHS_WHERE_PAID = 60
"""Seconds between two looks at queues, each of which costs a request and an amount of money."""
_APPROVALS = 10
_READS = 1
_PROCESSES = 10
_LOGIN = 15
_POLICIES = 2
"""Seconds between two looks at their file: a change is in force after two looks at the most."""
_STUCK = 1
_AUDIT = 1
_RESTED = 5
_REST = timedelta(seconds=20)
"""Since when a connection is not needed that a busy moment has opened."""
_SWEEP = 3600
_VACUUM = 60
_FOLDING = 60
_LONG = "long"
"""The threads of jobs that may take minutes: they must not keep the lease from being renewed."""
_COUNTS = 1
"""It decides itself by its cost whether it counts: see `PageCounts`."""
_COUNTING = "counting"
_WORDS = 1
_READING = "words"
_STAGING_IDS_KEPT = timedelta(days=90)
"""A copy that reaches an error queue within this time is recognised as ours (decision 0020)."""


_COUNTS_KEPT = timedelta(days=2)
"""Longer than anything that counts for a breaker."""


def look_at_provider(provider: LoginProvider) -> None:
    """Ask the provider of log-ins if it is time to. Raises ServiceUnavailable while it is away."""
    provider.look()
    if provider.trouble is not None:
        raise ServiceUnavailable(provider.trouble)


class GuardedTick:
    """One job that reports when it begins to fail and when it works again, not each try."""

    def __init__(self, name: str, tick: Callable[[], object], emit: Emit) -> None:
        self._name = name
        self._tick = tick
        self._emit = emit
        self._failing = False

    def __call__(self) -> None:
        """Run it once; a RetrierError is reported and does not end the job."""
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
    """The scheduler and its jobs, kept in memory: everything durable is in the database."""

    def __init__(
        self,
        parts: Parts,
        board: ReadinessBoard,
        listening: Listening,
        counts: PageCounts | None = None,
    ) -> None:
        self._parts = parts
        self._listening = listening
        self._looked_at = -_REQUESTS_HEARD
        self._board = board
        self._warned: frozenset[str] = frozenset()
        self._counts = counts
        self.backlogs = Backlogs(parts.clock)
        self._second_look = SecondLook(parts.settings.retention.second_look)
        self.imports = 0
        """How many failed imports there were at the last look."""
        self.recovering = False
        """Whether a recovery was under way at the last look."""
        self.words: WordLag | None = None
        """How far words were behind at the last look, if they are read."""
        self.vacuum: Sequence[str] = ()
        """Why dead rows stayed in the tables at the last look."""
        # One run replaces all late or missed runs of a job; no job runs twice at the same time.
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            logger=_scheduler_log(),
            executors={
                "default": ThreadPoolExecutor(4),
                _LONG: ThreadPoolExecutor(1),
                _COUNTING: ThreadPoolExecutor(1),
                _READING: ThreadPoolExecutor(1),
            },
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )

    def start(self, lease: Lease | None, *, judges: bool) -> None:
        """Start the jobs; those about the lease only if this process has the role of processor.

        A process that `judges` tells by which policies.
        """
        if lease is not None:
            self._add("lease", _LEASE_LOOK, lambda: self._renew(lease))
            self._add("requests", _REQUESTS, lambda: self._look_for_requests(lease))
            self._add("waits", _WAITS, lambda: self._count_waits_anew(lease))
            self._add("adoption", _ADOPTION, self._parts.wake.set)
            self._add(
                "retention", _RETENTION, make_retention(self._parts, lease, self._second_look).sweep
            )
            self._add("message counts", _FOLDING, lambda: self._fold_counts(lease), _LONG)
            self._add_presumption(lease)
            if self._parts.settings.search.text.enabled:
                self._add("words", _WORDS, self._make_filling(lease), _READING)
        if self._parts.settings.search.text.enabled:
            self._add("words behind", _DEPTHS, self.look_at_words)
        self._add("approvals", _APPROVALS, self._lapse_approvals)
        self._add("policies", _POLICIES, self._make_policy_report(judges=judges))
        if self._counts is not None:
            self._add("page counts", _COUNTS, self._counts.tick, _COUNTING, at_once=True)
        if (provider := self._parts.provider) is not None:
            self._add("log-in", _LOGIN, partial(look_at_provider, provider), at_once=True)
        look = seconds_between_looks(self._parts.settings.retention.second_look)
        self._add("second look", look, self._look_at_the_clock, at_once=True)
        self._add("stuck sessions", _STUCK, self._end_stuck_sessions)
        paid = self._parts.transport.capabilities.paid_wait is not None
        self._add("queue depths", DEPTHS_WHERE_PAID if paid else _DEPTHS, self.look_at_queues)
        self._add("failed imports", _DEPTHS, self.count_imports)
        self._add("recovery", _DEPTHS, self.look_for_recovery, at_once=True)
        self._add("vacuum", _VACUUM, self.look_for_dead_rows)
        self._add("rested connections", _RESTED, partial(self._parts.db.close_rested, _REST))
        self._add("event log sweep", _SWEEP, self._sweep)
        self._add("staging id sweep", _SWEEP, self._sweep_staging_ids)
        self._add("text sweep", _SWEEP, self._sweep_texts, _LONG)
        self._scheduler.start()

    def keep_audit(self, running: RunningAudit) -> None:
        """Have refusals told that were counted, and the head of the audit kept elsewhere."""
        self._add("audit", _AUDIT, running.tell)
        if running.head is not None:
            self._add("audit head", HEAD_SECONDS, running.head.send, at_once=True)

    def report_process(self, report: ProcessReport) -> None:
        """Let the database know that this process runs, and look at the others."""
        self._add("processes", _PROCESSES, report, at_once=True)

    def report_reads(self, report: ReadReport) -> None:
        """Let the database know how far this process has read its error queues."""
        self._add("error queues read", _READS, report, at_once=True)

    def _add_presumption(self, lease: Lease) -> None:
        parts, sent_for = self._parts, self._parts.settings.retries.presumed_after
        if sent_for is None:
            return
        presumption = Presumption(
            db=parts.db,
            lease=lease,
            sent_for=sent_for,
            second_look=self._second_look,
            clock=parts.clock,
            emit=parts.emit,
            stop=parts.stop,
            wake=parts.wake,
        )
        seconds = seconds_between_looks(sent_for)
        self._add("presumption", seconds, presumption, executor=_LONG)

    def _make_filling(self, lease: Lease) -> WordFilling:
        parts = self._parts
        return WordFilling(
            db=parts.db,
            lease=lease,
            codec=parts.transport.codec,
            body_bytes=parts.settings.search.text.body_bytes,
            clock=parts.clock,
            stop=parts.stop,
        )

    def _make_policy_report(self, *, judges: bool) -> PolicyReport:
        parts = self._parts
        process = Process(
            holder=describe_holder(parts.session_id), instance=parts.settings.instance
        )
        return PolicyReport(parts.db, parts.policies, parts.clock, process if judges else None)

    def stop(self) -> None:
        """Start no more jobs; one that is running is not waited for."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    def look_at_queues(self) -> None:
        """Read the depths of the queues, and so find out whether the broker is reached."""
        try:
            queues = self._parts.transport.queues()
            try:
                names = (*self._parts.error_queues, self._parts.settings.staging_queue)
                depths = {name: queues.depth(name) for name in names}
                risks = queues.find_risks()
            finally:
                queues.close()
        except BrokerUnavailable as error:
            self._board.put("broker", ready=False, reason=str(error))
            self._parts.metrics.queues.lost()
            # Old depths are dropped: those messages may be ingested by now, and no backlog at all.
            self.backlogs.note({})
            raise
        self._parts.metrics.queues.reached(depths)
        self.backlogs.note(depths)
        staging = self._parts.settings.staging_queue
        none = {name: "not created yet" if name == staging else "does not exist" for name in depths}
        shown = ", ".join(
            f"{name}: {none[name] if depth is None else f'{depth} ready'}"
            for name, depth in depths.items()
        )
        for each in sorted(set(risks) - self._warned):
            self._parts.emit(BrokerWarned(warning=each))
        self._warned = frozenset(risks)
        told = "; ".join(["reached", shown, *(f"warning: {each}" for each in risks)])
        self._board.put("broker", ready=True, reason=told)

    def count_imports(self) -> None:
        """Count the messages that could not be read: they wait, and are no reason not to be ready."""
        self.imports = count_imports(self._parts.db)

    def look_for_recovery(self) -> None:
        """See whether a person holds presumption, which nothing else would tell."""
        self.recovering = get_recovery(self._parts.db) is not None

    def look_at_words(self) -> None:
        """See how far the words of messages are behind."""
        self.words = get_lag(self._parts.db)

    def look_for_dead_rows(self) -> None:
        """See whether autovacuum does its work: tables that only grow tell nobody."""
        self.vacuum = find_vacuum_warnings(self._parts.db)

    def _renew(self, lease: Lease) -> None:
        try:
            lease.renew_if_due()
        except LeaseLost:
            # The processor checks the lease first in its next turn, and reports the loss.
            self._parts.wake.set()

    def _look_for_requests(self, lease: Lease) -> None:
        """Wake the processor for requests to another process, and for work that is due now."""
        now = self._parts.clock.monotonic()
        if self._listening.hears and now < self._looked_at + _REQUESTS_HEARD:
            return
        self._looked_at = now
        if lease.held and is_work_due(self._parts.db):
            self._parts.wake.set()

    def _count_waits_anew(self, lease: Lease) -> None:
        """Let what waits since a time that has not come wait no longer than was asked for."""
        db = self._parts.db
        with suppress(LeaseLost):
            while lease.held and is_any_wait_of_later(db) and count_waits_anew(db, lease.fence):
                self._parts.wake.set()

    def _lapse_approvals(self) -> None:
        """Cancel what nobody has approved in time, whichever process comes first."""
        db = self._parts.db
        while is_any_over(db) and (lapsed := lapse_approvals(db)):
            for each in lapsed:
                self._parts.emit(ApprovalLapsed(operation_id=each))
            self._parts.wake.set()

    def _end_stuck_sessions(self) -> None:
        """End sessions that wait for a frozen client: no server timeout does (decision 0012)."""
        limit = self._parts.settings.processor.lease / 2
        if ended := end_stuck_sessions(self._parts.db, older_than=limit):
            self._parts.emit(SessionsEnded(count=ended))

    def _look_at_the_clock(self) -> None:
        now = DatabaseClock(self._parts.db, self._parts.clock).now()
        self._second_look.note(self._parts.clock.monotonic(), now)

    def _sweep(self) -> None:
        kept, as_of = self._parts.settings.retention.events, self._second_look.agreed
        if kept is not None and as_of is not None:
            sweep_events(self._parts.db, older_than=kept, as_of=as_of)

    def _sweep_staging_ids(self) -> None:
        if (as_of := self._second_look.agreed) is not None:
            sweep_staging_ids(self._parts.db, older_than=_STAGING_IDS_KEPT, as_of=as_of)
            sweep_breaker_counts(self._parts.db, older_than=_COUNTS_KEPT, as_of=as_of)

    def _fold_counts(self, lease: Lease) -> None:
        """One process is enough for it; without the lease in force it is right, too."""
        if lease.held:
            fold(self._parts.db)

    def _sweep_texts(self) -> None:
        sweep_texts(self._parts.db, self._parts.stop.wait)

    def _add(
        self,
        name: str,
        seconds: float,
        tick: Callable[[], object],
        executor: str = "default",
        *,
        at_once: bool = False,
    ) -> None:
        """Run a job so often; its first run is after the first interval, or at once."""
        first = {"next_run_time": self._parts.clock.now()} if at_once else {}
        self._scheduler.add_job(
            GuardedTick(name, tick, self._parts.emit),
            "interval",
            seconds=seconds,
            id=name,
            name=name,
            executor=executor,
            **first,
        )


def _scheduler_log() -> logging.Logger:
    # Errors only: APScheduler warns of each run that it skips while the one before hangs. That is
    # intended here, and a frozen database would fill the log with it.
    log = logging.getLogger(f"{__name__}.scheduler")
    log.setLevel(logging.ERROR)
    return log

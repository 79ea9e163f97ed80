"""What this process writes about itself: that it runs, by which policies, and how far it has read."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from retrier import __version__
from retrier.app.parts import Parts
from retrier.app.policies import PolicySource
from retrier.app.process import describe_holder, is_dead
from retrier.clock import Clock
from retrier.domain.processes import (
    NO_INGESTION,
    RunningProcess,
    find_differences,
    is_ingesting,
)
from retrier.domain.values import dataclass
from retrier.errors import BrokerUnavailable, DatabaseUnavailable
from retrier.events.service import ProcessesAgree, ProcessesDiffer
from retrier.ingestion.ingestor import Ingestor
from retrier.policy.policy_set import InForce
from retrier.settings import Role
from retrier.store.engine.database import Database
from retrier.store.error_queue_reads import is_any_canary_waiting, note_reads, note_stopped
from retrier.store.lease import Holder
from retrier.store.policies import ToldSet, forget_set, tell_set
from retrier.store.processes import SILENT, forget_process, list_processes, note_process
from retrier.transport.seam import Queues, Transport

_AGAIN = timedelta(seconds=30).total_seconds()
"""Seconds between two tellings of the same set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """Who judges."""

    holder: Holder
    instance: str


class PolicyReport:
    """Looks at the file, then tells what is in force: again and again, and at each change."""

    def __init__(
        self, db: Database, source: PolicySource, clock: Clock, process: Process | None
    ) -> None:
        """Without a process it tells nothing: that one does not judge."""
        self._db = db
        self._source = source
        self._clock = clock
        self._process = process
        self._told: InForce | None = None
        self._told_at = 0.0

    def __call__(self) -> None:
        """Look and tell. Raises DatabaseUnavailable; what is in force does not depend on that."""
        self._source.look()
        if self._process is not None:
            self._tell(self._process, self._source.in_force)

    def _tell(self, process: Process, now: InForce) -> None:
        told = self._told
        if not (now.is_configured or now.problems):
            if told is not None:
                forget_set(self._db, process.holder.session_id)
            self._told = None
            return
        if told is now and self._clock.monotonic() < self._told_at + _AGAIN:
            return
        news = now.problems if told is None or told.problems != now.problems else ()
        tell_set(self._db, self._describe(process, now), news=news)
        self._told, self._told_at = now, self._clock.monotonic()

    def _describe(self, process: Process, now: InForce) -> ToldSet:
        holder = process.holder
        return ToldSet(
            session_id=holder.session_id,
            instance=process.instance,
            host=holder.host,
            pid=holder.pid,
            set_hash=now.policies.hash,
            file_time=now.file_time,
            loaded_at=now.loaded_at,
            problems=now.problems,
        )


_SILENT = SILENT.total_seconds()


class ProcessReport:
    """One look every 10 seconds. What it says never makes a process unready: others are meant."""

    def __init__(self, parts: Parts, roles: frozenset[Role]) -> None:
        self._parts = parts
        self._roles = tuple(sorted(roles))
        self._holder = describe_holder(parts.session_id)
        self._words = "not looked at yet"
        self._differences: tuple[str, ...] = ()
        self._ingesting_at = parts.clock.monotonic()

    def __call__(self) -> None:
        """Write and look. Raises DatabaseUnavailable."""
        note_process(self._parts.db, self._describe())
        found = list_processes(self._parts.db)
        self._tell(find_differences(found))
        now = self._parts.clock.monotonic()
        if is_ingesting(found):
            self._ingesting_at = now
        # A restart of what ingests takes a moment, and is no reason to say anything.
        missing = (NO_INGESTION,) if now - self._ingesting_at >= _SILENT else ()
        number = "1 process" if len(found) == 1 else f"{len(found)} processes"
        self._words = "; ".join([number, *missing, *self._differences])

    def describe(self) -> tuple[bool, str]:
        """Return what is known of the processes; it is no reason not to be ready."""
        return True, self._words

    def stop(self) -> None:
        """Say that this process ends."""
        with suppress(DatabaseUnavailable):
            forget_process(self._parts.db, self._parts.session_id)

    def _describe(self) -> RunningProcess:
        in_force = self._parts.policies.in_force
        return RunningProcess(
            session_id=self._parts.session_id,
            instance=self._parts.settings.instance,
            host=self._holder.host,
            pid=self._holder.pid,
            roles=self._roles,
            version=__version__,
            set_hash=in_force.policies.hash if in_force.is_configured else "",
            error_queues=tuple(sorted(self._parts.error_queues)),
        )

    def _tell(self, found: Sequence[str]) -> None:
        before, self._differences = self._differences, tuple(found)
        if self._differences == before:
            return
        if found:
            self._parts.emit(ProcessesDiffer(reason="; ".join(found)))
        else:
            self._parts.emit(ProcessesAgree())


class ReadReport:
    """One look a second; without a waiting canary it writes nothing but its start and its end.

    A queue is level at a moment if the broker says after it that nothing is ready, or that there is
    no such queue, and if this process, looking after that answer, finds nothing and has nothing in
    hand: then all that was on the queue at that moment is stored.
    """

    def __init__(
        self,
        db: Database,
        transport: Transport,
        clock: Clock,
        ingestors: Sequence[Ingestor],
        session_id: str,
    ) -> None:
        self._db = db
        self._transport = transport
        self._clock = clock
        self._ingestors = ingestors
        self._holder = describe_holder(session_id)
        self._queues: Queues | None = None
        self._has_begun = False
        self._ready: dict[str, int | None] = {}
        self._empty: dict[str, tuple[float, datetime]] = {}
        """Queues on which nothing was ready: since when (monotonic) and as of when that is said."""

    def __call__(self) -> None:
        """Look and write. Raises DatabaseUnavailable."""
        if self._has_begun and not is_any_canary_waiting(self._db):
            self._forget()
            return
        seen = {
            each.mapping.queue: {
                "ready": self._ready.get(each.mapping.queue),
                "level_at": self._level_at(each),
            }
            for each in self._ingestors
        }
        now = note_reads(self._db, self._holder, seen, is_dead)
        self._has_begun = True
        try:
            self._look(now)
        except BrokerUnavailable:
            # The look at the depths says so; here it only means that nothing is level.
            self._forget()

    def stop(self) -> None:
        """Say that this process reads no more: it has stored or given back what it had."""
        self._forget()
        with suppress(DatabaseUnavailable):
            note_stopped(self._db, self._holder.session_id)

    def _look(self, now: datetime) -> None:
        self._queues = self._queues or self._transport.queues()
        for each in self._ingestors:
            queue = each.mapping.queue
            look = self._queues.look(queue)
            # On SQS nothing may be ready, and a dead process have failures in hand that come later.
            ready = self._ready[queue] = None if look is None else look.ready + look.hidden
            if not ready and queue not in self._empty:
                self._empty[queue] = (self._clock.monotonic(), now)

    def _level_at(self, ingestor: Ingestor) -> datetime | None:
        """Return the moment at which the queue is found to have been level; None if nothing new."""
        since, as_of = self._empty.get(ingestor.mapping.queue, (0.0, None))
        empty = ingestor.empty_since
        if as_of is None or empty is None or empty < since:
            return None
        del self._empty[ingestor.mapping.queue]
        return as_of

    def _forget(self) -> None:
        self._ready, self._empty = {}, {}
        if self._queues is not None:
            self._queues.close()
            self._queues = None

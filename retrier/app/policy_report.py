"""Tells the database by which policies this process judges."""

from dataclasses import dataclass
from datetime import timedelta

from retrier.app.policies import PolicySource
from retrier.clock import Clock
from retrier.policy.policy_set import InForce
from retrier.store.engine.database import Database
from retrier.store.lease import Holder
from retrier.store.policies import ToldSet, forget_set, tell_set

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

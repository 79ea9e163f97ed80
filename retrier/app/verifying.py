"""`retrier verify`: what database and staging queue say of themselves, with no service needed."""

from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from retrier.app.building import make_transport
from retrier.errors import BrokerUnavailable, DatabaseUnavailable
from retrier.settings import Settings
from retrier.store.database import Database, DatabaseOptions
from retrier.store.upgrade import find_revision
from retrier.store.verification import VerifiedRule, verify_store

_PATIENCE = timedelta(minutes=20)
"""Twice as long as one look at all messages may take; it holds no lease and no lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What was looked at. `staging` tells of the staging queue; None: the broker is away."""

    database: str
    rules: tuple[VerifiedRule, ...]
    staging: str | None = None
    broker_problem: str | None = None

    @property
    def broken(self) -> tuple[VerifiedRule, ...]:
        """The rules that something breaks."""
        return tuple(rule for rule in self.rules if rule.broken)


def verify(settings: Settings) -> Verification:
    """Look at every rule, then at the staging queue; changes nothing. Raises DatabaseUnavailable.

    What lies in the staging queue is told and never a fault: copies of attempts that did not
    commit, and probes, are dropped when the next batch is staged.
    """
    db = Database(DatabaseOptions(url=settings.database.url, lease=_PATIENCE))
    try:
        _check_schema(db)
        verified = verify_store(db)
    finally:
        db.dispose()
    seen = Verification(database=db.place, rules=verified.rules)
    try:
        depth = _staging_depth(settings)
    except BrokerUnavailable as error:
        return replace(seen, broker_problem=str(error))
    return replace(seen, staging=_describe(depth, verified.batches))


def _check_schema(db: Database) -> None:
    if db.is_sqlite and not Path(db.place).exists():
        # To look would make an empty one.
        raise DatabaseUnavailable(f"there is no database at {db.place}")
    revision = find_revision(db)
    if not revision.is_current:
        raise DatabaseUnavailable(
            f"the database at {db.place} is at revision {revision.current or 'none'} and this "
            f"version needs {revision.wanted}: run `retrier db upgrade`"
        )


def _staging_depth(settings: Settings) -> int | None:
    queues = make_transport(settings).queues()
    try:
        return queues.depth(settings.staging_queue)
    finally:
        queues.close()


def _describe(depth: int | None, batches: int) -> str:
    if depth is None:
        return "missing: will be declared with the next retry"
    if depth and not batches:
        return f"{depth} messages that nothing waits for: the next retry drops them"
    return f"{depth} messages ready, {batches} batches alive"

"""`retrier verify`: checks database and staging queue against the rules; needs no service."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from retrier.app.parts import make_transport
from retrier.app.process import is_dead
from retrier.domain.text import count_messages, count_of
from retrier.domain.values import dataclass
from retrier.errors import BrokerUnavailable, DatabaseUnavailable
from retrier.settings import Settings
from retrier.store.engine.database import Database, DatabaseOptions
from retrier.store.upgrade import find_revision
from retrier.store.verification import StoreVerification, VerifiedRule, verify_store

STAGING_RULE = "the staging queue holds what the batch in Forwarding waits for"

_LONGEST_STATEMENT = timedelta(minutes=20)
"""Twice as long as one look at all messages may take; nothing waits, for it holds no lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result. `staging` describes the staging queue; None if the broker is away."""

    database: str
    rules: tuple[VerifiedRule, ...]
    staging: str | None = None
    broker_problem: str | None = None

    @property
    def broken(self) -> tuple[VerifiedRule, ...]:
        """The rules that are broken."""
        return tuple(rule for rule in self.rules if rule.broken)


def verify(settings: Settings) -> Verification:
    """Check every rule, then the staging queue; changes nothing. Raises DatabaseUnavailable.

    The staging queue must hold the copies that the batch in Forwarding waits for, unless a live
    processor may have taken them. More messages are no error: copies of attempts that did not
    commit, probes and end markers are dropped when the next batch is staged.
    """
    db = Database(DatabaseOptions(url=settings.database.url, lease=_LONGEST_STATEMENT))
    try:
        _check_schema(db)
        return _verify(settings, db)
    finally:
        db.dispose()


def _verify(settings: Settings, db: Database) -> Verification:
    verified = verify_store(db)
    seen = Verification(database=db.place, rules=verified.rules)
    try:
        depth = _staging_depth(settings)
        if _count_missing(depth, verified):
            # Check again: a processor may have begun between the looks at database and queue.
            verified = verify_store(db)
            depth = _staging_depth(settings)
    except BrokerUnavailable as error:
        return replace(seen, broker_problem=str(error))
    copies = VerifiedRule(rule=STAGING_RULE, broken=_count_missing(depth, verified))
    return replace(
        seen,
        rules=(*verified.rules, copies),
        staging=_describe(depth, verified.batches, copies.broken),
    )


def _count_missing(depth: int | None, verified: StoreVerification) -> int:
    """Return how many copies are missing; 0 while a live processor may hold some."""
    processor = verified.processor
    if processor is not None and not is_dead(processor):
        return 0
    return max(0, verified.awaited - (depth or 0))


def _check_schema(db: Database) -> None:
    if db.is_sqlite and not Path(db.place).exists():
        # Connecting would create an empty file.
        raise DatabaseUnavailable(f"there is no database at {db.place}")
    revision = find_revision(db)
    if not revision.is_current:
        raise DatabaseUnavailable(
            f"the database at {db.place} is at revision {revision.current or 'none'} and this "
            f"version needs {revision.wanted}: run `retrier db upgrade`"
        )


def _staging_depth(settings: Settings) -> int | None:
    """Return how many copies there are: on SQS also those that a dead process had in hand."""
    queues = make_transport(settings).queues()
    try:
        look = queues.look(settings.staging_queue)
        return None if look is None else look.ready + look.hidden
    finally:
        queues.close()


def _describe(depth: int | None, batches: int, missing: int) -> str:
    if missing:
        return f"{count_messages(depth or 0)} ready, {missing} missing: the next processor stages them anew"
    if depth is None:
        return "missing: will be declared with the next retry"
    if depth and not batches:
        return f"{count_messages(depth)} that nothing waits for: dropped at the next retry"
    return f"{count_messages(depth)} ready, {count_of(batches, 'batch', 'batches')} alive"

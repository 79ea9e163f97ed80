"""Sets of policies (`policy_sets`) that processes judge by; stored failures judged as a trial."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

from sqlalchemy import ColumnElement, delete, func, select

from retrier.domain.failed_message import Disposition, FailureDetails
from retrier.domain.failure_texts import read_said
from retrier.domain.text import count_of
from retrier.domain.values import dataclass
from retrier.domain.wire import PropertyCodec
from retrier.policy.facts import facts_of
from retrier.policy.policy_set import PolicySet
from retrier.policy.simulation import RuleDecision, Simulated, Simulation, StoredFailure, rule_of
from retrier.store import event_log
from retrier.store.engine.database import reading, writing
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.event_log import Entry
from retrier.store.schema import causes, failed_messages, policy_sets, processing_attempts

sets = policy_sets.c
attempts = processing_attempts.c


SILENT = timedelta(seconds=90)
"""A process that has told nothing for so long has ended: it tells every 30 seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingProcess:
    """A process, the set by which it judges, and the problems of a newer file it did not take."""

    session_id: str
    instance: str
    host: str
    pid: int
    set_hash: str
    file_time: datetime | None
    loaded_at: datetime
    problems: tuple[str, ...]
    seen_at: datetime


@reading
def list_judging_processes(tx: Transaction) -> tuple[JudgingProcess, ...]:
    """Return the processes that judge by policies now. Raises DatabaseUnavailable."""
    query = select(policy_sets).where(_alive(tx)).order_by(sets.instance, sets.host, sets.pid)
    rows = (dict(row) for row in tx.execute(query).mappings())
    return tuple(JudgingProcess(**row | {"problems": tuple(row["problems"])}) for row in rows)


def count_sets(tx: Transaction) -> int:
    """Return by how many different sets the processes judge."""
    query = select(func.count(sets.set_hash.distinct())).where(_alive(tx))
    return int(tx.execute(query).scalar_one())


def _alive(tx: Transaction) -> ColumnElement[bool]:
    return sets.seen_at >= tx.now - SILENT


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldSet:
    """What a process judges by, and the problems of a newer file that it did not take."""

    session_id: str
    instance: str
    host: str
    pid: int
    set_hash: str
    file_time: datetime | None
    loaded_at: datetime
    problems: tuple[str, ...] = ()


@writing
def tell_set(tx: Transaction, told: ToldSet, *, news: Sequence[str] = ()) -> None:
    """Store what a process judges by, and forget processes that have told nothing for long.

    `news` are problems that the event log does not have yet. Raises DatabaseUnavailable.
    """
    process = {name: getattr(told, name) for name in ("session_id", "instance", "host", "pid")}
    judges_by = {
        "set_hash": told.set_hash,
        "file_time": told.file_time,
        "loaded_at": told.loaded_at,
        "problems": list(told.problems),
        "seen_at": tx.now,
    }
    insert = tx.sql.insert(policy_sets).values(**process, **judges_by)
    tx.execute(insert.on_conflict_do_update(index_elements=["session_id"], set_=judges_by))
    tx.execute(delete(policy_sets).where(sets.seen_at < tx.now - SILENT))
    event_log.append(tx, [_entry(told, news)] if news else [])


@writing
def forget_set(tx: Transaction, session_id: str) -> None:
    """Forget what a process judged by: it has no policies any more. Raises DatabaseUnavailable."""
    tx.execute(delete(policy_sets).where(sets.session_id == session_id))


def _entry(told: ToldSet, problems: Sequence[str]) -> Entry:
    return Entry(
        kind="policies_wrong",
        text=(
            f"The policies of {told.instance} on {told.host} have {count_of(len(problems), 'problem')}; "
            f"those before them stay in force: {'; '.join(problems)}"
        ),
        details={"problems": list(problems), "set_hash": told.set_hash, "pid": told.pid},
    )


MOST = 100_000
"""Failures that are judged at most: the newest."""
LONGEST = timedelta(seconds=30)
_AT_ONCE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How far a simulation goes."""

    since: timedelta
    most: int = MOST
    longest: timedelta = LONGEST
    seconds: Callable[[], float] = monotonic


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedBefore:
    """What was found, and why it stopped; None if all since that time were judged."""

    found: Simulated
    stopped: str | None


@reading
def simulate_policies(
    tx: Transaction, policies: PolicySet, codec: PropertyCodec, bounds: Bounds
) -> SimulatedBefore:
    """Judge the newest stored failures by these policies, in a transaction that cannot write.

    Raises DatabaseUnavailable.
    """
    with tx.sql.only_reading(tx.conn):
        return _simulate(tx, policies, codec, bounds)


def _simulate(
    tx: Transaction, policies: PolicySet, codec: PropertyCodec, bounds: Bounds
) -> SimulatedBefore:
    simulation, judged = Simulation(policies), 0
    end = bounds.seconds() + bounds.longest.total_seconds()
    for chunk in _walk(tx, tx.now - bounds.since):
        for row in chunk[: bounds.most - judged]:
            simulation.judge(_failure(row._mapping, codec))  # noqa: SLF001 - its public name
        judged += len(chunk)
        if judged >= bounds.most:
            return _stopped(simulation, f"after the newest {bounds.most} failures")
        if bounds.seconds() >= end:
            return _stopped(simulation, f"after {bounds.longest.total_seconds():g} seconds")
    return _stopped(simulation, None)


def _stopped(simulation: Simulation, why: str | None) -> SimulatedBefore:
    return SimulatedBefore(found=simulation.result(), stopped=why)


def _walk(tx: Transaction, since: datetime) -> Iterator[list[StoredRow]]:
    """Walk failures in chunks, the newest first. They are numbered as they are stored."""
    below: int | None = None
    while True:
        # Ids first: PostgreSQL might else join all rows before it takes the newest of them.
        newest = select(attempts.attempt_id).order_by(attempts.attempt_id.desc()).limit(_AT_ONCE)
        if below is not None:
            newest = newest.where(attempts.attempt_id < below)
        ids = list(tx.execute(newest).scalars())
        rows = [row for row in _load(tx, ids) if row.received_at >= since]
        # One that changed nothing was not counted, and nothing was decided about it.
        yield [row for row in rows if row.failure_count is not None]
        if len(ids) < _AT_ONCE or not rows:
            return
        below = ids[-1]


def _load(tx: Transaction, ids: Sequence[int]) -> list[StoredRow]:
    query = _STORED.where(tx.sql.member(attempts.attempt_id, ids))
    return list(tx.execute(query.order_by(attempts.attempt_id.desc())))


_STORED = (
    select(
        attempts.attempt_id,
        attempts.number,
        attempts.received_at,
        attempts.dialect,
        attempts.raw_properties,
        attempts.exception_message,
        attempts.stack_trace,
        attempts.reason,
        attempts.failure_count,
        attempts.disposition,
        attempts.policy,
        failed_messages.c.unique_message_id,
        failed_messages.c.maybe_copy_of,
        causes.c.queue,
        causes.c.destination,
        causes.c.endpoint,
        causes.c.message_type,
        causes.c.exception_type,
        causes.c.failure_reason,
    )
    .join_from(processing_attempts, failed_messages, failed_messages.c.number == attempts.number)
    .join(causes, causes.c.cause_id == attempts.cause_id)
)


def _failure(row: Mapping[Any, Any], codec: PropertyCodec) -> StoredFailure:
    said = read_said(codec, row["raw_properties"], dialect=row["dialect"], otherwise=row["queue"])
    details = FailureDetails(
        **{name: row[name] for name in _OF_CAUSE},
        exception_message=row["exception_message"] or said.exception_message,
        stack_trace=row["stack_trace"] or said.stack_trace,
        crashes=said.crashes,
        rejected=said.rejected,
    )
    return StoredFailure(
        unique_message_id=row["unique_message_id"],
        received_at=row["received_at"],
        facts=facts_of(details),
        failures=row["failure_count"],
        reason=row["reason"],
        copy_of=row["maybe_copy_of"],
        verdict=RuleDecision(rule=rule_of(row["policy"]), decision=Disposition(row["disposition"])),
    )


_OF_CAUSE = (
    "queue",
    "destination",
    "endpoint",
    "message_type",
    "exception_type",
    "failure_reason",
)

"""Ingestion is killed at every step once; the next process takes over: nothing lost, nothing twice.

On PostgreSQL at every fourth step; at all of them: `pytest -m kills tests/stages`.
"""

import threading
from collections.abc import Callable
from functools import partial

import pytest
from sqlalchemy import func, select

from retrier.ingestion.arrival import QueueMapping
from retrier.ingestion.ingestor import Ingestor
from retrier.store.engine.database import Database
from retrier.store.recording import record_received
from retrier.store.schema import failed_messages, processing_attempts
from retrier.store.upkeep import probe_write
from tests.support.databases import empty
from tests.support.frozen_clock import FrozenClock
from tests.support.raw_messages import raw_properties, retrier_headers
from tests.support.scripted_transport import ScriptedTransport

QUEUE = "error"
IDS = [f"order-{number}" for number in range(7)]
STEPS = 45
"""Calls, before and after, and events of taking all messages off the queue."""
STEPS_IN_FULL_SWING = 66
"""The same with a prefetch so small that batches are soon taken ahead."""


class Killed(BaseException):
    """The process dies here; nothing in it may catch this."""


class Steps:
    """Counts the steps of a process, and kills it at one of them, by number or by name."""

    def __init__(self, kill_at: int | str | None = None) -> None:
        self.count = 0
        self.kill_at = kill_at

    def __call__(self, name: str) -> None:
        self.count += 1
        if self.kill_at in (self.count, name):
            raise Killed


def make_transport() -> ScriptedTransport:
    made = ScriptedTransport()
    for message_id in IDS:
        raw = raw_properties(retrier_headers(), message_id=message_id)
        made.broker.put(QUEUE, raw, message_id.encode())
    return made


@pytest.fixture
def transport() -> ScriptedTransport:
    return make_transport()


class UntilEmpty(threading.Event):
    """A stop event that is set once the queue is empty."""

    def __init__(self, transport: ScriptedTransport) -> None:
        super().__init__()
        self.broker = transport.broker

    def is_set(self) -> bool:
        """Look at the queue."""
        return not self.broker.holds(QUEUE)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for nothing."""
        del timeout
        return self.is_set()


def ingest_is_pipelined(database: Database, transport: ScriptedTransport, step: Steps) -> None:
    make_ingestor(database, transport, step, prefetch=3).run(UntilEmpty(transport))


def ingest_all(database: Database, transport: ScriptedTransport, step: Steps) -> None:
    ingestor = make_ingestor(database, transport, step)
    while transport.broker.holds(QUEUE):
        ingestor.ingest_once()


def make_ingestor(
    database: Database, transport: ScriptedTransport, step: Steps, prefetch: int = 500
) -> Ingestor:
    transport.before_call = transport.after_call = step

    return Ingestor(
        mapping=QueueMapping(queue=QUEUE),
        transport=transport,
        record=partial(record_received, database, instance="retrier"),
        probe=partial(probe_write, database),
        clock=FrozenClock(),
        emit=lambda event: step(event.name),
        prefetch=prefetch,
    )


Ingest = Callable[[Database, ScriptedTransport, Steps], None]


def die_and_start_again(
    database: Database,
    transport: ScriptedTransport,
    kill_at: int | str,
    ingest: Ingest = ingest_all,
) -> None:
    with pytest.raises(Killed):
        ingest(database, transport, Steps(kill_at))
    transport.drop_connections("the process died")
    ingest(database, transport, Steps())


def test_every_step_is_one_of_those_killed_below(database, transport):
    steps = Steps()

    ingest_all(database, transport, steps)

    assert steps.count == STEPS


def test_pipelined_every_step_is_one_of_those_killed_below(database, transport):
    steps = Steps()

    ingest_is_pipelined(database, transport, steps)

    assert steps.count == STEPS_IN_FULL_SWING


def is_stored_once(database: Database, ingest: Ingest, kill_at: int) -> bool:
    empty(database)
    die_and_start_again(database, make_transport(), kill_at, ingest)
    with database.engine.connect() as conn:
        stored = conn.scalars(select(failed_messages.c.message_id)).all()
        attempts = conn.scalar(select(func.count()).select_from(processing_attempts))
    return (sorted(stored), attempts) == (IDS, len(IDS))


@pytest.mark.parametrize(
    ("database", "every"),
    [
        ("sqlite", 1),
        pytest.param("postgres", 4, marks=pytest.mark.postgres),
        pytest.param("postgres", 1, marks=[pytest.mark.postgres, pytest.mark.kills]),
    ],
    indirect=["database"],
)
@pytest.mark.parametrize(
    ("ingest", "steps"), [(ingest_all, STEPS), (ingest_is_pipelined, STEPS_IN_FULL_SWING)]
)
def test_killed_at_any_step_every_message_is_there_once(
    database: Database, every: int, ingest: Ingest, steps: int
) -> None:
    killed_at = range(1, steps + 1, every)

    assert [step for step in killed_at if not is_stored_once(database, ingest, step)] == []


def test_without_any_id_the_second_copy_says_what_it_may_be_a_copy_of(database):
    transport = ScriptedTransport()
    transport.broker.put(QUEUE, raw_properties(retrier_headers()), b"anonymous")

    die_and_start_again(database, transport, kill_at="ingestion.after_record")

    with database.engine.connect() as conn:
        rows = conn.execute(
            select(failed_messages.c.unique_message_id, failed_messages.c.maybe_copy_of)
        ).all()
    (original,) = [row.unique_message_id for row in rows if row.maybe_copy_of is None]
    assert [row.maybe_copy_of for row in rows if row.unique_message_id != original] == [original]

"""What the processor does is counted once, when it is recorded, whatever happens in between."""

from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry

from retrier.app.metrics import RetryCounters
from retrier.domain.wire import Refused, Returned, Unknown
from retrier.events.event import Event, Harmless
from retrier.events.processor import WindowRecorded, WindowSent
from retrier.store.engine.database import Database
from tests.support.bench import QUEUE, STAGING, Bench, Killed
from tests.support.flaky_database import FlakyDatabase
from tests.support.script import to_queue
from tests.support.told import Told


class Counted:
    """A bench whose processor is counted, across restarts."""

    def __init__(self, db: Database) -> None:
        self._registry = CollectorRegistry()
        self.bench = Bench(db, subscriber=RetryCounters(self._registry))

    @property
    def forwarded(self) -> float | None:
        return self._registry.get_sample_value("retrier_retries_forwarded_total")

    def reverted(self, cause: str) -> float | None:
        name = "retrier_retries_reverted_total"
        return self._registry.get_sample_value(name, {"cause": cause})

    def passed(self, stage: str) -> float | None:
        name = "retrier_stage_duration_seconds_count"
        return self._registry.get_sample_value(name, {"stage": stage})


@pytest.fixture
def counted(database: Database) -> Counted:
    """Give a bench with three failed messages, of which a retry is asked for."""
    made = Counted(database)
    made.bench.fail(3)
    made.bench.ask_all()
    return made


def test_every_forward_is_counted_and_every_stage_timed(counted: Counted) -> None:
    counted.bench.work()

    assert counted.forwarded == 3
    assert [counted.passed(stage) for stage in ("marking", "staging", "forwarding")] == [1, 1, 1]


def test_nothing_is_counted_before_it_is_recorded(counted: Counted) -> None:
    counted.bench.kill_at("forwarding.published")

    with pytest.raises(Killed):
        counted.bench.work()

    assert counted.forwarded == 0


def test_what_a_crash_left_in_doubt_is_counted_once(counted: Counted) -> None:
    counted.bench.kill_at("forwarding.published")
    with pytest.raises(Killed):
        counted.bench.work()

    counted.bench.restart()
    counted.bench.work()

    assert len(counted.bench.sent()) == 6
    assert counted.forwarded == 3


@pytest.mark.parametrize("fault", [FlakyDatabase.refuse, FlakyDatabase.silence])
def test_what_is_recorded_at_the_second_try_is_counted_once(
    database: Database, fault: Callable[[FlakyDatabase, str], None]
) -> None:
    flaky = FlakyDatabase(database)
    counted = Counted(flaky)
    counted.bench.fail(3)
    counted.bench.ask_all()
    counted.bench.at("forwarding.published", lambda: fault(flaky, "complete_batch"))

    counted.bench.work()

    assert "database.unreachable" in counted.bench.told.names
    assert counted.forwarded == 3


@pytest.mark.parametrize(
    ("outcome", "cause"), [(Returned("NO_ROUTE"), "returned"), (Refused("nack"), "refused")]
)
def test_what_the_broker_does_not_take_is_counted_by_its_cause(
    counted: Counted, outcome: Returned | Refused, cause: str
) -> None:
    counted.bench.transport.cue(outcome, when=to_queue(QUEUE))

    counted.bench.work()

    assert counted.forwarded == 2
    assert counted.reverted(cause) == 1


def test_what_cannot_be_staged_is_counted_as_ejected(counted: Counted) -> None:
    counted.bench.fail(1, destination=STAGING)
    counted.bench.ask_all()

    counted.bench.work()

    assert counted.reverted("ejected") == 1


def test_a_lost_connection_is_no_revert(counted: Counted) -> None:
    counted.bench.transport.cue(Unknown("reset"), when=to_queue(QUEUE))

    counted.bench.work()

    assert counted.forwarded == 3
    assert [counted.reverted(cause) for cause in ("ejected", "returned", "refused")] == [0, 0, 0]


def fail_at(event: Event) -> None:
    match event:
        case WindowSent() | WindowRecorded():
            raise RuntimeError
        case _:
            pass


def test_a_subscriber_that_fails_costs_no_retry_and_doubles_none(database: Database) -> None:
    log = Told()
    bench = Bench(database, subscriber=Harmless(fail_at, report=log.tell))
    ids = bench.fail(3)
    bench.ask_all()

    bench.work()

    assert sorted(bench.sent()) == sorted(ids)
    assert log.names == ["subscriber.failed"]

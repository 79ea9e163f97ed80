"""How ingestion is, in words, while the database takes its time, or the broker hands out nothing."""

import pytest

from retrier.app.readiness import Backlogs, describe_ingestion
from retrier.domain.recording import Recorded
from tests.support.ingestion_bench import QUEUE, IngestionBench, make_recorded

CONSUMING = (True, f"{QUEUE}: consuming")


@pytest.fixture
def bench() -> IngestionBench:
    """Give an ingestor that consumes an empty queue."""
    bench = IngestionBench()
    bench.ingestor.ingest_once()
    return bench


def told(bench: IngestionBench, backlogs: Backlogs | None = None) -> tuple[bool, str]:
    return describe_ingestion([bench.ingestor], backlogs or Backlogs(bench.clock))


def look(bench: IngestionBench, *depths: int | None) -> Backlogs:
    """Return what looks at the queue have shown, one every 10 s, the last one now."""
    backlogs = Backlogs(bench.clock)
    for depth in depths:
        bench.clock.advance(10)
        backlogs.note({QUEUE: depth})
    return backlogs


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (14, (True, f"{QUEUE}: consuming")),
        (18, (False, f"{QUEUE}: no progress for 18 s: waits for the database")),
    ],
)
def test_a_batch_that_the_database_does_not_take_is_told(
    seconds: float, expected: tuple[bool, str]
) -> None:
    heard: list[tuple[bool, str]] = []

    def record(*_received: object, **_while_in_flight: object) -> Recorded:
        bench.clock.advance(seconds)
        heard.append(told(bench))
        return make_recorded()

    bench = IngestionBench(record=record)
    bench.ingestor.ingest_once()
    bench.fail(b"one")

    bench.ingestor.ingest_once()

    assert heard == [expected]
    assert told(bench) == CONSUMING


def test_a_queue_on_which_nothing_comes_is_consumed_however_long_that_is(
    bench: IngestionBench,
) -> None:
    assert told(bench, look(bench, 0, None, 0)) == CONSUMING


def test_a_batch_that_was_refused_is_in_hand_no_more(bench: IngestionBench) -> None:
    bench.fail(b"one")
    bench.store.faults = [RuntimeError("odd")]
    bench.turns(1)

    assert bench.ingestor.storing_since is None


def test_a_backlog_of_which_nothing_is_handed_out_is_told(bench: IngestionBench) -> None:
    backlogs = look(bench, 0, 3, 5, 5)

    ready, reason = told(bench, backlogs)

    assert not ready
    assert reason.startswith(
        f"{QUEUE}: 5 messages are ready, and none was handed out here for 20 s"
    )


def test_a_backlog_that_becomes_less_is_somebody_elses_work(bench: IngestionBench) -> None:
    assert told(bench, look(bench, 9, 8, 7)) == CONSUMING


def test_a_backlog_of_which_some_is_handed_out_here_is_worked_on(bench: IngestionBench) -> None:
    backlogs = look(bench, 9, 9, 9)
    bench.fail(b"one")
    bench.ingestor.ingest_once()

    assert told(bench, backlogs) == CONSUMING


def test_a_backlog_that_is_gone_is_forgotten(bench: IngestionBench) -> None:
    assert told(bench, look(bench, 5, 5, 5, 0)) == CONSUMING

"""How ingestion is, in words, while the database takes its time."""

import pytest

from retrier.app.conditions import describe_ingestion
from tests.support.ingestion_bench import QUEUE, IngestionBench


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (14, (True, f"{QUEUE}: consuming")),
        (18, (False, f"{QUEUE}: no progress for 18 s: waits for the database")),
    ],
)
def test_a_batch_that_the_database_does_not_take_is_told(
    seconds: float, told: tuple[bool, str]
) -> None:
    heard: list[tuple[bool, str]] = []

    def record(*_received: object, **_meanwhile: object) -> None:
        bench.clock.advance(seconds)
        heard.append(describe_ingestion([bench.ingestor]))

    bench = IngestionBench(record=record)
    bench.ingestor.ingest_once()
    bench.fail(b"one")

    bench.ingestor.ingest_once()

    assert heard == [told]
    assert describe_ingestion([bench.ingestor]) == (True, f"{QUEUE}: consuming")


def test_a_queue_on_which_nothing_comes_is_consumed_however_long_that_is() -> None:
    bench = IngestionBench()
    bench.ingestor.ingest_once()

    bench.clock.advance(1000)

    assert describe_ingestion([bench.ingestor]) == (True, f"{QUEUE}: consuming")


def test_a_batch_that_was_refused_is_in_hand_no_more() -> None:
    bench = IngestionBench()
    bench.ingestor.ingest_once()
    bench.fail(b"one")
    bench.store.faults = [RuntimeError("odd")]
    bench.turns(1)

    assert bench.ingestor.storing_since is None

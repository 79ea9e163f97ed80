"""The loop of one error queue."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

import pytest

from retrier.domain.failed_message import FailedImport, OwnCopy, Received
from retrier.domain.headers import INSTALLATION_ID, STAGING_ID
from retrier.domain.recording import Recorded
from retrier.errors import DatabaseUnavailable
from retrier.ingestion.ingestor import IngestionState
from tests.support.ingestion_bench import QUEUE, IngestionBench, make_recorded
from tests.support.raw_messages import raw_properties

DOWN = DatabaseUnavailable("no route to the database")


@pytest.fixture
def bench() -> IngestionBench:
    return IngestionBench()


class TestIngesting:
    def test_what_is_recorded_is_acknowledged(self, bench):
        bench.fail(b"one")

        ingested = bench.ingestor.ingest_once()

        assert (ingested, bench.recorded()) == (1, [[b"one"]])
        assert bench.transport.broker.holds(QUEUE) == []

    def test_nothing_is_acknowledged_before_it_is_recorded(self):
        held: list[int] = []
        bench = IngestionBench(lambda _event: held.append(len(bench.transport.broker.holds(QUEUE))))
        bench.fail(b"one")

        bench.ingestor.ingest_once()

        assert held == [1, 1, 1, 0, 0]

    def test_each_step_is_told_in_order(self):
        points: list[str] = []
        bench = IngestionBench(lambda event: points.append(event.name))
        bench.fail(b"one")

        bench.ingestor.ingest_once()

        assert points == [
            "ingestion.opened",
            "ingestion.before_record",
            "ingestion.after_record",
            "ingestion.after_ack",
            "ingestion.started",
        ]

    def test_why_it_pauses_can_be_seen_as_soon_as_it_is_told(self):
        seen = []
        bench = IngestionBench(lambda event: seen.append((event.name, bench.ingestor.state.reason)))
        bench.store.probe_faults.append(DatabaseUnavailable("it is away"))

        bench.turns(1)

        assert ("ingestion.paused", "it is away") in seen

    def test_an_empty_queue_records_nothing(self, bench):
        ingested = bench.ingestor.ingest_once()

        assert (ingested, bench.recorded()) == (0, [])

    def test_an_empty_queue_is_waited_on_for_a_second_once_it_is_consumed(self, bench):
        waited: list[float] = []
        bench.transport.on_idle = waited.append

        bench.turns(3)

        assert waited == [0.05, 1.0, 1.0]

    def test_it_is_consumed_before_anything_has_come(self, bench):
        bench.ingestor.ingest_once()

        assert bench.ingestor.state.consuming

    def test_a_first_look_does_not_say_that_a_queue_is_empty(self, bench):
        """Its messages may be on their way."""
        bench.ingestor.ingest_once()
        assert bench.ingestor.empty_since is None

        bench.ingestor.ingest_once()
        assert bench.ingestor.empty_since is not None

    def test_a_received_batch_is_recorded_in_one_transaction(self, bench):
        bench.fail(*[b"%d" % number for number in range(7)])

        for _ in range(3):
            bench.ingestor.ingest_once()

        assert [len(batch) for batch in bench.recorded()] == [1, 2, 4]

    def test_a_message_nobody_understands_does_not_block_the_others(self, bench):
        bench.transport.broker.put(QUEUE, b"\xff", b"garbage")
        bench.fail(b"one")

        bench.ingestor.ingest_once()
        bench.ingestor.ingest_once()

        assert bench.recorded() == [[b"garbage"], [b"one"]]
        assert isinstance(bench.store.batches[0][0], FailedImport)

    def test_times_of_receipt_come_from_the_clock(self, bench):
        bench.fail(b"one")

        bench.ingestor.ingest_once()

        assert bench.store.batches[0][0].received_at == bench.clock.now()


class TestSlowStart:
    def test_the_first_prefetch_is_one_and_doubles_per_committed_batch(self, bench):
        bench.fail(*[b"x"] * 7)
        seen = []

        for _ in range(3):
            bench.ingestor.ingest_once()
            seen.append(bench.consumer().prefetch)

        assert seen == [2, 4, 8]

    def test_the_prefetch_stays_below_the_configured_one(self):
        bench = IngestionBench(prefetch=3)
        bench.fail(*[b"x"] * 20)

        for _ in range(4):
            bench.ingestor.ingest_once()

        assert bench.consumer().prefetch == 3

    def test_an_empty_queue_opens_nothing_up(self, bench):
        bench.ingestor.ingest_once()

        assert bench.consumer().prefetch == 1

    def test_large_messages_are_taken_one_by_one(self, bench):
        bench.fail(*[b"x" * 40 * 1024 * 1024] * 2)

        bench.ingestor.ingest_once()

        assert bench.consumer().prefetch == 1
        assert "consumer.resume" not in bench.transport.calls

    def test_a_batch_that_is_not_full_opens_nothing_up(self, bench):
        # Given a window of two, of which one comes: more may be on its way
        bench.fail(b"x")
        bench.ingestor.ingest_once()
        bench.fail(b"x")

        bench.ingestor.ingest_once()

        assert bench.consumer().prefetch == 2

    def test_the_consumer_ends_before_anything_of_its_window_is_acknowledged(self, bench):
        bench.fail(b"x")

        bench.ingestor.ingest_once()

        assert [call for call in bench.transport.calls if call.startswith("consumer.")] == [
            "consumer.receive",
            "consumer.cease",
            "consumer.ack",
            "consumer.resume",
        ]

    def test_what_comes_while_it_ends_is_stored_before_it_consumes_again(self, bench):
        # Given a window that shrinks while messages of it are not received yet
        bench.fail(*[b"x"] * 3)
        for _ in range(2):
            bench.ingestor.ingest_once()
        large = b"x" * 20 * 1024 * 1024
        bench.fail(*[large] * 5)

        for _ in range(2):
            bench.ingestor.ingest_once()

        assert [len(batch) for batch in bench.recorded()] == [1, 2, 4, 1]

    def test_after_an_interruption_it_starts_small_again(self, bench):
        bench.fail(*[b"x"] * 7)
        bench.turns(2)
        bench.fail(b"y")

        bench.ingestor.ingest_once()

        assert [len(batch) for batch in bench.recorded()] == [1, 2, 4, 1]


class TestTelling:
    def test_failed_imports_are_told_once_a_batch_and_reason(self, bench):
        bench.fail(b"one")
        bench.ingestor.ingest_once()
        for _ in range(2):
            bench.transport.broker.put(QUEUE, raw_properties({"Shop.Tenant": "north"}))

        bench.ingestor.ingest_once()

        assert bench.told.names == ["ingestion.started", "ingestion.failed_import"]

    def test_own_copies_are_told_once_a_batch(self, bench):
        bench.fail(b"one")
        bench.ingestor.ingest_once()
        for number in range(2):
            stamps = {STAGING_ID: str(number), INSTALLATION_ID: str(uuid4())}
            bench.transport.broker.put(QUEUE, raw_properties(stamps))

        bench.ingestor.ingest_once()

        assert bench.told.names == ["ingestion.started", "ingestion.own_copy"]

    def test_copies_of_others_are_told_once_a_batch_and_installation(self):
        def record(_received: Sequence[Received], **_others: object) -> Recorded:
            copy = OwnCopy(staging_id="s", unique_message_id=None, error_queue=QUEUE)
            return make_recorded(
                *(replace(copy, of_another=name) for name in ("one", "two", "one"))
            )

        bench = IngestionBench(record=record)
        bench.fail(b"one")

        bench.ingestor.ingest_once()

        told = [each for each in bench.told.events if each[0] == "ingestion.copy_of_another"]
        assert [(fields["installation_id"], fields["count"]) for _, fields in told] == [
            ("one", 2),
            ("two", 1),
        ]


class TestState:
    def test_before_it_starts_it_says_so(self, bench):
        assert bench.ingestor.state == IngestionState(
            queue=QUEUE, consuming=False, reason="not started yet"
        )

    def test_while_it_works_there_is_no_reason(self, bench):
        bench.ingestor.ingest_once()

        assert bench.ingestor.state == IngestionState(queue=QUEUE, consuming=True, reason=None)

    def test_while_it_waits_it_says_for_what(self, bench):
        states: list[IngestionState] = []
        bench.transport.on_idle = lambda _seconds: states.append(bench.ingestor.state)
        bench.store.probe_faults = [DOWN]

        bench.turns(2)

        assert states == [
            IngestionState(queue=QUEUE, consuming=False, reason="no route to the database")
        ]

    def test_when_it_stops_it_closes_its_consumer(self, bench):
        bench.turns(1)

        assert bench.ingestor.state.reason == "stopped"
        assert bench.transport.connected() == 0

    def test_when_it_stops_it_stores_what_it_was_handed(self, bench):
        bench.fail(*[b"x"] * 7)

        bench.turns(2)

        assert [len(batch) for batch in bench.recorded()] == [1, 2, 4]
        assert bench.transport.broker.holds(QUEUE) == []

    def test_what_cannot_be_stored_when_it_stops_stays_on_the_queue(self, bench):
        bench.fail(*[b"x"] * 7)
        bench.store.faults = [None, None, DOWN]

        bench.turns(2)

        assert len(bench.transport.broker.ready(QUEUE)) == 4
        assert bench.told.names == ["ingestion.started", "ingestion.paused"]
        assert bench.transport.connected() == 0

    def test_a_stop_before_the_first_turn_opens_nothing(self, bench):
        stop = bench.turns(1)
        opened = len(bench.transport.calls)

        bench.ingestor.run(stop)

        assert len(bench.transport.calls) == opened


class TestPausing:
    def test_after_a_batch_others_get_a_turn_at_the_database(self):
        bench = IngestionBench(pause=0.01)
        bench.fail(b"one")

        stop = bench.turns(2)

        assert stop.waits == [0.01, 0.0]

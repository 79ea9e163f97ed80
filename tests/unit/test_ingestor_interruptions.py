"""What ingestion does when database, broker or data fail it."""

import pytest

from retrier.domain.failed_message import FailedImport
from retrier.errors import BrokerUnavailable, DatabaseUnavailable, DataRefused
from tests.support.ingestion_bench import QUEUE, IngestionBench

DOWN = DatabaseUnavailable("no route to the database")


@pytest.fixture
def bench() -> IngestionBench:
    return IngestionBench()


class TestWithoutDatabase:
    def test_nothing_is_asked_of_the_broker_before_a_write_succeeded(self, bench):
        bench.store.probe_faults = [DOWN] * 3

        bench.turns(3)

        assert "transport.consumer" not in bench.transport.calls

    def test_the_consumer_is_closed_once_and_opened_after_the_next_write(self, bench):
        bench.fail(b"one")
        bench.store.faults = [DOWN]
        bench.store.probe_faults = [None, DOWN, DOWN]

        bench.turns(4)

        consuming = [call for call in bench.transport.calls if "consumer" in call]
        assert consuming == [
            "transport.consumer",
            "consumer.receive",
            "consumer.close",
            "transport.consumer",
            "consumer.receive",
            "consumer.cease",
            "consumer.ack",
            "consumer.resume",
            "consumer.cease",
            "consumer.close",
        ]

    def test_what_was_not_recorded_comes_again(self, bench):
        bench.fail(b"one")
        bench.store.faults = [DOWN]

        bench.turns(2)

        assert [each.redelivered for each in bench.store.batches[0]] == [True]

    def test_it_waits_longer_each_time_up_to_ten_seconds(self, bench):
        bench.store.probe_faults = [DOWN] * 8

        stop = bench.turns(8)

        assert stop.waits == [1, 2, 4, 8, 10, 10, 10, 10]

    def test_after_a_success_it_waits_little_again(self, bench):
        bench.store.probe_faults = [DOWN, DOWN]
        bench.turns(3)
        bench.transport.go_down()

        stop = bench.turns(1)

        assert stop.waits == [1]

    def test_it_is_told_once_however_often_it_is_tried(self, bench):
        bench.store.probe_faults = [DOWN] * 5

        bench.turns(6)

        assert bench.told.events == [
            ("ingestion.paused", {"queue": QUEUE, "reason": "no route to the database"}),
            ("ingestion.started", {"queue": QUEUE}),
        ]


class TestWithoutBroker:
    def test_it_connects_again_when_the_broker_is_back(self, bench):
        bench.fail(b"one", b"two")
        bench.turns(1)
        bench.transport.go_down("connection refused")
        bench.turns(2)
        bench.transport.come_up()

        bench.turns(1)

        assert bench.recorded() == [[b"one"], [b"two"]]

    @pytest.mark.parametrize(
        "call", ["consumer.receive", "consumer.cease", "consumer.ack", "consumer.resume"]
    )
    def test_a_connection_that_breaks_at_any_call_is_replaced(self, bench, call):
        bench.fail(b"one", b"two")
        bench.transport.fail(call, BrokerUnavailable("reset"))

        bench.turns(4)

        assert {body for batch in bench.recorded() for body in batch} == {b"one", b"two"}
        assert bench.transport.broker.holds(QUEUE) == []

    def test_a_lost_acknowledgement_brings_the_message_again_marked_redelivered(self, bench):
        bench.fail(b"one")
        bench.transport.fail("consumer.ack", BrokerUnavailable("reset"))

        bench.turns(2)

        assert [[each.redelivered for each in batch] for batch in bench.store.batches] == [
            [False],
            [True],
        ]

    def test_each_change_is_told_once(self, bench):
        bench.turns(1)
        bench.transport.go_down("connection refused")
        bench.turns(3)
        bench.transport.come_up()
        bench.turns(2)

        assert bench.told.names == [
            "ingestion.started",
            "ingestion.paused",
            "ingestion.resumed",
        ]

    def test_a_connection_that_breaks_at_once_each_time_is_told_once(self, bench):
        bench.transport.fail("consumer.receive", BrokerUnavailable("reset"), times=4)

        bench.turns(5)

        assert bench.told.names == ["ingestion.paused", "ingestion.started"]

    def test_a_deleted_queue_is_tried_again(self, bench):
        bench.turns(1)
        bench.transport.broker.delete(QUEUE)
        bench.turns(2)
        bench.fail(b"one")

        bench.turns(1)

        assert bench.recorded() == [[b"one"]]


class TestAProcessThatStoodStill:
    """The broker has given it up meanwhile, and its messages to another one, which stores them."""

    def flags(self, bench):
        return [[each.redelivered for each in batch] for batch in bench.store.batches]

    def once(self, act):
        """Return what does it, the first time it is called."""
        left = [act]
        return lambda *_: left.pop()() if left else None

    def test_stores_nothing_that_it_was_sent_before_it_was_frozen(self, bench):
        bench.turns(1)
        bench.transport.on_idle = self.once(
            lambda: (bench.fail(b"one"), bench.transport.stand_still())
        )

        bench.turns(3)

        assert bench.told.names[:2] == ["ingestion.started", "ingestion.paused"]
        assert self.flags(bench) == [[True]]

    def test_stores_nothing_after_a_long_wait_for_a_lock(self, bench):
        bench.fail(b"one")
        bench.store.waits = self.once(bench.transport.stand_still)

        bench.turns(3)

        assert self.flags(bench) == [[True]]

    def test_stores_nothing_that_it_received_ahead(self):
        bench = IngestionBench(prefetch=3)
        bench.fail(b"one", b"two", b"three", b"four", b"five")
        acks = []
        bench.transport.after_call = lambda name: (
            (acks.append(name), len(acks) == 3 and bench.transport.stand_still())
            if name == "consumer.ack"
            else None
        )

        bench.turns(6)

        assert bench.recorded() == [[b"one"], [b"two", b"three"], [b"four"], [b"five"]]
        assert self.flags(bench) == [[False], [False, False], [False], [True]]

    def test_connects_anew_at_once_with_nothing_in_hand(self, bench):
        bench.transport.on_idle = self.once(bench.transport.stand_still)

        bench.turns(3)

        assert bench.transport.calls.count("transport.consumer") == 2
        assert bench.told.names == ["ingestion.paused", "ingestion.started"]

    def test_says_why_it_receives_all_of_it_again(self, bench):
        bench.fail(b"one")
        bench.store.waits = bench.transport.stand_still

        bench.turns(1)

        told = dict(bench.told.events)["ingestion.paused"]
        assert told["reason"] == (
            "the connection to the broker at in memory ended, or nothing was said on it for too long: "
            "others may have what is in hand, so all of it is received again"
        )


class TestAQueueThatCannotBeIngested:
    REASON = "it is a stream"

    def test_is_named_with_the_reason_and_nothing_is_taken_off_it(self, bench):
        bench.transport.not_ingestible[QUEUE] = self.REASON
        bench.fail(b"one")

        bench.turns(3)

        assert "transport.consumer" not in bench.transport.calls
        assert bench.told.events == [("ingestion.paused", {"queue": QUEUE, "reason": self.REASON})]

    def test_is_ingested_once_another_one_is_in_its_place(self, bench):
        bench.transport.not_ingestible[QUEUE] = self.REASON
        bench.turns(2)
        bench.transport.not_ingestible.clear()
        bench.fail(b"one")

        bench.turns(1)

        assert bench.recorded() == [[b"one"]]


class TestAQueueThatIsMissing:
    def test_is_not_declared_and_told_once(self, bench):
        bench.transport.broker.delete(QUEUE)

        stop = bench.turns(3)

        assert QUEUE not in bench.transport.broker.queues
        assert bench.told.events == [("ingestion.queue_missing", {"queue": QUEUE})]
        assert stop.waits == [3.0, 3.0, 3.0]

    def test_is_ingested_once_it_is_there(self, bench):
        bench.transport.broker.delete(QUEUE)
        bench.turns(2)
        bench.transport.broker.declare(QUEUE)
        bench.fail(b"one")

        bench.turns(1)

        assert bench.recorded() == [[b"one"]]

    def test_is_told_again_when_it_is_lost_again(self, bench):
        for _ in range(2):
            bench.transport.broker.delete(QUEUE)
            bench.turns(2)
            bench.transport.broker.declare(QUEUE)
            bench.turns(1)

        assert bench.told.names.count("ingestion.queue_missing") == 2

    def test_is_declared_if_that_is_wanted(self):
        bench = IngestionBench(declare_missing=True)
        bench.transport.broker.delete(QUEUE)

        bench.turns(1)

        assert QUEUE in bench.transport.broker.queues
        assert bench.told.names == ["ingestion.started"]


class TestAWorkQueue:
    def test_is_refused_before_anything_is_taken(self, bench):
        bench.transport.consumers[QUEUE] = 2
        bench.transport.dead_letters[QUEUE] = True

        bench.turns(2)

        assert "transport.consumer" not in bench.transport.calls
        assert bench.told.names == ["ingestion.paused"]

    def test_is_not_seen_in_our_own_old_consumer_after_a_lost_connection(self, bench):
        bench.transport.dead_letters[QUEUE] = True
        bench.turns(1)
        bench.transport.consumers[QUEUE] = 1
        bench.fail(b"one")

        bench.turns(1)

        assert bench.recorded() == [[b"one"]]


class TestRefusedData:
    REFUSAL = DataRefused("invalid byte sequence")

    def test_the_guilty_one_becomes_a_failed_import_and_the_others_are_stored(self, bench):
        bench.fail(*[b"good"] * 3, b"bad", b"good")
        bench.store.refuses = {b"bad": self.REFUSAL}

        for _ in range(3):
            bench.ingestor.ingest_once()

        assert bench.recorded() == [[b"good"], [b"good", b"good"], [b"bad"], [b"good"]]
        assert bench.transport.broker.holds(QUEUE) == []

    def test_the_failed_import_says_what_the_database_said(self, bench):
        bench.fail(b"bad")
        bench.store.refuses = {b"bad": self.REFUSAL}

        bench.ingestor.ingest_once()

        (recorded,) = bench.store.batches[0]
        assert isinstance(recorded, FailedImport)
        assert recorded.reason == "the database refuses it: invalid byte sequence"

    def test_a_failed_import_that_is_refused_too_stays_on_the_queue(self, bench):
        bench.fail(b"bad")
        bench.store.faults = [self.REFUSAL] * 3

        bench.turns(1)

        assert bench.told.events == [
            ("ingestion.paused", {"queue": QUEUE, "reason": "invalid byte sequence"})
        ]
        assert len(bench.transport.broker.ready(QUEUE)) == 1


class TestUnforeseenFailures:
    def test_the_loop_outlives_them_and_tells_what_kind_it_was(self, bench):
        bench.fail(b"one")
        bench.store.faults = [ZeroDivisionError("with a body in its words")]

        bench.turns(2)

        assert bench.told.events[0][1]["reason"] == "unforeseen ZeroDivisionError"
        assert bench.recorded() == [[b"one"]]

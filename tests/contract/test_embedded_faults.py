"""The embedded broker with its file locked, full, gone or not its own: what is known afterwards."""

import resource
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest

from retrier.domain.wire import Confirmed, Outgoing, Refused, Returned, Unknown
from retrier.errors import BrokerUnavailable, LeaseLost, StagingQueueUnusable
from retrier.transport.embedded import EmbeddedTransport
from retrier.transport.embedded.broker_file import (
    BUSY_TIMEOUT,
    LARGEST_MESSAGE,
    SCHEMA,
    BrokerFile,
    CommitUnknown,
)
from retrier.transport.seam import Publisher, Queues
from tests.contract.embedded_fixtures import EmbeddedFixtures, ask_file, take_leases_away
from tests.contract.transport_fixtures import Consume, nothing
from tests.support.receiving import bodies, receive
from tests.support.waiting import wait_until

LEASE_ENDS = "SELECT until FROM holders"
SHORT_TIMEOUT = 0.5
"""Seconds to wait for others that write."""
LEASE = 3.0
"""Seconds for which a slow machine may stand still: a consumer ends its own lease that ran out."""


@contextmanager
def written_by_another(path: Path) -> Iterator[sqlite3.Connection]:
    """Let another program be in the middle of a transaction."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    yield other
    other.rollback()
    other.close()


@contextmanager
def full_disk(path: Path) -> Iterator[None]:
    """Let no file of this process become larger than this one is."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


class FaultFixtures(EmbeddedFixtures):
    @pytest.fixture
    def transport(self, url: str) -> EmbeddedTransport:
        return EmbeddedTransport(url, busy_timeout=SHORT_TIMEOUT)

    @pytest.fixture
    def path(self, transport: EmbeddedTransport) -> Path:
        return transport.path


class TestRefusing(FaultFixtures):
    def test_refuses_what_no_program_could_read(self, publisher: Publisher, queue: str) -> None:
        good, bad = self.message(queue), Outgoing(queue=queue, raw=b"[]", body=b"")

        outcomes = publisher.publish([good, bad, good], nothing)

        never = Refused("the envelope is not a JSON object", unsendable=True)
        assert outcomes == (Confirmed(), never, Confirmed())

    def test_refuses_what_is_too_large(
        self, publisher: Publisher, queues: Queues, queue: str
    ) -> None:
        (outcome,) = publisher.publish([self.message(queue, bytes(LARGEST_MESSAGE))], nothing)

        assert isinstance(outcome, Refused)
        assert str(LARGEST_MESSAGE) in outcome.reason
        assert outcome.unsendable
        assert queues.depth(queue) == 0

    def test_refuses_a_queue_whose_name_is_no_text(self, publisher: Publisher) -> None:
        (outcome,) = publisher.publish([self.message("\ud800")], nothing)

        assert isinstance(outcome, Refused)

    def test_names_the_queue_that_is_missing_and_the_file(
        self, publisher: Publisher, path: Path
    ) -> None:
        outcomes = publisher.publish([self.message("missing")], nothing)

        assert outcomes == (Returned(f"it is not in {path}"),)

    def test_a_staging_queue_of_somebody_else_that_is_empty_is_declared_anew(
        self, queues: Queues, queue: str, consume: Consume
    ) -> None:
        consumer = consume(queue)

        queues.declare_staging_queue(queue)

        with pytest.raises(BrokerUnavailable):
            consumer.receive(1, 0)

    def test_a_staging_queue_of_somebody_else_that_holds_messages_is_left_alone(
        self, queues: Queues, publisher: Publisher, queue: str
    ) -> None:
        publisher.publish(self.numbered(queue, 2), nothing)

        with pytest.raises(StagingQueueUnusable, match=f"{queue}.*2 messages.*another name"):
            queues.declare_staging_queue(queue)

        assert queues.depth(queue) == 2

    def test_a_missing_queue_cannot_be_purged(self, queues: Queues) -> None:
        with pytest.raises(BrokerUnavailable, match="missing"):
            queues.purge("missing")

    def test_no_queue_limits_deliveries(self, queues: Queues, queue: str) -> None:
        assert queues.delivery_limit(queue) is None


class TestLockedFile(FaultFixtures):
    def test_waits_for_others_that_write_and_says_that_it_waits(
        self, url: str, publisher: Publisher, path: Path, queue: str
    ) -> None:
        waiting = EmbeddedTransport(url).publisher()
        with written_by_another(path) as other:
            outcomes = waiting.publish([self.message(queue)], other.rollback)
        waiting.close()

        assert outcomes == (Confirmed(),)
        assert publisher.publish([self.message(queue)], nothing) == (Confirmed(),)

    def test_gives_up_when_its_timeout_ends_and_nothing_was_sent(
        self, publisher: Publisher, queues: Queues, path: Path, queue: str
    ) -> None:
        with (
            written_by_another(path),
            pytest.raises(BrokerUnavailable, match=f"{path}: database is locked"),
        ):
            publisher.publish([self.message(queue)], nothing)

        assert queues.depth(queue) == 0
        assert publisher.publish([self.message(queue)], nothing) == (Confirmed(),)

    def test_what_waiting_raises_goes_through_and_nothing_was_sent(
        self, publisher: Publisher, queues: Queues, path: Path, queue: str
    ) -> None:
        def lose() -> None:
            raise LeaseLost

        with written_by_another(path), pytest.raises(LeaseLost):
            publisher.publish([self.message(queue)], lose)

        assert queues.depth(queue) == 0
        assert publisher.publish([self.message(queue)], nothing) == (Confirmed(),)

    def test_a_consumer_that_cannot_acknowledge_is_closed(
        self, publisher: Publisher, consume: Consume, path: Path, queue: str
    ) -> None:
        publisher.publish([self.message(queue)], nothing)
        consumer = consume(queue)
        received = receive(consumer, 1)

        with written_by_another(path), pytest.raises(BrokerUnavailable, match="locked"):
            consumer.ack(received)

        with pytest.raises(BrokerUnavailable, match="closed"):
            consumer.ack(received)

    def test_an_empty_queue_is_looked_at_without_any_lock(
        self, consume: Consume, path: Path, queue: str
    ) -> None:
        consumer = consume(queue)

        with written_by_another(path):
            assert consumer.receive(1, 0.1) == []

    def test_many_that_open_a_new_file_at_once_all_get_it(self, path: Path) -> None:
        opened: list[BrokerFile] = []
        threads = [
            threading.Thread(target=lambda: opened.append(BrokerFile(path, SCHEMA)))
            for _ in range(8)
        ]

        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for each in opened:
            each.close()

        assert len(opened) == 8


class TestFullDisk(FaultFixtures):
    def test_a_window_that_finds_no_room_is_not_sent(
        self, publisher: Publisher, queues: Queues, path: Path, queue: str
    ) -> None:
        window = [self.message(queue, bytes(100_000))] * 50

        with full_disk(path), pytest.raises(BrokerUnavailable, match=f"{path}: ") as unavailable:
            publisher.publish(window, nothing)

        assert not isinstance(unavailable.value, CommitUnknown)
        assert queues.depth(queue) == 0
        assert publisher.publish([self.message(queue)], nothing) == (Confirmed(),)

    def test_a_commit_that_finds_no_room_leaves_the_window_unknown(
        self, publisher: Publisher, queues: Queues, path: Path, queue: str
    ) -> None:
        window = [
            self.message(queue, b"small"),
            Outgoing(queue=queue, raw=b"", body=b""),
            self.message(queue, b"another"),
        ]

        with full_disk(path.with_name("broker.db-wal")):
            first, second, third = publisher.publish(window, nothing)

        assert isinstance(first, Unknown)
        assert str(path) in first.reason
        assert isinstance(second, Refused)
        assert isinstance(third, Unknown)
        assert queues.depth(queue) in (0, 2)
        assert publisher.publish([self.message(queue)], nothing) == (Confirmed(),)


class TestWrongFile(FaultFixtures):
    def test_a_file_that_was_deleted_confirms_nothing(
        self, publisher: Publisher, path: Path, queue: str
    ) -> None:
        path.unlink()

        with pytest.raises(BrokerUnavailable, match="deleted or replaced"):
            publisher.publish([self.message(queue)], nothing)

    def test_a_file_that_is_deleted_while_others_are_waited_for_confirms_nothing(
        self, publisher: Publisher, path: Path, queue: str
    ) -> None:
        def delete(other: sqlite3.Connection) -> None:
            path.unlink(missing_ok=True)
            other.rollback()

        with written_by_another(path) as other:
            (outcome,) = publisher.publish([self.message(queue)], lambda: delete(other))

        assert isinstance(outcome, Unknown)
        assert "deleted or replaced" in outcome.reason

    def test_a_publisher_opens_a_file_that_was_replaced(
        self, transport: EmbeddedTransport, publisher: Publisher, path: Path, queue: str
    ) -> None:
        for each in path.parent.glob("broker.db*"):
            each.unlink()
        again = transport.queues()
        again.declare_error_queue(queue)
        with pytest.raises(BrokerUnavailable):
            publisher.publish([self.message(queue)], nothing)

        outcomes = publisher.publish([self.message(queue)], nothing)

        assert outcomes == (Confirmed(),)
        assert again.depth(queue) == 1
        again.close()

    def test_a_consumer_of_a_file_that_was_deleted_is_told_so(
        self, consume: Consume, path: Path, queue: str
    ) -> None:
        consumer = consume(queue)
        path.unlink()

        with pytest.raises(BrokerUnavailable, match="deleted or replaced"):
            consumer.receive(1, 0)

    def test_a_database_of_something_else_is_left_alone(
        self, transport: EmbeddedTransport, path: Path
    ) -> None:
        other = sqlite3.connect(path)
        other.execute("CREATE TABLE failed_messages (id)")
        before = path.read_bytes()

        with pytest.raises(BrokerUnavailable, match="not an embedded broker's"):
            transport.queues()

        assert path.read_bytes() == before
        other.close()

    def test_a_file_that_is_no_database_is_left_alone(
        self, transport: EmbeddedTransport, path: Path
    ) -> None:
        path.write_bytes(b"something else" * 1000)

        with pytest.raises(BrokerUnavailable, match=f"{path}: file is not a database"):
            transport.queues()

        assert path.read_bytes() == b"something else" * 1000

    def test_a_folder_that_cannot_be_made_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")

        with pytest.raises(BrokerUnavailable, match="file"):
            EmbeddedTransport(f"embedded:///{tmp_path}/file/broker.db").queues()

    def test_a_file_that_is_missing_is_made_with_its_folder(self, tmp_path: Path) -> None:
        transport = EmbeddedTransport(f"embedded:///{tmp_path}/a/b/broker.db")

        transport.queues().close()

        assert (tmp_path / "a/b/broker.db").exists()


class TestLostLease(FaultFixtures):
    @pytest.fixture
    def transport(self, url: str) -> EmbeddedTransport:
        return EmbeddedTransport(url, lease=LEASE)

    @pytest.mark.parametrize("settle", ["ack", "put_back"])
    def test_who_settles_what_others_were_handed_is_told_so(
        self, publisher: Publisher, consume: Consume, path: Path, queue: str, settle: str
    ) -> None:
        publisher.publish(self.numbered(queue, 2), nothing)
        consumer = consume(queue)
        received = receive(consumer, 2)
        take_leases_away(path)

        with pytest.raises(BrokerUnavailable, match="lease"):
            getattr(consumer, settle)(received)

        assert bodies(receive(consume(queue), 2)) == [b"0", b"1"]

    def test_who_takes_more_is_told_so(
        self, publisher: Publisher, consume: Consume, path: Path, queue: str
    ) -> None:
        consumer = consume(queue)
        take_leases_away(path)
        publisher.publish([self.message(queue)], nothing)

        with pytest.raises(BrokerUnavailable, match="lease"):
            consumer.receive(1, 0)

    def test_who_holds_nothing_any_more_does_not_believe_it_for_longer_than_the_lease(
        self, consume: Consume, path: Path, queue: str
    ) -> None:
        consumer = consume(queue)
        take_leases_away(path)

        wait_until(lambda: not consumer.surely_holds(), 20)

    def test_settling_what_a_deleted_queue_held_is_fine(
        self, publisher: Publisher, consume: Consume, queues: Queues, queue: str
    ) -> None:
        publisher.publish(self.numbered(queue, 2), nothing)
        consumer = consume(queue)
        received = receive(consumer, 2)
        queues.delete(queue)

        consumer.ack(received)

        assert queues.depth(queue) is None

    def test_a_consumer_that_is_busy_keeps_its_lease(
        self, publisher: Publisher, consume: Consume, path: Path, queue: str
    ) -> None:
        publisher.publish([self.message(queue)], nothing)
        consumer = consume(queue)
        received = receive(consumer, 1)
        ((start,),) = ask_file(path, LEASE_ENDS)

        wait_until(lambda: ask_file(path, LEASE_ENDS)[0][0] > start + LEASE, 20)
        wait_until(consumer.surely_holds, 20)
        consumer.ack(received)


class TestClosing(FaultFixtures):
    def test_everything_that_is_closed_says_so(
        self, publisher: Publisher, queues: Queues, consume: Consume, queue: str
    ) -> None:
        consumer = consume(queue)
        consumer.close()
        queues.close()

        with pytest.raises(BrokerUnavailable, match="closed"):
            consumer.resume(5)
        with pytest.raises(BrokerUnavailable, match="closed"):
            queues.depth(queue)
        publisher.close()

    def test_a_consumer_closes_in_a_moment_also_while_others_write(
        self, url: str, path: Path, queue: str
    ) -> None:
        # Given a consumer that waits half a minute for others, as it does by default
        consumer = EmbeddedTransport(url).consumer(queue, 1)
        start = monotonic()

        with written_by_another(path):
            consumer.close()

        assert monotonic() - start < BUSY_TIMEOUT / 2

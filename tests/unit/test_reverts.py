"""What is told of messages that came back: one line a minute for each destination."""

import pytest

from retrier.app.log import LogLine, Reverts
from retrier.domain.retry_batch import Ejected, RevertCause, WindowResult
from retrier.events.processor import WindowRecorded
from tests.support.frozen_clock import FrozenClock


class Log:
    """The thing under test, and what an operator reads of it."""

    def __init__(self) -> None:
        self.clock = FrozenClock()
        self._written: list[LogLine] = []
        self.reverts = Reverts(self._written.append, self.clock)
        self._made = 0

    def come_back(self, count: int, *, destination: str = "orders", reason: str = "full") -> None:
        """Let so many messages of one window come back."""
        self._made += 1
        name = f"{self._made}"
        reverted = tuple(
            Ejected(
                number=number,
                unique_message_id=f"{name}.{number}",
                reason=reason,
                cause=RevertCause.REFUSED,
                destination=destination,
            )
            for number in range(count)
        )
        self.reverts.add(
            WindowRecorded(
                batch_id=f"batch {name}",
                operation_id=f"operation {name}",
                result=WindowResult(reverted=reverted),
            )
        )
        self.reverts.write_due()

    @property
    def lines(self) -> list[dict[str, object]]:
        assert {line.name for line in self._written} <= {"message.reverted"}
        return [dict(line.fields) for line in self._written]

    @property
    def counts(self) -> list[tuple[object, object]]:
        return [(line["destination"], line["count"]) for line in self.lines]


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_window_is_one_line_with_one_message_for_example(log: Log) -> None:
    log.come_back(200)

    assert log.lines == [
        {
            "destination": "orders",
            "count": 200,
            "unique_message_id": "1.0",
            "batch_id": "batch 1",
            "operation_id": "operation 1",
            "reason": "full",
        }
    ]


def test_each_destination_is_told_of_at_once(log: Log) -> None:
    log.come_back(2, destination="orders")
    log.come_back(3, destination="payments")

    assert log.counts == [("orders", 2), ("payments", 3)]


def test_what_comes_back_again_and_again_is_counted_once_a_minute(log: Log) -> None:
    for _ in range(1000):
        log.come_back(1)
        log.clock.advance(0.125)
    log.reverts.write_all()

    assert log.counts == [("orders", 1), ("orders", 480), ("orders", 480), ("orders", 39)]


def test_a_later_line_names_one_of_the_messages_that_it_counts(log: Log) -> None:
    log.come_back(1)
    log.come_back(1, reason="gone")
    log.come_back(1)
    log.clock.advance(60)
    log.reverts.write_due()

    later = log.lines[1]
    assert (later["unique_message_id"], later["batch_id"]) == ("2.0", "batch 2")
    assert (later["count"], later["reason"]) == (2, "gone")


def test_what_was_counted_is_told_also_when_nothing_more_comes_back(log: Log) -> None:
    log.come_back(1)
    log.come_back(5)

    log.clock.advance(59)
    log.reverts.write_due()
    early = list(log.counts)
    log.clock.advance(1)
    log.reverts.write_due()
    log.reverts.write_due()

    assert early == [("orders", 1)]
    assert log.counts == [("orders", 1), ("orders", 5)]


def test_a_destination_that_was_quiet_for_a_minute_is_told_of_at_once(log: Log) -> None:
    log.come_back(1)
    log.clock.advance(60)
    log.reverts.write_due()
    log.come_back(1)

    assert log.counts == [("orders", 1), ("orders", 1)]


def test_a_window_of_which_nothing_came_back_is_not_told(log: Log) -> None:
    log.come_back(0)
    log.reverts.write_all()

    assert log.lines == []

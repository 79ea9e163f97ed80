"""What the log tells of decisions: each rule at once, and then once a minute."""

import pytest

from retrier.app.log import Decisions, LogLine
from retrier.domain.decision import Decided
from retrier.domain.failed_message import Disposition
from retrier.domain.retry_batch import WindowResult
from retrier.events.processor import WindowRecorded
from tests.support.frozen_clock import FrozenClock


class Listener:
    """Tells decisions, and remembers the lines."""

    def __init__(self) -> None:
        self.clock = FrozenClock()
        self.lines: list[LogLine] = []
        self.decisions = Decisions(self.lines.append, self.clock)

    def decide(
        self, disposition: Disposition, policy: str | None = "rest@1", **reasons: int
    ) -> None:
        decided = Decided(
            disposition=disposition, policy=policy, count=sum(reasons.values()), reasons=reasons
        )
        event = WindowRecorded(
            batch_id="b", operation_id="o", result=WindowResult(), decided=[decided]
        )
        self.decisions.add(event)
        self.decisions.write_due()

    @property
    def told(self) -> list[tuple[str, object]]:
        return [(line.name, line.fields["count"]) for line in self.lines]


@pytest.fixture
def listener() -> Listener:
    return Listener()


def test_the_first_is_told_at_once(listener: Listener) -> None:
    listener.decide(Disposition.SCHEDULED, unknown=2, timeout_exceeded=3)

    assert listener.told == [("policies.scheduled", 5)]
    assert listener.lines[0].fields["reasons"] == "timeout_exceeded 3, unknown 2"


def test_what_follows_is_told_after_a_minute(listener: Listener) -> None:
    for _ in range(3):
        listener.decide(Disposition.DEAD, unknown=1)
    listener.clock.advance(60)
    listener.decisions.write_due()

    assert listener.told == [("policies.dead", 1), ("policies.dead", 2)]


def test_each_rule_is_told_by_itself(listener: Listener) -> None:
    listener.decide(Disposition.DEAD, "one@1", unknown=1)
    listener.decide(Disposition.DEAD, "two@1", unknown=1)
    listener.decide(Disposition.SCHEDULED, "one@1", unknown=1)

    assert [name for name, _ in listener.told] == [
        "policies.dead",
        "policies.dead",
        "policies.scheduled",
    ]


def test_what_waits_for_a_person_is_not_told(listener: Listener) -> None:
    listener.decide(Disposition.MANUAL, None, unknown=1)

    assert listener.told == []


def test_nothing_is_held_back_at_the_end(listener: Listener) -> None:
    listener.decide(Disposition.DEAD, unknown=1)
    listener.decide(Disposition.DEAD, unknown=4)
    listener.decisions.write_all()

    assert listener.told == [("policies.dead", 1), ("policies.dead", 4)]


def test_a_rule_that_is_quiet_is_forgotten(listener: Listener) -> None:
    listener.decide(Disposition.DEAD, unknown=1)
    listener.clock.advance(60)
    listener.decisions.write_due()
    listener.decide(Disposition.DEAD, unknown=1)

    assert listener.told == [("policies.dead", 1), ("policies.dead", 1)]

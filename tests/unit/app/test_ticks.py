"""Recurring small work: what is said of a job that fails."""

from retrier.app.schedule import GuardedTick
from retrier.errors import BrokerUnavailable
from tests.support.told import Told


def test_a_tick_tells_once_that_it_fails_and_once_that_it_works_again() -> None:
    told, reasons = Told(), iter([None, "reset", "refused", "reset", None, None])

    def look() -> None:
        if reason := next(reasons):
            raise BrokerUnavailable(reason)

    tick = GuardedTick("queue depths", look, told.tell)
    for _ in range(6):
        tick()

    assert told.events == [
        ("tick.failed", {"tick": "queue depths", "reason": "reset"}),
        ("tick.recovered", {"tick": "queue depths"}),
    ]

"""A process is killed while an operation is cancelled, or waits for what becomes of its canary."""

import signal
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

import pytest

from retrier.domain.retry_operation import Canary, Cancel, RetryRequest, RetryTerms, RetryType
from retrier.domain.selection import Selection
from retrier.events.processor import (
    BatchReleased,
    BatchStaged,
    CanaryFailed,
    CanaryPassed,
    CanarySent,
    OperationCancelled,
)
from retrier.store.operation_requests import create_operation, steer_operation
from retrier.store.recording import record_received
from tests.kills.conftest import Tally
from tests.kills.rotation import everywhere
from tests.kills.sites import COUNT, STORED, Place
from tests.kills.test_while_retrying import NOTHING
from tests.support.factories import failure
from tests.support.waiting import wait_until

DEADLINE = 60
FIRST = 3
STATE = "SELECT state, forwarded, skipped, failed FROM retry_operations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A crash point, whether it is reached by a cancel, and how the operation ends."""

    point: str
    cancelled: bool = False
    refused: bool = False
    ends: tuple[str, int, int, int]

    def __str__(self) -> str:
        return self.point


STOPS = [
    Stop(point=BatchReleased.name, cancelled=True, ends=("cancelled", 0, COUNT, 0)),
    Stop(point=OperationCancelled.name, cancelled=True, ends=("cancelled", 0, COUNT, 0)),
    Stop(point=CanarySent.name, ends=("completed", COUNT, 0, 0)),
    Stop(point=CanaryPassed.name, ends=("completed", COUNT, 0, 0)),
    Stop(point=CanaryFailed.name, refused=True, ends=("paused", 0, 0, FIRST)),
]
STOPPING = [stop.point for stop in STOPS]


def ask(place: Place, stop: Stop) -> None:
    """Ask for a retry of all; without a cancel, it sends a canary first."""
    shop = place.shop
    raw = NOTHING[place.reads_envelopes]
    queue = place.beside(shop.orders, "gone") if stop.refused else shop.orders
    made = [failure(raw=raw, queue=queue, error_queue=shop.error) for _ in range(COUNT)]
    record_received(place.database, made, instance="test")
    canary = None if stop.cancelled else Canary(size=FIRST, wait=timedelta(milliseconds=100))
    request = RetryRequest(
        retry_type=RetryType.ALL,
        selection=Selection(),
        originator="a test",
        requested_by="ada",
        terms=RetryTerms(canary=canary),
    )
    created = create_operation(place.database, request)
    if stop.cancelled:
        staged = place.host.start(crash_at=BatchStaged.name)
        assert staged.wait_dead(DEADLINE) == -signal.SIGKILL
        steer_operation(place.database, created.operation_id, [Cancel()], "ada")


@pytest.mark.parametrize(("combination", "stop"), everywhere(STOPS), indirect=["combination"])
def test_a_stop_that_is_killed_is_finished_by_the_next_process(
    stop: Stop, place: Place, tally: Tally
) -> None:
    # Given a process that dies at the point
    ask(place, stop)
    doomed = place.host.start(crash_at=stop.point)
    assert doomed.wait_dead(DEADLINE) == -signal.SIGKILL
    assert place.broken_rules() == []

    # When the next one is started
    place.host.start()
    wait_until(lambda: place.query(STATE) == [stop.ends], DEADLINE, "it ends")

    # Then each message was sent once, or not at all
    sent = place.shop.take(place.shop.orders, stop.ends[1])
    ids = Counter(each.headers["ServiceControl.Retry.UniqueMessageId"] for each in sent)
    tally.add(stop.point, COUNT - place.count(STORED), len(sent) - len(ids))
    assert len(ids) == len(sent) == stop.ends[1]
    assert place.shop.depth(place.shop.orders) == 0
    assert place.broken_rules() == []

"""A process is killed when a breaker has turned, or has taken messages out of a batch."""

import signal
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

import pytest

from retrier.domain.breakers import BreakerKey, BreakerState, Per
from retrier.domain.retry_operation import RetryRequest, RetryType
from retrier.domain.selection import Selection
from retrier.events.processor import (
    BatchMarked,
    BreakerClosed,
    BreakerHalfOpened,
    BreakerHandEnded,
    BreakerOpened,
    ClaimsHeldBack,
)
from retrier.store.breakers import set_breaker
from retrier.store.operation_requests import create_operation
from retrier.store.recording import record_received
from tests.kills.conftest import Tally
from tests.kills.rotation import everywhere
from tests.kills.sites import COUNT, STORED, Place
from tests.kills.test_while_retrying import NOTHING
from tests.support.factories import failure
from tests.support.service import Service
from tests.support.waiting import wait_until

DEADLINE = 60
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
OPEN = "SELECT count(*) FROM breakers WHERE state <> 'closed'"
ALIVE = "SELECT count(*) FROM retry_operations WHERE completed_at IS NULL"
BREAKERS = {"RETRIER_BREAKERS__MIN": "5", "RETRIER_BREAKERS__COOLDOWN": "1s"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A crash point. `by_hand` is for how long a person opens the breaker, if one does."""

    point: str
    by_hand: timedelta | None = None

    def __str__(self) -> str:
        return self.point


TURNS = [
    Turn(point=BreakerOpened.name),
    Turn(point=BreakerHalfOpened.name),
    Turn(point=BreakerClosed.name),
    Turn(point=BreakerHandEnded.name, by_hand=SECOND),
    Turn(point=ClaimsHeldBack.name, by_hand=HOUR),
]
BREAKING = [turn.point for turn in TURNS]


class Scene:
    """Messages of a queue, and a process that dies at a point on their way there."""

    def __init__(self, place: Place, turn: Turn) -> None:
        assert place.database is not None
        self.place, self.turn, self.database = place, turn, place.database
        self.queue = place.shop.orders if turn.by_hand else place.beside(place.shop.orders, "gone")
        self._key = BreakerKey(per=Per.DESTINATION, name=self.queue)

    def fail(self) -> None:
        """Let messages fail."""
        raw, error = NOTHING[self.place.reads_envelopes], self.place.shop.error
        made = [failure(raw=raw, queue=self.queue, error_queue=error) for _ in range(COUNT)]
        record_received(self.database, made, instance="test")

    def ask(self) -> None:
        """Ask for a retry of all."""
        request = RetryRequest(
            retry_type=RetryType.ALL,
            selection=Selection(),
            originator="a test",
            requested_by="ada",
        )
        create_operation(self.database, request)

    def set(self, state: BreakerState, lasts: timedelta | None = None) -> None:
        """Let a person open or close the breaker."""
        set_breaker(self.database, self._key, state, lasts=lasts, who="ada", why=None)

    def die(self) -> None:
        """Let a process die at the point."""
        if self.turn.by_hand:
            self._die_by_hand()
        else:
            self._die_of_returns()

    def _die_of_returns(self) -> None:
        self.ask()
        doomed = self._start()
        if self.turn.point == BreakerOpened.name:
            self._wait_dead(doomed)
        self._wait_for(OPEN, 1)
        if self.turn.point != BreakerOpened.name:
            # On a slow machine the breaker is half open before all is held back.
            wait_until(lambda: self._is_over(doomed), DEADLINE, "it is held back, or died")
            self.place.shop.declare(self.queue)
            self.ask()
            self._wait_dead(doomed)

    def _die_by_hand(self) -> None:
        if self.turn.point == ClaimsHeldBack.name:
            self.ask()
            self._wait_dead(self.place.host.start(crash_at=BatchMarked.name))
            self.set(BreakerState.OPEN, HOUR)
        else:
            self.set(BreakerState.OPEN, self.turn.by_hand)
            self.ask()
        self._wait_dead(self._start())

    def go_on(self) -> None:
        """Start another process, and wait until all is done."""
        self.place.host.start(environ=BREAKERS)
        if self.turn.point == BreakerOpened.name:
            self._wait_for(ALIVE, 0)
            self.place.shop.declare(self.queue)
            self.ask()
        if self.turn.point == ClaimsHeldBack.name:
            self.set(BreakerState.CLOSED)
        self._wait_for(ALIVE, 0)

    def _start(self) -> Service:
        return self.place.host.start(environ=BREAKERS, crash_at=self.turn.point)

    def _is_over(self, doomed: Service) -> bool:
        return doomed.process.poll() is not None or self.place.query(ALIVE) == [(0,)]

    def _wait_dead(self, doomed: Service) -> None:
        assert doomed.wait_dead(DEADLINE) == -signal.SIGKILL

    def _wait_for(self, query: str, count: int) -> None:
        wait_until(lambda: self.place.query(query) == [(count,)], DEADLINE, f"{count}: {query}")


@pytest.mark.parametrize(("combination", "turn"), everywhere(TURNS), indirect=["combination"])
def test_a_breaker_survives_the_process(turn: Turn, place: Place, tally: Tally) -> None:
    # Given a process that dies at the point
    scene = Scene(place, turn)
    scene.fail()
    scene.die()
    assert place.broken_rules() == []

    # When the next one is started, and the queue is there
    scene.go_on()

    # Then each message was sent once
    sent = place.shop.take(scene.queue, COUNT)
    ids = Counter(each.headers["ServiceControl.Retry.UniqueMessageId"] for each in sent)
    tally.add(turn.point, COUNT - place.count(STORED), len(sent) - len(ids))
    assert len(ids) == len(sent) == COUNT
    assert place.shop.depth(scene.queue) == 0
    assert place.broken_rules() == []
    place.shop.delete(scene.queue)

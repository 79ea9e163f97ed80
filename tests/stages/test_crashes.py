"""The process is killed at every crash point: nothing is lost, and no more than a window doubled.

Each point at either time on either database, with the kinds of operations in turns; all kinds of
each: `pytest -m kills tests/stages`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import pytest

from retrier.domain.wire import ChannelClosed, Refused, Unknown
from retrier.events.processor import (
    BatchAdopted,
    BatchOpened,
    BatchStaged,
    CopiesAcked,
    CopySentAlone,
    EndMarkerSent,
    MessagesClaimed,
    RestBackedOff,
    RestMoved,
    RetrySentAlone,
    StagingBackedOff,
    StagingQueueDeleted,
    StagingQueuePurged,
    WindowSent,
    WindowStamped,
)
from retrier.store.engine.database import Database
from retrier.store.operation_requests import CreatedOperation
from tests.support.bench import QUEUE, STAGING, Bench, Killed
from tests.support.effects import BATCH_POINTS
from tests.support.promises import count_doubled, count_lost, count_up, find_leftovers
from tests.support.scheduling import STANDING, schedule
from tests.support.script import to_queue

WINDOW = 2
MESSAGES = 5

Trouble = Callable[[Bench], None]


def die(_bench: Bench) -> None:
    raise Killed


def lose_all_copies(bench: Bench) -> None:
    bench.transport.broker.queues[STAGING].ready.clear()


def die_with_the_queue_held(bench: Bench) -> None:
    bench.transport.broker.subscribe(STAGING, 1000)
    raise Killed


def refuse_a_copy(bench: Bench) -> None:
    bench.transport.cue(Refused("it is full"), when=to_queue(STAGING))


def lose_the_broker(bench: Bench) -> None:
    bench.transport.cue(Unknown("connection reset"), when=to_queue(STAGING))


def close_a_channel(bench: Bench) -> None:
    bench.transport.cue(ChannelClosed("406"), when=to_queue(QUEUE))


TROUBLES: dict[str, tuple[str, Trouble]] = {
    BatchAdopted.name: (MessagesClaimed.name, die),
    CopySentAlone.name: (StagingQueuePurged.name, refuse_a_copy),
    StagingBackedOff.name: (StagingQueuePurged.name, lose_the_broker),
    RestBackedOff.name: (BatchStaged.name, lose_all_copies),
    EndMarkerSent.name: (BatchStaged.name, die),
    RestMoved.name: (BatchStaged.name, lose_all_copies),
    StagingQueueDeleted.name: (BatchStaged.name, die_with_the_queue_held),
    RetrySentAlone.name: (BatchStaged.name, close_a_channel),
}
"""What has to go wrong, and where, before the processor comes to a crash point at all."""

STEPWISE = frozenset({BatchOpened.name, MessagesClaimed.name, BatchAdopted.name})
"""Reached only where marking takes several transactions, and can leave an orphan in between."""

SENDING = frozenset(
    {
        WindowStamped.name,
        CopiesAcked.name,
        WindowSent.name,
        RetrySentAlone.name,
    }
)
"""Where a window is stamped and not recorded: the only crashes that may double anything."""


@dataclass(slots=True, kw_only=True)
class Crash:
    """A process that dies the n-th time it comes to a point, and the troubles that lead there."""

    bench: Bench
    point: str
    time: int
    doubt: set[str] = field(default_factory=set)
    happened: bool = False

    def reach(self, reached: str) -> None:
        if self.happened:
            return
        where, trouble = TROUBLES.get(self.point, (None, die))
        if reached == where:
            trouble(self.bench)
        self.time -= reached == self.point
        if self.time == 0 and reached == self.point:
            self.happened = True
            self.doubt = self.bench.in_doubt()
            raise Killed(reached)

    def live_through(self) -> None:
        """Work, die, and let the next process finish the work."""
        while True:
            self.bench.crash_at = self.reach
            try:
                self.bench.work()
            except Killed:
                self.bench.restart()
            else:
                return


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Two operations, one crash, and the end of it."""

    bench: Bench
    ids: Sequence[str]
    asked_for: str
    asked: Sequence[CreatedOperation]
    crash: Crash


@pytest.fixture
def story(database: Database, point: str, time: int, asked_for: str) -> Story:
    bench = Bench(database, window=WINDOW)
    north = bench.fail(MESSAGES, endpoint="north")
    south = bench.fail(MESSAGES, endpoint="south")
    match asked_for:
        case "by_name":
            asked = [bench.ask(north), bench.ask(south)]
        case "by_policy":
            schedule(bench.db, north)
            asked = [STANDING, bench.ask_all(endpoint="south")]
        case _:
            asked = [bench.ask_all(endpoint="north"), bench.ask_all(endpoint="south")]
    crash = Crash(bench=bench, point=point, time=time)
    crash.live_through()
    return Story(bench=bench, ids=[*north, *south], asked_for=asked_for, asked=asked, crash=crash)


def can_happen(story: Story) -> bool:
    at_once = story.bench.db.sql.marks_at_once and story.asked_for != "by_name"
    return not at_once or story.crash.point not in STEPWISE


DATABASES = ("sqlite", "postgres")
KINDS = ("of_all", "by_name", "by_policy")


def walk_cases() -> Iterator[object]:
    """Walk every case; one kind of operations of each belongs to the plain run."""
    for (number, point), (turn, database), time in product(
        enumerate(BATCH_POINTS), enumerate(DATABASES), (1, 2)
    ):
        server = [pytest.mark.postgres] if database == "postgres" else []
        for place, kind in enumerate(KINDS):
            is_its_turn = (number + turn + time) % len(KINDS) == place
            long = [] if is_its_turn else [pytest.mark.kills]
            yield pytest.param(database, point, time, kind, marks=[*server, *long])


@pytest.mark.parametrize(
    ("database", "point", "time", "asked_for"), [*walk_cases()], indirect=["database"]
)
def test_nothing_is_lost_and_only_what_was_in_doubt_is_doubled(story: Story) -> None:
    bench, crash = story.bench, story.crash
    doubled = count_doubled(bench)

    assert crash.happened == can_happen(story)
    assert count_lost(bench, story.ids) == set()
    assert doubled <= crash.doubt
    assert len(doubled) <= WINDOW
    assert not doubled or crash.point in SENDING
    assert find_leftovers(bench) == []
    over = "waiting" if story.asked_for == "by_policy" else "completed"
    assert count_up(bench, story.asked) == [
        (over, MESSAGES, MESSAGES),
        ("completed", MESSAGES, MESSAGES),
    ]
    assert not bench.turn()

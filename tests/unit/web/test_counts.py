"""The counts: as fresh as they are cheap, and never more than a tenth of a thread."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from retrier.domain.classifiers import CLASSIFIERS
from retrier.errors import DatabaseUnavailable
from retrier.store.engine.database import Database, DatabaseOptions
from retrier.web.counts import PageCounts, Snapshot, Trouble
from tests.support.api import Api
from tests.support.factories import FAILED_AT, failure
from tests.support.frozen_clock import FrozenClock


class CostlyClock(FrozenClock):
    """A clock that goes on by so many seconds whenever it is asked, as if work took that long."""

    def __init__(self) -> None:
        super().__init__()
        self.cost = 0.0
        self.spent = 0.0

    def monotonic(self) -> float:
        self.spent += self.cost
        self.advance(self.cost)
        return super().monotonic()


class Counting:
    """Counts on a database, with a clock of the test; `told` has each snapshot."""

    def __init__(self, db: Database) -> None:
        self.api = Api(db)
        self.clock = CostlyClock()
        self.told: list[Snapshot] = []
        self.troubles: list[Trouble | None] = []
        self.counts = PageCounts(db, self.clock, self._tell)

    def run(self, seconds: int, *, watched: bool) -> int:
        """Let the job run so long; return how often it has counted."""
        before = len(self.told)
        until = self.clock.monotonic() + seconds
        while self.clock.monotonic() < until:
            if watched:
                self.counts.note_reader()
            self.counts.tick()
            self.clock.advance(1)
        return len(self.told) - before

    def _tell(self, found: Snapshot, trouble: Trouble | None) -> str:
        self.told.append(found)
        self.troubles.append(trouble)
        return str(len(self.told))


@pytest.fixture
def counting(database: Database) -> Iterator[Counting]:
    made = Counting(database)
    yield made
    made.api.http.close()


def test_what_somebody_looks_at_is_counted_each_second(counting: Counting) -> None:
    counting.counts.tick()

    assert counting.run(10, watched=True) == 10


def test_what_nobody_looks_at_is_counted_twice_a_minute(counting: Counting) -> None:
    counting.counts.tick()

    assert counting.run(60, watched=False) <= 2


def test_at_most_a_tenth_of_the_time_is_spent_on_costly_counts(counting: Counting) -> None:
    counting.counts.tick()
    counting.clock.cost = 0.3
    began, counting.clock.spent = counting.clock.monotonic(), 0.0

    counted = counting.run(300, watched=True)

    passed = counting.clock.monotonic() - began
    costs = counted * counting.clock.cost  # each count asks the clock once before and once after
    assert counted >= 2
    assert costs <= passed / 10


def test_a_new_failure_is_added_to_counts_that_are_too_costly_to_make_anew(
    counting: Counting,
) -> None:
    counting.api.receive(failure(), failure())
    counting.clock.cost = 1.0
    counting.counts.tick()
    counting.clock.cost = 0.0
    counting.api.receive(failure(), failure(queue="stock"))

    counting.run(1, watched=True)

    last = counting.told[-1]
    assert last.unresolved == 4
    assert {each.key for each in last.queues} == {"orders", "stock"}


def test_what_is_added_to_costly_counts_is_what_a_whole_count_finds(counting: Counting) -> None:
    later = FAILED_AT + timedelta(hours=1)
    counting.api.receive(failure(), failure(), failure(queue="stock"))
    counting.clock.cost = 1.0
    counting.counts.tick()
    counting.clock.cost = 0.0
    counting.api.receive(
        failure(time_of_failure=later),
        failure(queue="bills", message_type="Shop.Bill", time_of_failure=FAILED_AT),
    )

    counting.run(1, watched=True)
    added = counting.told[-1]
    counting.counts = PageCounts(counting.api.db, counting.clock, lambda _found, _trouble: "")

    whole = counting.counts.snapshot()
    assert added.groups == whole.groups
    assert (added.queues, added.causes) == (whole.queues, whole.causes)
    assert (added.group_ids, added.new_groups) == (whole.group_ids, whole.new_groups)


def test_queues_of_a_group_that_are_as_full_are_named_in_one_order(counting: Counting) -> None:
    for queue in ("stock", "bills", "orders"):
        counting.api.receive(failure(queue=queue))

    (line,) = counting.counts.snapshot().groups[CLASSIFIERS[0]]
    assert line.queues == ("stock", "bills", "orders")


def test_a_page_sees_its_own_change_at_once(counting: Counting) -> None:
    counting.counts.snapshot()
    counting.api.receive(failure())

    counting.counts.note_change()

    assert counting.counts.snapshot().unresolved == 1


def test_the_age_of_the_counts_is_known(counting: Counting) -> None:
    counting.counts.snapshot()

    counting.clock.advance(4)

    assert counting.counts.age() == 4


def test_a_database_that_is_away_leaves_the_last_counts(counting: Counting) -> None:
    counting.api.receive(failure())
    counting.counts.snapshot()
    counting.counts._db = Database(DatabaseOptions(url="sqlite:////nowhere/at/all.db"))  # noqa: SLF001 - it went away

    counting.clock.advance(60)
    with pytest.raises(DatabaseUnavailable):
        counting.counts.tick()

    assert counting.counts.snapshot().unresolved == 1
    assert counting.counts.trouble is not None
    assert counting.troubles[-1] is not None


def test_without_any_counts_a_database_that_is_away_is_an_error() -> None:
    db = Database(DatabaseOptions(url="sqlite:////nowhere/at/all.db"))
    counts = PageCounts(db, FrozenClock(), lambda _found, _trouble: "")

    with pytest.raises(DatabaseUnavailable):
        counts.snapshot()

"""Who holds which messages of the embedded broker, and how long: told by a clock that tests move."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from retrier.processes import Owner, describe_process
from retrier.transport.embedded.broker_file import (
    SCHEMA,
    BrokerFile,
    HeldRow,
    HoldLost,
    Parcel,
    QueueGone,
    Tag,
)
from retrier.transport.embedded.queues_db import QueuesDb
from tests.support.frozen_clock import FrozenClock

LEASE = 30.0
HERE = describe_process()
ELSEWHERE = replace(HERE, space="another container")
EARLIER = replace(HERE, boot="before the power went")

Open = Callable[[Owner], QueuesDb]


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def open_as(tmp_path: Path, clock: FrozenClock) -> Iterator[Open]:
    """Open the broker as some process would."""
    opened: list[QueuesDb] = []

    def open_as(owner: Owner) -> QueuesDb:
        opened.append(QueuesDb(BrokerFile(tmp_path / "b.db", SCHEMA), owner, clock.monotonic))
        return opened[-1]

    yield open_as
    for each in opened:
        each.close()


@pytest.fixture
def db(open_as: Open) -> QueuesDb:
    """Give the broker as this process sees it, with five messages in the queue `q`."""
    db = open_as(HERE)
    db.declare("q", single_active=False)
    fill(db, "q")
    return db


def fill(db: QueuesDb, queue: str, count: int = 5) -> None:
    db.put(
        [
            Parcel(queue=queue, exchange="", routing_key=queue, raw=b"{}", body=b"%d" % number)
            for number in range(count)
        ]
    )


def claim(db: QueuesDb, holder: int, limit: int, queue: str = "q") -> list[HeldRow]:
    found = db.look(queue)
    assert found is not None
    return db.claim(found, holder, limit)


def bodies(claimed: list[HeldRow]) -> str:
    return b"".join(each.body for each in claimed).decode()


def tags(claimed: list[HeldRow]) -> list[Tag]:
    return [each.tag for each in claimed]


def test_each_message_is_handed_to_one_holder(db: QueuesDb) -> None:
    one, other = db.enter(LEASE), db.enter(LEASE)

    assert bodies(claim(db, one, 3)) == "012"
    assert bodies(claim(db, other, 3)) == "34"
    assert claim(db, one, 3) == []


def test_a_lease_that_runs_out_gives_its_messages_to_others(
    db: QueuesDb, open_as: Open, clock: FrozenClock
) -> None:
    abroad = open_as(ELSEWHERE)
    claim(abroad, abroad.enter(LEASE), 3)

    clock.advance(LEASE + 1)

    again = claim(db, db.enter(LEASE), 5)
    assert bodies(again) == "01234"
    assert [each.redelivered for each in again] == [True, True, True, False, False]


def test_a_lease_that_is_renewed_keeps_its_messages(
    db: QueuesDb, open_as: Open, clock: FrozenClock
) -> None:
    abroad = open_as(ELSEWHERE)
    holder = abroad.enter(LEASE)
    claim(abroad, holder, 3)

    for _ in range(5):
        clock.advance(LEASE - 1)
        assert abroad.renew(holder, timeout=1)

    assert bodies(claim(db, db.enter(LEASE), 5)) == "34"


def test_a_claim_renews_the_lease(db: QueuesDb, open_as: Open, clock: FrozenClock) -> None:
    abroad = open_as(ELSEWHERE)
    holder = abroad.enter(LEASE)
    claim(abroad, holder, 1)
    clock.advance(LEASE - 1)
    claim(abroad, holder, 1)

    clock.advance(LEASE - 1)

    assert bodies(claim(db, db.enter(LEASE), 5)) == "234"


def test_a_late_claim_keeps_a_lease_that_nobody_took(db: QueuesDb, clock: FrozenClock) -> None:
    holder = db.enter(LEASE)
    first = claim(db, holder, 2)

    clock.advance(2 * LEASE)

    assert bodies(claim(db, holder, 2)) == "23"
    assert db.forget(tags(first)) == 2


def test_who_lost_its_lease_is_told_so(db: QueuesDb, clock: FrozenClock) -> None:
    holder = db.enter(LEASE)
    clock.advance(LEASE + 1)
    db.reap()

    assert not db.renew(holder, timeout=1)
    with pytest.raises(HoldLost, match="lease"):
        claim(db, holder, 1)


@pytest.mark.parametrize("settle", [QueuesDb.forget, QueuesDb.give_back])
def test_a_tag_of_a_lost_lease_settles_nothing(
    db: QueuesDb, clock: FrozenClock, settle: Callable[[QueuesDb, list[Tag]], int]
) -> None:
    stale = tags(claim(db, db.enter(LEASE), 3))
    clock.advance(LEASE + 1)
    again = claim(db, db.enter(LEASE), 3)

    assert settle(db, stale) == 0

    assert bodies(again) == "012"
    assert db.forget(tags(again)) == 3


def test_a_tag_from_before_a_message_was_put_back_settles_nothing(db: QueuesDb) -> None:
    holder = db.enter(LEASE)
    stale = tags(claim(db, holder, 1))
    db.give_back(stale)
    again = claim(db, holder, 1)

    assert db.forget(stale) == 0

    assert db.forget(tags(again)) == 1


def test_a_tag_of_a_deleted_message_does_not_settle_a_new_one(db: QueuesDb) -> None:
    holder = db.enter(LEASE)
    stale = tags(claim(db, holder, 5))
    db.forget(stale)
    fill(db, "q", 5)
    claim(db, holder, 5)

    assert db.forget(stale) == 0


def test_what_is_put_back_goes_to_its_place(db: QueuesDb) -> None:
    holder = db.enter(LEASE)
    claimed = claim(db, holder, 4)

    db.give_back(tags(claimed[1:3]))

    assert bodies(claim(db, holder, 5)) == "124"


def test_settling_nothing_does_nothing(db: QueuesDb) -> None:
    assert db.forget([]) == 0


def test_a_holder_of_an_earlier_boot_is_gone_at_once(db: QueuesDb, open_as: Open) -> None:
    before = open_as(EARLIER)
    claim(before, before.enter(LEASE), 3)

    assert db.anyone_gone()
    assert bodies(claim(db, db.enter(LEASE), 3)) == "012"


def test_a_lease_with_more_left_than_can_be_is_of_an_earlier_boot(
    db: QueuesDb, open_as: Open, clock: FrozenClock
) -> None:
    abroad = open_as(ELSEWHERE)
    clock.advance(1000)
    claim(abroad, abroad.enter(LEASE), 3)

    clock.advance(-1000)

    assert bodies(claim(db, db.enter(LEASE), 3)) == "012"


def test_who_leaves_gives_everything_back(db: QueuesDb) -> None:
    holder = db.enter(LEASE)
    claim(db, holder, 3)

    db.leave(holder, timeout=1)

    assert not db.anyone_gone()
    assert db.count_ready("q") == 5


def test_counting_and_purging_see_what_the_dead_held(
    db: QueuesDb, open_as: Open, clock: FrozenClock
) -> None:
    abroad = open_as(ELSEWHERE)
    claim(abroad, abroad.enter(LEASE), 2)
    clock.advance(LEASE + 1)
    assert db.count_ready("q") == 5

    claim(abroad, abroad.enter(LEASE), 2)
    clock.advance(LEASE + 1)

    assert db.purge("q") == 5


def test_a_message_of_a_deleted_queue_is_settled_by_nobody(db: QueuesDb) -> None:
    holder = db.enter(LEASE)
    claimed = claim(db, holder, 2)
    queue = db.look("q")
    assert queue is not None

    db.delete("q")

    assert db.forget(tags(claimed)) == 0
    with pytest.raises(QueueGone, match="'q'"):
        db.claim(queue, holder, 1)


def test_a_queue_declared_anew_is_another_one(db: QueuesDb) -> None:
    before = db.look("q")
    db.delete("q")

    after = db.declare("q", single_active=False)

    assert before is not None
    assert after.id != before.id


class TestSingleActiveConsumer:
    @pytest.fixture
    def db(self, db: QueuesDb) -> QueuesDb:
        db.declare_single_active("s")
        fill(db, "s")
        return db

    def test_a_second_holder_is_handed_nothing(self, db: QueuesDb) -> None:
        first, second = db.enter(LEASE), db.enter(LEASE)

        assert bodies(claim(db, first, 2, "s")) == "01"
        assert claim(db, second, 2, "s") == []
        assert bodies(claim(db, first, 2, "s")) == "23"

    def test_a_successor_waits_for_what_its_predecessor_was_handed(self, db: QueuesDb) -> None:
        first, second = db.enter(LEASE), db.enter(LEASE)
        claimed = claim(db, first, 2, "s")
        active = db.look("s")
        assert active is not None
        db.step_down(active)
        assert claim(db, second, 2, "s") == []

        db.give_back(tags(claimed))

        assert bodies(claim(db, second, 5, "s")) == "01234"

    def test_who_leaves_is_succeeded_at_once(self, db: QueuesDb) -> None:
        first, second = db.enter(LEASE), db.enter(LEASE)
        claim(db, first, 2, "s")

        db.leave(first, timeout=1)

        assert bodies(claim(db, second, 5, "s")) == "01234"

    def test_who_lost_its_lease_is_succeeded_at_once(
        self, db: QueuesDb, open_as: Open, clock: FrozenClock
    ) -> None:
        abroad = open_as(ELSEWHERE)
        claim(abroad, abroad.enter(LEASE), 2, "s")

        clock.advance(LEASE + 1)

        assert bodies(claim(db, db.enter(LEASE), 5, "s")) == "01234"

    def test_nobody_steps_down_for_somebody_else(self, db: QueuesDb) -> None:
        first, second = db.enter(LEASE), db.enter(LEASE)
        claim(db, first, 1, "s")
        active = db.look("s")
        assert active is not None

        db.step_down(replace(active, active=second))

        assert db.look("s") == active

    def test_an_ordinary_queue_that_is_empty_becomes_one(self, db: QueuesDb) -> None:
        db.purge("q")

        assert db.declare_single_active("q") == 0

        queue = db.look("q")
        assert queue is not None
        assert queue.single_active

    def test_an_ordinary_queue_that_holds_messages_does_not(self, db: QueuesDb) -> None:
        claim(db, db.enter(LEASE), 2)

        assert db.declare_single_active("q") == 5

        queue = db.look("q")
        assert queue is not None
        assert not queue.single_active

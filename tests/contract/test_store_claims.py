"""Claims: at most one for each message, whose batch has it, and which of them may be sent."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from sqlalchemy import insert, update

from retrier.domain.failed_message import RetryEnd
from retrier.domain.retry_batch import RetryBatch, RetryBatchStatus
from retrier.store import claims
from retrier.store.engine.database import Database
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.schema import ended_retries, failed_message_retries, retry_operations
from tests.contract.store_rows import rows
from tests.support.bench import Bench, Killed

T = TypeVar("T")

BATCH, ANOTHER, OPERATION = (str(uuid4()) for _ in range(3))
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
STAMPED = {"sending_since": NOON}
RECORDED = {"sending_since": NOON, "forwarded_at": NOON}


def in_one(db: Database, verb: Callable[[Transaction], T]) -> T:
    return db.transact(verb)


def add(db: Database, *numbers: int, batch_id: str = BATCH, **values: Any) -> None:
    """Add claims as other verbs would leave them."""
    with db.engine.begin() as conn:
        for number in numbers:
            claim = {"number": number, "failure_seq": number, "retry_id": str(uuid4())}
            whose = {"batch_id": batch_id, "operation_id": OPERATION}
            conn.execute(insert(failed_message_retries).values(**claim, **whose, **values))


def held(db: Database) -> dict[int, dict[str, Any]]:
    return {row["number"]: row for row in rows(db, failed_message_retries)}


def column(db: Database, name: str) -> dict[int, Any]:
    return {number: row[name] for number, row in held(db).items()}


def numbers_of(found: Sequence[StoredRow]) -> list[int]:
    return [row.number for row in found]


class TestTaking:
    def take(self, db: Database, batch_id: str, failures: Mapping[int, int]) -> list[int]:
        return sorted(in_one(db, lambda tx: claims.take(tx, batch_id, OPERATION, failures)))

    def test_writes_a_claim_with_a_retry_id_of_its_own_for_each(self, database):
        assert self.take(database, BATCH, {8: 80, 7: 70}) == [7, 8]

        assert {number: row["failure_seq"] for number, row in held(database).items()} == {
            7: 70,
            8: 80,
        }
        assert {(row["batch_id"], row["operation_id"]) for row in held(database).values()} == {
            (BATCH, OPERATION)
        }
        assert len({row["retry_id"] for row in held(database).values()}) == 2

    def test_leaves_what_another_batch_has_claimed(self, database):
        self.take(database, ANOTHER, {7: 70})
        before = held(database)[7]

        assert self.take(database, BATCH, {7: 71, 8: 80}) == [8]
        assert held(database)[7] == before

    def test_of_nothing_takes_nothing(self, database):
        self.take(database, BATCH, {7: 70})

        assert self.take(database, BATCH, {}) == []


class TestFinding:
    def test_locks_and_returns_those_of_these_messages_by_number(self, database):
        add(database, 3, 1, 2)

        assert numbers_of(in_one(database, lambda tx: claims.lock(tx, [2, 1, 9]))) == [1, 2]
        assert in_one(database, lambda tx: claims.lock(tx, [])) == []

    def test_locks_a_batch_and_changes_nothing(self, database):
        add(database, 1, 2)
        before = held(database)

        in_one(database, lambda tx: claims.lock_batch(tx, BATCH))

        assert held(database) == before

    def test_counts_those_of_a_batch(self, database):
        add(database, 1)
        add(database, 2, **STAMPED)
        add(database, 3, **RECORDED)
        add(database, 4, batch_id=ANOTHER)

        assert in_one(database, lambda tx: claims.count(tx, BATCH)) == 3
        assert in_one(database, lambda tx: claims.count_unrecorded(tx, BATCH)) == 2

    def test_counts_by_operation_those_of_these_messages_that_are_recorded(self, database):
        add(database, 1, 2, **RECORDED)
        add(database, 3, **STAMPED)
        add(database, 4, **RECORDED)
        with database.engine.begin() as conn:
            other = failed_message_retries.c.number == 2
            conn.execute(update(failed_message_retries).where(other).values(operation_id=ANOTHER))

        sent = in_one(database, lambda tx: claims.count_sent(tx, [1, 2, 3]))

        assert sent == {OPERATION: 1, ANOTHER: 1}

    def test_lists_those_of_a_batch_that_were_certainly_not_sent(self, database):
        add(database, 1)
        add(database, 2, **STAMPED)
        add(database, 3, **RECORDED)
        add(database, 4, batch_id=ANOTHER)

        assert in_one(database, lambda tx: claims.list_unstamped(tx, BATCH)) == [1]


class TestEnding:
    def test_returns_what_it_deletes_by_number(self, database):
        add(database, 3, 1, 2)

        assert numbers_of(in_one(database, lambda tx: claims.end(tx, [3, 1]))) == [1, 3]
        assert list(held(database)) == [2]

    def test_deletes_what_is_dropped(self, database):
        add(database, 1, 2)

        in_one(database, lambda tx: claims.drop(tx, [1]))

        assert list(held(database)) == [2]

    def test_of_the_unrecorded_leaves_all_others(self, database):
        add(database, 4, 1, 2)
        add(database, 3, **RECORDED)
        add(database, 5, batch_id=ANOTHER)

        ended = in_one(database, lambda tx: claims.end_unrecorded(tx, BATCH, [4, 1, 3, 5]))

        assert numbers_of(ended) == [1, 4]
        assert list(held(database)) == [2, 3, 5]

    def test_of_all_but_some_leaves_what_is_recorded_and_what_others_have(self, database):
        add(database, 4, 1, 2)
        add(database, 3, **RECORDED)
        add(database, 5, batch_id=ANOTHER)

        assert in_one(database, lambda tx: claims.keep_only(tx, BATCH, [2])) == {1: None, 4: None}
        assert list(held(database)) == [2, 3, 5]

    def test_of_none_deletes_nothing(self, database):
        add(database, 1, 2)

        assert in_one(database, lambda tx: claims.keep_only(tx, BATCH, [1, 2, 3])) == {}
        assert list(held(database)) == [1, 2]

    @pytest.mark.parametrize("values", [STAMPED, RECORDED], ids=["stamped", "recorded"])
    def test_keeps_what_may_have_been_sent(self, database, values):
        add(database, 1)
        add(database, 2, **values)
        claim = held(database)[2]

        def end(tx: Transaction) -> datetime:
            claims.keep_ended(tx, claims.end(tx, [1, 2]), RetryEnd.FAILED)
            return tx.now

        now = in_one(database, end)

        assert rows(database, ended_retries) == [
            {
                "number": 2,
                "retry_id": claim["retry_id"],
                "operation_id": OPERATION,
                "sending_since": NOON,
                "forwarded_at": claim["forwarded_at"],
                "ended_at": now,
                "outcome": "failed",
            }
        ]

    def test_keeps_nothing_of_what_was_never_sent(self, database):
        add(database, 1)

        in_one(database, lambda tx: claims.keep_ended(tx, claims.lock(tx, [1]), RetryEnd.FAILED))

        assert rows(database, ended_retries) == []

    def test_keeps_by_the_database_itself_what_may_have_been_sent(self, database):
        add(database, 1)
        add(database, 2, 3, **RECORDED)
        claim = held(database)[2]

        def keep(tx: Transaction) -> datetime:
            claims.keep_claimed(tx, [1, 2], RetryEnd.PRESUMED)
            return tx.now

        now = in_one(database, keep)

        assert rows(database, ended_retries) == [
            {
                "number": 2,
                "retry_id": claim["retry_id"],
                "operation_id": OPERATION,
                "sending_since": NOON,
                "forwarded_at": NOON,
                "ended_at": now,
                "outcome": "presumed",
            }
        ]

    def test_finds_how_those_retries_ended_that_are_asked_for(self, database):
        add(database, 1, 2, **STAMPED)
        ids = column(database, "retry_id")
        in_one(database, lambda tx: claims.keep_ended(tx, claims.end(tx, [1, 2]), RetryEnd.FAILED))
        asked = {1: {ids[1], "another"}, 2: {"another"}}

        found = in_one(database, lambda tx: claims.find_ended(tx, asked))

        assert found == {1: {ids[1]: claims.Ended(RetryEnd.FAILED, None)}}

    def test_forgets_how_those_of_a_message_ended(self, database):
        add(database, 1, 2, **STAMPED)
        in_one(database, lambda tx: claims.keep_ended(tx, claims.end(tx, [1, 2]), RetryEnd.FAILED))

        in_one(database, lambda tx: claims.delete_ended(tx, [1]))

        assert [row["number"] for row in rows(database, ended_retries)] == [2]


class TestChangingTheBatch:
    def test_moves_what_is_not_recorded(self, database):
        add(database, 1)
        add(database, 2, **STAMPED)
        add(database, 3, **RECORDED)
        add(database, 4, batch_id=str(uuid4()))
        before = held(database)

        in_one(database, lambda tx: claims.move_rest(tx, BATCH, ANOTHER))

        moved = {number: row for number, row in held(database).items() if row != before[number]}
        assert moved == {number: before[number] | {"batch_id": ANOTHER} for number in (1, 2)}

    def test_notes_anew_which_go_elsewhere(self, database):
        add(database, 1, 2, 3, sent_to="before")
        add(database, 4, sent_to="before", **RECORDED)
        add(database, 5, batch_id=ANOTHER, sent_to="before")
        elsewhere = {"mail": [1, 4, 5], "lines": [2]}

        in_one(database, lambda tx: claims.note_destinations(tx, BATCH, elsewhere))

        assert column(database, "sent_to") == {
            1: "mail",
            2: "lines",
            3: None,
            4: "before",
            5: "before",
        }

    def test_lets_breakers_count_only_what_is_theirs(self, database):
        add(database, 1, 2, 3)
        add(database, 4, batch_id=ANOTHER)

        in_one(database, lambda tx: claims.count_under(tx, BATCH, {1: 11, 2: 12, 4: 14}))

        assert column(database, "breaker_id") == {1: 11, 2: 12, 3: None, 4: None}


class TestThoseThatWereGivenUp:
    def end(self, db: Database, number: int, outcome: RetryEnd, **values: Any) -> tuple[int, str]:
        """Keep an ended retry as other verbs would leave it; return what names it."""
        ended = {"number": number, "retry_id": str(uuid4()), "operation_id": OPERATION}
        ended |= {"outcome": str(outcome), "ended_at": NOON, **RECORDED, **values}
        with db.engine.begin() as conn:
            conn.execute(insert(ended_retries).values(**ended))
        return number, str(ended["retry_id"])

    def find(self, db: Database, *retries: tuple[int, str]) -> list[tuple[str, RetryEnd]]:
        return list(in_one(db, lambda tx: claims.find_given_up(tx, set(retries))))

    def test_are_found_with_their_operation_and_end(self, database):
        presumed = self.end(database, 1, RetryEnd.PRESUMED)
        released = self.end(database, 2, RetryEnd.RELEASED, operation_id=ANOTHER)

        assert sorted(self.find(database, presumed, released)) == sorted(
            [(OPERATION, RetryEnd.PRESUMED), (ANOTHER, RetryEnd.RELEASED)]
        )

    def test_are_no_other_retries_of_the_same_messages(self, database):
        self.end(database, 1, RetryEnd.PRESUMED)

        assert self.find(database, (1, str(uuid4()))) == []

    def test_are_no_retries_of_messages_that_nobody_asks_for(self, database):
        _, retry_id = self.end(database, 1, RetryEnd.PRESUMED)

        assert self.find(database, (2, retry_id)) == []

    def test_are_none_that_ended_otherwise(self, database):
        confirmed = self.end(database, 1, RetryEnd.CONFIRMED)

        assert self.find(database, confirmed) == []

    def test_are_none_that_were_perhaps_not_sent(self, database):
        doubtful = self.end(database, 1, RetryEnd.RELEASED, forwarded_at=None)

        assert self.find(database, doubtful) == []


class Forwarded:
    """A batch whose messages are *retry issued*: nothing of it is stamped yet."""

    def __init__(self, bench: Bench, count: int = 3) -> None:
        self.db = bench.db
        self.bench = bench
        self.keys = bench.fail(count)
        self.created = bench.ask_all()
        bench.kill_at("staging.committed")
        with pytest.raises(Killed):
            bench.work()
        (row,) = bench.batches()
        self.batch = RetryBatch(**row | {"status": RetryBatchStatus(row["status"])})
        self.numbers = sorted(held(self.db))

    def window(
        self, recorded: Sequence[int] = (), stamped: Sequence[int] = ()
    ) -> tuple[dict[int, StoredRow], datetime]:
        """Record and stamp; return what was changed, and when."""

        def change(tx: Transaction) -> tuple[dict[int, StoredRow], datetime]:
            return claims.record_and_stamp(tx, self.batch, recorded, stamped), tx.now

        return in_one(self.db, change)

    def set(self, number: int, **values: Any) -> None:
        with self.db.engine.begin() as conn:
            one = failed_message_retries.c.number == number
            conn.execute(update(failed_message_retries).where(one).values(**values))

    def cancel(self) -> None:
        with self.db.engine.begin() as conn:
            conn.execute(update(retry_operations).values(cancel_asked=True))


@pytest.fixture
def forwarded(database: Database) -> Forwarded:
    return Forwarded(Bench(database))


class TestAWindow:
    def test_is_stamped_with_the_time_and_nothing_else(self, forwarded: Forwarded) -> None:
        first, second, third = forwarded.numbers

        changed, now = forwarded.window(stamped=[second, first])

        assert {number: row.in_doubt for number, row in changed.items()} == {
            first: False,
            second: False,
        }
        stamps = column(forwarded.db, "sending_since")
        assert stamps == {first: now, second: now, third: None}
        assert set(column(forwarded.db, "forwarded_at").values()) == {None}
        assert set(column(forwarded.db, "sent_seq").values()) == {None}

    def test_is_recorded_with_the_time_under_one_number(self, forwarded: Forwarded) -> None:
        first, second, third = forwarded.numbers
        _, began = forwarded.window(stamped=[first, second])

        changed, now = forwarded.window(recorded=[first, second], stamped=[third])

        assert sorted(changed) == forwarded.numbers
        assert column(forwarded.db, "forwarded_at") == {first: now, second: now, third: None}
        assert column(forwarded.db, "sending_since") == {first: began, second: began, third: now}
        seq = column(forwarded.db, "sent_seq")
        assert seq[first] == seq[second] is not None
        assert seq[third] is None

    def test_has_a_number_above_those_before(self, forwarded: Forwarded) -> None:
        first, second, _ = forwarded.numbers
        forwarded.window(stamped=[first, second])

        forwarded.window(recorded=[first])
        forwarded.window(recorded=[second])

        seq = column(forwarded.db, "sent_seq")
        assert seq[first] < seq[second]

    def test_says_what_is_in_doubt_and_keeps_its_first_stamp(self, forwarded: Forwarded) -> None:
        first, second, _ = forwarded.numbers
        later = datetime.now(UTC) + timedelta(hours=1)  # noqa: TID251 - as the database has it
        forwarded.window(stamped=[first])
        before = column(forwarded.db, "sending_since")[first]
        forwarded.set(second, sending_since=later)  # the clock was set back since

        changed, _ = forwarded.window(stamped=[first, second])

        assert {number: row.in_doubt for number, row in changed.items()} == {
            first: True,
            second: True,
        }
        stamps = column(forwarded.db, "sending_since")
        assert (stamps[first], stamps[second]) == (before, later)

    def test_is_recorded_once(self, forwarded: Forwarded) -> None:
        first = forwarded.numbers[0]
        forwarded.window(stamped=[first])
        forwarded.window(recorded=[first])
        before = held(forwarded.db)

        assert forwarded.window(recorded=[first], stamped=[])[0] == {}
        assert forwarded.window(stamped=[first])[0] == {}
        assert held(forwarded.db) == before

    def test_has_no_claim_of_another_batch(self, forwarded: Forwarded) -> None:
        first, second, _ = forwarded.numbers
        forwarded.set(first, batch_id=ANOTHER)
        forwarded.set(second, batch_id=ANOTHER, sending_since=NOON)

        changed, _ = forwarded.window(recorded=[second], stamped=[first])

        assert changed == {}

    def test_has_nothing_that_a_person_put_aside_but_records_what_was_sent(
        self, forwarded: Forwarded
    ) -> None:
        first, second, third = forwarded.numbers
        forwarded.window(stamped=[first])
        for key in forwarded.keys:
            forwarded.bench.set_status(key, "archived")

        changed, _ = forwarded.window(recorded=[first], stamped=[second, third])

        assert list(changed) == [first]

    def test_of_a_cancelled_operation_has_only_what_may_have_been_sent(
        self, forwarded: Forwarded
    ) -> None:
        first, second, third = forwarded.numbers
        forwarded.window(stamped=[first, second])
        forwarded.cancel()

        changed, _ = forwarded.window(recorded=[first], stamped=[second, third])

        assert sorted(changed) == [first, second]

    def test_tells_breakers_since_when_what_they_count_was_sent(self, forwarded: Forwarded) -> None:
        first, second, _ = forwarded.numbers
        forwarded.set(first, breaker_id=7)

        changed, now = forwarded.window(stamped=[first, second])

        assert {number: row.breaker_id for number, row in changed.items()} == {
            first: 7,
            second: None,
        }
        assert changed[first].sending_since == now

"""Retention: what is deleted for its age, what never is, and what goes with it."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text

from retrier.domain import retention
from retrier.domain.archive_operation import Act
from retrier.domain.failed_message import Resolution
from retrier.domain.retention import RetentionTimes, SecondLook, find_ages
from retrier.errors import LeaseLost
from retrier.events.event import Event
from retrier.events.processor import ChunkDeleted
from retrier.store.engine.database import Database
from retrier.store.event_log import list_events
from retrier.store.figures import read_ledger
from retrier.store.message_lists import PageRequest
from retrier.store.retention import delete_chunk
from retrier.store.schema import (
    ended_retries,
    failed_imports,
    failed_message_retries,
    failed_messages,
    processing_attempts,
    retry_operation_messages,
    retry_operations,
)
from retrier.store.verification import verify_store
from tests.contract.store_retries import CLAIMED, SENT, STAGED, bring_to
from tests.contract.store_rows import (
    again,
    everything_but,
    ledger_entries,
    messages,
    only_message,
    redelivered,
    rows,
    set_columns,
)
from tests.support.bench import QUEUE, Bench
from tests.support.databases import open_upgraded, path_of, sqlite_url
from tests.support.factories import confirmation, failure, unique_id
from tests.support.old import DAY, TIMES, age, ago, make_retention, set_time, settle, sweep

LONG_AGO = 11
LATELY = 9


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


@pytest.fixture
def told(bench: Bench) -> list[ChunkDeleted]:
    """Give the chunks that were deleted."""
    events: list[ChunkDeleted] = []

    def note(event: Event) -> None:
        if isinstance(event, ChunkDeleted):
            events.append(event)

    bench.subscriber = note
    return events


def archived(bench: Bench, count: int = 1) -> list[str]:
    """Give messages that were archived long ago."""
    ids = bench.fail(count)
    settle(bench.db, Act.ARCHIVE, ids)
    age(bench.db, LONG_AGO, *ids)
    return ids


def is_sound(bench: Bench) -> bool:
    """Say whether no rule is broken, and the ledger adds up."""
    ledger = read_ledger(bench.db)
    broken = [rule.rule for rule in verify_store(bench.db).rules if rule.broken]
    return (broken, ledger.missing_messages, ledger.uncounted_deliveries) == ([], 0, 0)


class TestAClockThatIsAhead:
    def test_deletes_nothing_that_was_not_due_at_the_look_before(self, bench: Bench) -> None:
        ids = archived(bench)
        before = SecondLook(timedelta(0))
        before.note(0, ago(LONG_AGO))

        make_retention(bench, before).sweep()

        assert set(messages(bench.db)) == set(ids)

    def test_deletes_nothing_before_there_was_a_second_look(self, bench: Bench) -> None:
        ids = archived(bench)

        make_retention(bench, SecondLook(timedelta(hours=1))).sweep()

        assert set(messages(bench.db)) == set(ids)

    def test_deletes_no_operation_that_was_not_due_at_the_look_before(self, bench: Bench) -> None:
        bring_to(bench, SENT)
        set_time(bench.db, retry_operations, completed_at=ago(91), state="completed")
        before = SecondLook(timedelta(0))
        before.note(0, ago(2))

        make_retention(bench, before).sweep()

        assert len(rows(bench.db, retry_operations)) == 1

    def test_deletes_no_failed_import_that_was_not_due_at_the_look_before(
        self, bench: Bench
    ) -> None:
        bench.receive(confirmation(unique_id(failure())))
        set_time(bench.db, failed_imports, received_at=ago(LONG_AGO))
        before = SecondLook(timedelta(0))
        before.note(0, ago(2))

        make_retention(bench, before, imports=10 * DAY).sweep()

        assert len(rows(bench.db, failed_imports)) == 1


class TestAMessageThatWasSettledLongAgo:
    def test_goes_when_it_is_archived(self, bench: Bench) -> None:
        archived(bench)

        sweep(bench)

        assert messages(bench.db) == {}
        assert is_sound(bench)

    def test_goes_when_it_was_resolved_by_hand(self, bench: Bench) -> None:
        ids = bench.fail()
        settle(bench.db, Act.RESOLVE, ids)
        age(bench.db, LONG_AGO)

        sweep(bench)

        assert messages(bench.db) == {}

    def test_goes_when_it_was_confirmed_with_the_history_of_its_retries(self, bench: Bench) -> None:
        retry = bring_to(bench, SENT)
        retry.confirm()
        assert rows(bench.db, ended_retries) != []
        age(bench.db, LONG_AGO)

        sweep(bench)

        tables = (failed_messages, processing_attempts, ended_retries, failed_message_retries)
        assert [rows(bench.db, table) for table in tables] == [[], [], [], []]
        assert is_sound(bench)

    def test_goes_though_its_confirmation_gave_no_time(self, bench: Bench) -> None:
        bring_to(bench, SENT).confirm(succeeded_at=None)
        age(bench.db, LONG_AGO)

        sweep(bench)

        assert messages(bench.db) == {}

    def test_goes_with_all_its_attempts_and_the_body_that_they_share(self, bench: Bench) -> None:
        first = failure(queue=QUEUE)
        bench.receive(first, again(first, queue=QUEUE), again(first, queue=QUEUE))
        kept = bench.fail()
        settle(bench.db, Act.ARCHIVE, [unique_id(first)])
        age(bench.db, LONG_AGO)

        sweep(bench)

        assert list(messages(bench.db)) == kept
        assert len(rows(bench.db, processing_attempts)) == 1
        assert is_sound(bench)

    def test_is_counted_as_deleted(self, bench: Bench) -> None:
        archived(bench, 3)
        bench.fail(2)

        sweep(bench)

        assert ledger_entries(bench.db)["deleted"] == 3
        assert read_ledger(bench.db).missing_messages == 0

    @pytest.mark.parametrize("clock", [-20, 20], ids=["behind", "ahead"])
    def test_is_judged_by_the_clock_of_the_database_and_not_by_its_consumers(
        self, bench: Bench, clock: int
    ) -> None:
        young, old = bench.fail(2)
        settle(bench.db, Act.RESOLVE, [young, old])
        age(bench.db, LATELY, young)
        age(bench.db, LONG_AGO, old)
        set_time(bench.db, failed_messages, resolved_at=ago(-clock))

        sweep(bench)

        assert list(messages(bench.db)) == [young]


class TestAMessageThatStays:
    def test_was_settled_lately(self, bench: Bench) -> None:
        ids = archived(bench)
        age(bench.db, LATELY)

        sweep(bench)

        assert list(messages(bench.db)) == ids

    @pytest.mark.parametrize("stage", [None, CLAIMED, STAGED, SENT], ids=str)
    def test_is_not_settled_however_old_it_is(self, bench: Bench, stage: str | None) -> None:
        ids = bench.fail() if stage is None else [bring_to(bench, stage).key]
        age(bench.db, 1000)

        sweep(bench)

        assert list(messages(bench.db)) == ids

    def test_has_a_claim_that_never_held(self, bench: Bench) -> None:
        retry = bring_to(bench, CLAIMED)
        set_columns(bench.db, retry.key, status="archived", last_modified=ago(LONG_AGO))

        sweep(bench)
        assert list(messages(bench.db)) == [retry.key]

        retry.finish()
        sweep(bench)
        assert messages(bench.db) == {}
        assert is_sound(bench)

    @pytest.mark.parametrize(
        ("off", "status", "resolution"),
        [
            ("archived", "archived", None),
            ("resolved", "resolved", "by_hand"),
            ("presumed", "resolved", "presumed"),
        ],
    )
    def test_is_of_a_kind_that_is_kept_for_ever(
        self, bench: Bench, off: str, status: str, resolution: str | None
    ) -> None:
        (kept,) = bench.fail()
        archive, resolve, presume = bench.fail(3)
        states: dict[str, Any] = {
            archive: {"status": "archived"},
            resolve: {"status": "resolved", "resolution": "by_hand"},
            presume: {"status": "resolved", "resolution": "presumed"},
            kept: {"status": status, "resolution": resolution},
        }
        for key, state in states.items():
            set_columns(bench.db, key, **state)
        age(bench.db, 1000)

        sweep(bench, **{off: None})

        left = messages(bench.db)
        assert kept in left
        assert {(row["status"], row["resolution"]) for row in left.values()} == {
            (status, resolution)
        }


class TestASweep:
    def test_deletes_as_many_chunks_as_there_are(
        self, bench: Bench, told: list[ChunkDeleted]
    ) -> None:
        archived(bench, retention.CHUNK + 1)

        sweep(bench)

        assert messages(bench.db) == {}
        assert [each.count for each in told] == [retention.CHUNK, 1]

    def test_deletes_no_more_bytes_in_one_chunk_than_fit(
        self, bench: Bench, told: list[ChunkDeleted]
    ) -> None:
        archived(bench, 3)
        set_time(bench.db, failed_messages, body_size=retention.CHUNK_BYTES // 2)

        sweep(bench)

        assert messages(bench.db) == {}
        assert [each.count for each in told] == [1, 1, 1]

    def test_says_in_the_event_log_what_it_deleted(self, bench: Bench) -> None:
        archived(bench, 2)

        sweep(bench)
        sweep(bench)

        (swept,) = [
            each
            for each in list_events(bench.db, PageRequest(size=50, number=1)).items
            if each.kind == "retention_swept"
        ]
        assert swept.who == "retention"
        assert "messages 2, operations 0, failed imports 0" in swept.text

    def test_writes_nothing_when_nothing_is_due(self, bench: Bench) -> None:
        bench.fail()
        before = everything_but(bench.db)

        sweep(bench)

        assert everything_but(bench.db) == before

    def test_does_nothing_without_the_lease(self, bench: Bench) -> None:
        ids = archived(bench)
        swept = make_retention(bench)
        bench.lose_lease()

        swept.sweep()

        assert list(messages(bench.db)) == ids
        with pytest.raises(LeaseLost):
            delete_chunk(bench.db, bench.context.lease.fence, swept.ages[0], "test")

    def test_stops_between_two_chunks(self, bench: Bench) -> None:
        archived(bench, retention.CHUNK + 1)
        swept = make_retention(bench)
        bench.at("retention.deleted", swept.context.stop.set)

        swept.sweep()

        assert len(messages(bench.db)) == 1


class TestWhatComesAfterAMessageWasDeleted:
    def test_its_redelivery_makes_a_new_row_that_can_be_retried(self, bench: Bench) -> None:
        first = failure(queue=QUEUE)
        bench.receive(first)
        number = only_message(bench.db)["number"]
        settle(bench.db, Act.ARCHIVE, [unique_id(first)])
        age(bench.db, LONG_AGO)
        sweep(bench)

        bench.receive(redelivered(first))
        bench.ask_all()
        bench.work()

        assert bench.sent() == [unique_id(first)]
        assert only_message(bench.db)["number"] > number
        assert is_sound(bench)

    def test_its_confirmation_is_a_failed_import(self, bench: Bench) -> None:
        retry = bring_to(bench, SENT)
        settle(bench.db, Act.RESOLVE, [retry.key])
        age(bench.db, LONG_AGO)
        sweep(bench)

        bench.receive(confirmation(retry.key))

        assert len(rows(bench.db, failed_imports)) == 1
        assert is_sound(bench)

    def test_an_operation_that_named_it_skips_it(self, bench: Bench) -> None:
        gone, there = bench.fail(2)
        created = bench.ask([gone, there])
        settle(bench.db, Act.ARCHIVE, [gone])
        age(bench.db, LONG_AGO, gone)
        sweep(bench)

        bench.work()

        assert bench.sent() == [there]
        assert bench.operation(created)["skipped"] == 1
        assert is_sound(bench)


class TestAnOperation:
    def test_that_is_over_goes_with_the_ids_that_it_named(self, bench: Bench) -> None:
        bench.ask(bench.fail(2))
        bench.work()
        set_time(bench.db, retry_operations, completed_at=ago(91))

        sweep(bench)

        assert rows(bench.db, retry_operations) == []
        assert rows(bench.db, retry_operation_messages) == []
        assert is_sound(bench)

    def test_that_is_under_way_stays(self, bench: Bench) -> None:
        bench.ask(bench.fail())
        set_time(bench.db, retry_operations, created_at=ago(1000))

        sweep(bench)

        assert len(rows(bench.db, retry_operations)) == 1

    @pytest.mark.parametrize(("kept", "days"), [(90 * DAY, 89), (None, 1000)], ids=["young", "off"])
    def test_that_is_kept_stays(self, bench: Bench, kept: timedelta | None, days: int) -> None:
        bench.ask(bench.fail())
        bench.work()
        set_time(bench.db, retry_operations, completed_at=ago(days))

        sweep(bench, operations=kept)

        assert len(rows(bench.db, retry_operations)) == 1

    def test_may_go_before_the_outcome_of_its_retries(self, bench: Bench) -> None:
        retry = bring_to(bench, SENT)
        set_time(bench.db, retry_operations, completed_at=ago(91))

        sweep(bench)
        retry.confirm()

        assert rows(bench.db, retry_operations) == []
        assert retry.message["status"] == "resolved"
        assert is_sound(bench)


class TestAFailedImport:
    @pytest.mark.parametrize(
        ("kept", "left"), [(None, 1), (12 * DAY, 1), (10 * DAY, 0)], ids=["off", "young", "old"]
    )
    def test_goes_where_a_time_is_set(
        self, bench: Bench, kept: timedelta | None, left: int
    ) -> None:
        bench.receive(confirmation(unique_id(failure())))
        set_time(bench.db, failed_imports, received_at=ago(LONG_AGO))

        sweep(bench, imports=kept)

        assert len(rows(bench.db, failed_imports)) == left
        assert is_sound(bench)


def asked_for_old(bench: Bench) -> list[tuple[str, Any]]:
    """Return the statements that find the messages of a chunk, one for each way to be settled."""
    noted: list[tuple[str, Any]] = []

    def note(_conn: object, _cursor: object, statement: str, given: Any, *_: object) -> None:
        if "failed_messages.body_size" in statement:
            noted.append((statement, given))

    event.listen(bench.db.engine, "before_cursor_execute", note)
    try:
        for old in find_ages(RetentionTimes(**TIMES)):
            delete_chunk(bench.db, bench.context.lease.fence, old, "test")
    finally:
        event.remove(bench.db.engine, "before_cursor_execute", note)
    return noted


def test_the_oldest_are_read_in_the_order_of_an_index_and_not_sorted(bench: Bench) -> None:
    is_sqlite, plans = bench.db.is_sqlite, []
    for statement, given in asked_for_old(bench):
        with bench.db.engine.connect() as conn:  # rolled back
            if not is_sqlite:
                conn.execute(text("SET LOCAL enable_seqscan = off"))
                conn.execute(text("SET LOCAL enable_sort = off"))
                # On an empty table every index costs nearly the same: what tests before have left in
                # the statistics would decide.
                for other in failed_messages.indexes:
                    if other.name != "ix_failed_messages_retention":
                        conn.execute(text(f"DROP INDEX {other.name}"))
            word = "EXPLAIN QUERY PLAN" if is_sqlite else "EXPLAIN"
            plans.append(str(conn.exec_driver_sql(f"{word} {statement}", given).all()))

    assert len(plans) == len(Resolution) + 1
    assert all("ix_failed_messages_retention" in plan for plan in plans)
    assert not any("Sort" in plan or "TEMP B-TREE" in plan for plan in plans)


class TestAnSqliteFile:
    """Most of it was deleted: its free pages are given back."""

    def emptied(self, db: Database) -> Bench:
        """Give a file most of whose messages are old."""
        bench = Bench(db)
        bench.fail(20, body=b"kept" * 1000)
        old = bench.fail(300, body=b"large" * 4000)
        settle(db, Act.ARCHIVE, old)
        age(db, LONG_AGO, *old)
        return bench

    def pages(self, db: Database, pragma: str) -> int:
        with db.engine.connect() as conn:
            return int(conn.exec_driver_sql(f"PRAGMA {pragma}").scalar_one())

    def test_that_is_new_becomes_smaller(self, tmp_path: Path) -> None:
        db = open_upgraded(sqlite_url(tmp_path))
        bench = self.emptied(db)
        before = self.pages(db, "page_count")

        sweep(bench)

        free, now = self.pages(db, "freelist_count"), self.pages(db, "page_count")
        assert now < before / 2
        assert free <= now / 4 + 1
        assert is_sound(bench)
        db.dispose()

    def test_of_an_earlier_version_keeps_its_size_and_is_sound(self, tmp_path: Path) -> None:
        url = sqlite_url(tmp_path)
        with closing(sqlite3.connect(path_of(url))) as conn:
            conn.execute("CREATE TABLE made_before (n INTEGER)")
        db = open_upgraded(url)
        bench = self.emptied(db)
        before = self.pages(db, "page_count")

        sweep(bench)

        assert self.pages(db, "page_count") >= before
        assert is_sound(bench)
        db.dispose()

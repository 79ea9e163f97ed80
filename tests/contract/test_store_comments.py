"""Comments on groups in the database: one each, and kept as long as there is something to it."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select

from retrier.domain.archive_operation import Act
from retrier.domain.identity import md5_guid
from retrier.store.comments import find_comments, write_comment
from retrier.store.engine.database import Database
from retrier.store.schema import event_log, group_comments
from tests.contract.store_rows import rows
from tests.support.bench import QUEUE, Bench
from tests.support.old import age, settle, sweep

GROUP = md5_guid(f"Endpoint Address{QUEUE}")


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def events(db: Database) -> list[str]:
    with db.engine.begin() as conn:
        query = select(event_log.c.text).where(event_log.c.kind == "group_commented")
        query = query.order_by(event_log.c.event_id)
        return list(conn.execute(query).scalars())


def test_one_in_place_of_another_has_its_writer(bench: Bench) -> None:
    bench.fail()
    write_comment(bench.db, GROUP, "first", "ada")

    write_comment(bench.db, GROUP, "second", "bob")

    found = find_comments(bench.db, [GROUP])[GROUP]
    assert (found.text, found.who) == ("second", "bob")


def test_the_same_again_keeps_its_writer(bench: Bench) -> None:
    bench.fail()
    write_comment(bench.db, GROUP, "first", "ada")

    write_comment(bench.db, GROUP, "first", "bob")

    assert find_comments(bench.db, [GROUP])[GROUP].who == "ada"


def test_one_that_is_replaced_can_be_read_in_the_event_log(bench: Bench) -> None:
    bench.fail()
    write_comment(bench.db, GROUP, "first", "ada")
    write_comment(bench.db, GROUP, "second", "bob")

    assert [text.endswith(": first") for text in events(bench.db)] == [True, False]


def test_several_at_the_same_time_leave_one_and_an_event_each_time_it_changed(
    bench: Bench,
) -> None:
    bench.fail()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: write_comment(bench.db, GROUP, "same", "ada"), range(8)))

    assert len(rows(bench.db, group_comments)) == 1
    assert len(events(bench.db)) == 1


def test_it_goes_with_the_last_message_of_its_group(bench: Bench) -> None:
    settle(bench.db, Act.ARCHIVE, bench.fail())
    write_comment(bench.db, GROUP, "known", "ada")
    age(bench.db, 100)

    sweep(bench)

    assert rows(bench.db, group_comments) == []


def test_it_stays_as_long_as_one_message_of_its_group_is_stored(bench: Bench) -> None:
    old, _kept = bench.fail(2)
    settle(bench.db, Act.ARCHIVE, [old])
    write_comment(bench.db, GROUP, "known", "ada")
    age(bench.db, 100)

    sweep(bench)

    assert [row["comment"] for row in rows(bench.db, group_comments)] == ["known"]

"""Where capabilities meet: what one of them may not do because of another."""

import pytest
from sqlalchemy import delete

from retrier.domain.archive_operation import Act
from retrier.store.engine.database import Database
from retrier.store.import_acts import read_again, stamp_import
from retrier.store.outgoing import find_outgoing
from retrier.store.recording import Reception, record_received
from retrier.store.schema import failed_imports, failed_messages, outgoing
from retrier.store.verification import verify_store
from tests.contract.store_rows import rows
from tests.support.bench import Bench
from tests.support.factories import failed_import, failure, unique_id
from tests.support.old import DAY, age, ago, set_time, settle, sweep

LOG = "error.log"


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def import_ids(bench: Bench) -> list[str]:
    return [row["import_id"] for row in rows(bench.db, failed_imports)]


def test_a_message_whose_copy_for_the_log_queue_waits_is_not_deleted_for_its_age(
    bench: Bench,
) -> None:
    # Given an archived message that is old, and a log queue that takes nothing
    waiting = failure()
    record_received(bench.db, [waiting], instance="test", forward_to=LOG)
    settle(bench.db, Act.ARCHIVE, [unique_id(waiting)])
    age(bench.db, 11)

    sweep(bench)

    assert len(rows(bench.db, failed_messages)) == 1
    assert len(find_outgoing(bench.db, 10)) == 1
    assert [rule for rule in verify_store(bench.db).rules if rule.broken] == []


def test_it_is_deleted_once_its_copy_was_sent(bench: Bench) -> None:
    sent = failure()
    record_received(bench.db, [sent], instance="test", forward_to=LOG)
    settle(bench.db, Act.ARCHIVE, [unique_id(sent)])
    age(bench.db, 11)
    with bench.db.engine.begin() as conn:
        conn.execute(delete(outgoing))

    sweep(bench)

    assert rows(bench.db, failed_messages) == []


def test_a_failed_import_in_doubt_is_not_deleted_for_its_age(bench: Bench) -> None:
    # Given two old imports, one of which was stamped and perhaps sent
    record_received(bench.db, [failed_import(), failed_import()], instance="test")
    doubtful, _ = import_ids(bench)
    stamp_import(bench.db, doubtful, to="orders", who="ada", again=False)
    set_time(bench.db, failed_imports, received_at=ago(11))

    sweep(bench, imports=10 * DAY)

    assert import_ids(bench) == [doubtful]
    assert [rule for rule in verify_store(bench.db).rules if rule.broken] == []


def test_an_import_that_is_read_again_as_a_failure_goes_to_the_log_queue(bench: Bench) -> None:
    record_received(bench.db, [failed_import()], instance="test")
    (kept,) = import_ids(bench)
    understood = failure()

    read_again(
        bench.db,
        [kept],
        lambda _import: understood,
        into=Reception(instance="test", forward_to=LOG),
        who="ada",
    )

    assert [each.unique_message_id for each in find_outgoing(bench.db, 10)] == [
        unique_id(understood)
    ]

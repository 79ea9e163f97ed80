"""The tests of the description's cascades, by their names: a head that failed, and what follows."""

from datetime import UTC, datetime

import pytest

from retrier.domain.failed_message import Disposition
from retrier.store.engine.database import Database
from tests.contract.store_rows import set_columns
from tests.support.bench import Bench
from tests.support.streams import fail_in_stream, look_now, release

LATER = datetime(2099, 1, 1, tzinfo=UTC)


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def schedule(bench: Bench, head: str) -> None:
    """Let a policy have set a time for its retry."""
    set_columns(
        bench.db,
        head,
        disposition=Disposition.SCHEDULED,
        retry_at=LATER,
        policy="orders@0123abcd",
        failure_count=1,
    )


def test_stream_based_failure_cascade_releases_later_messages_in_same_stream(bench: Bench) -> None:
    head, *later = fail_in_stream(bench, 3)
    schedule(bench, head)

    release(bench.db)
    bench.ask(later)
    bench.work()

    assert bench.sent() == later


def test_scheduled_retry_blocks_later_messages_in_stream(bench: Bench) -> None:
    head, *later = fail_in_stream(bench, 3)
    schedule(bench, head)

    bench.ask(later)
    bench.work()

    assert bench.sent() == []


def test_scheduled_retry_expires_unblocks_stream(bench: Bench) -> None:
    # Given a head whose time comes: it is retried, and what follows still waits for the outcome
    head, *later = fail_in_stream(bench, 3)
    schedule(bench, head)
    bench.ask([head])
    bench.ask_all()
    bench.work()
    assert bench.sent() == [head]

    # When it is resolved, the next one goes, and then the one after it
    for each in [head, *later]:
        bench.confirm(each)
        look_now(bench)
        bench.work()

    assert bench.sent() == [head, *later]


def test_independent_events_go_without_the_one_that_fails(bench: Bench) -> None:
    head, address, email = fail_in_stream(bench, 3)

    release(bench.db)
    bench.ask([address, email])
    bench.work()

    assert bench.sent() == [address, email]
    assert bench.statuses()[head] == "unresolved"


def test_one_that_depends_on_the_first_is_kept_and_another_released(bench: Bench) -> None:
    _send, log, preferences = fail_in_stream(bench, 3)

    release(bench.db, preferences)
    bench.ask([log, preferences])
    bench.work()

    assert bench.sent() == [preferences]


def test_a_poison_message_is_left_behind(bench: Bench) -> None:
    head, *later = fail_in_stream(bench, 4)
    set_columns(
        bench.db, head, disposition=Disposition.DEAD, disposition_reason="it never succeeds"
    )

    release(bench.db)
    bench.ask_all()
    bench.work()

    assert bench.sent() == later

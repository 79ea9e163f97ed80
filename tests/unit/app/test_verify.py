"""Verification of the staging queue: what it holds, compared with the batch that waits for it."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from retrier.app.process import describe_holder
from retrier.app.verify import STAGING_RULE, verify
from retrier.domain.wire import Outgoing
from retrier.events.processor import BatchStaged
from retrier.settings import Settings
from retrier.store.engine.database import Database
from retrier.store.lease import acquire_lease, release_lease
from retrier.transport.embedded import EmbeddedTransport
from tests.support.bench import STAGING, Bench, Killed
from tests.support.databases import open_upgraded, sqlite_url

COUNT = 3


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.model_validate(
        {
            "broker": {"url": f"embedded:///{tmp_path}/broker.db"},
            "database": {"url": sqlite_url(tmp_path)},
        }
    )


@pytest.fixture
def db(settings: Settings) -> Iterator[Database]:
    db = open_upgraded(settings.database.url)
    yield db
    db.dispose()


@pytest.fixture
def forwarding(db: Database) -> Bench:
    """Give a batch in Forwarding whose processor is gone; its copies are to be made yet."""
    bench = Bench(db)
    bench.fail(COUNT)
    bench.ask_all()
    bench.kill_at(BatchStaged.name)
    with pytest.raises(Killed):
        bench.work()
    release_lease(db, bench.context.lease.fence)
    return bench


def put_copies(settings: Settings, count: int) -> None:
    """Put so many messages into the staging queue."""
    transport = EmbeddedTransport(*settings.broker.url)
    queues = transport.queues()
    queues.declare_staging_queue(STAGING)
    queues.close()
    publisher = transport.publisher()
    message = Outgoing(queue=STAGING, raw=transport.codec.empty, body=b"")
    publisher.publish([message] * count, lambda: None)
    publisher.close()


def find_missing(settings: Settings) -> int:
    (rule,) = [rule for rule in verify(settings).rules if rule.rule == STAGING_RULE]
    return rule.broken


@pytest.mark.usefixtures("forwarding")
def test_a_queue_that_holds_all_that_is_waited_for_is_not_off(settings: Settings) -> None:
    put_copies(settings, COUNT)

    assert find_missing(settings) == 0


@pytest.mark.usefixtures("forwarding")
def test_copies_that_are_missing_are_off(settings: Settings) -> None:
    put_copies(settings, COUNT - 2)

    assert find_missing(settings) == 2
    assert "2 missing" in (verify(settings).staging or "")


@pytest.mark.usefixtures("forwarding")
def test_a_queue_that_is_gone_lacks_every_copy(settings: Settings) -> None:
    assert find_missing(settings) == COUNT


@pytest.mark.usefixtures("forwarding")
def test_more_than_is_waited_for_is_not_off(settings: Settings) -> None:
    put_copies(settings, COUNT + 1)

    assert find_missing(settings) == 0


def test_what_a_living_processor_may_have_in_hand_is_not_missed(
    settings: Settings, forwarding: Bench
) -> None:
    me = describe_holder("this process")
    acquire_lease(forwarding.db, me, timedelta(minutes=1), lambda _holder: False)

    assert find_missing(settings) == 0


def test_without_a_batch_in_forwarding_nothing_is_missed(settings: Settings, db: Database) -> None:
    Bench(db).fail(COUNT)

    assert find_missing(settings) == 0


@pytest.mark.usefixtures("db")
def test_what_lies_there_for_nobody_is_told(settings: Settings) -> None:
    put_copies(settings, 1)

    assert verify(settings).staging == "1 message that nothing waits for: dropped at the next retry"

"""What metrics say of streams: how much they hold, what their heads wait for, and since when."""

from datetime import timedelta

import pytest

from retrier.app.metrics.instruments import Metrics
from retrier.domain.streams import HeadState
from retrier.store.engine.database import Database
from retrier.store.figures import read_figures
from retrier.store.streams import NOTHING_HELD, HeldFigures
from tests.contract.store_rows import set_columns
from tests.support.bench import STAGING, Bench
from tests.support.disposing import make_dead
from tests.support.factories import FAILED_AT
from tests.support.metrics import Scrape
from tests.support.scheduling import LATER, schedule
from tests.support.streams import fail_in_stream, make_strict, release


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def held(bench: Bench) -> HeldFigures:
    return read_figures(bench.db).held


def test_nothing_is_held_where_nothing_is_strict(bench: Bench) -> None:
    fail_in_stream(bench, 3)
    make_strict(bench.db, None)

    assert held(bench) == NOTHING_HELD


def test_all_but_the_head_are_held(bench: Bench) -> None:
    fail_in_stream(bench, 3)

    assert (held(bench).messages, held(bench).streams) == (2, {HeadState.MANUAL: 1})


def test_streams_are_counted_by_what_their_heads_wait_for(bench: Bench) -> None:
    heads = [fail_in_stream(bench, 2, stream_id=name)[0] for name in ("a", "b", "c", "d", "e")]
    make_dead(bench.db, heads[0])
    schedule(bench.db, [heads[1]], within=LATER)
    bench.ask(heads[2:4])
    bench.work()

    assert held(bench).messages == 5
    assert held(bench).streams == {
        HeadState.DEAD: 1,
        HeadState.SCHEDULED: 1,
        HeadState.ON_ITS_WAY: 2,
        HeadState.MANUAL: 1,
    }


def test_a_head_that_is_claimed_is_on_its_way(bench: Bench) -> None:
    head, _ = fail_in_stream(bench, 2)
    bench.ask([head])
    seen = []
    bench.at("marking.moved", lambda: seen.append(held(bench).streams))

    bench.work()

    assert seen == [{HeadState.ON_ITS_WAY: 1}]


def test_what_is_released_is_not_held(bench: Bench) -> None:
    fail_in_stream(bench, 3)

    release(bench.db)

    assert held(bench).messages == 0


def test_the_oldest_head_is_the_one_that_has_not_changed_for_longest(bench: Bench) -> None:
    old = fail_in_stream(bench, 2, stream_id="old")
    new = fail_in_stream(bench, 2, stream_id="new")
    now = bench.db.read(lambda tx: tx.now)
    set_columns(bench.db, old[0], last_modified=now - timedelta(hours=3))
    set_columns(bench.db, new[0], last_modified=now - timedelta(hours=1))
    # Followers, and what holds nobody, do not count.
    set_columns(bench.db, old[1], last_modified=FAILED_AT)
    set_columns(bench.db, bench.fail()[0], last_modified=FAILED_AT)

    oldest = held(bench).oldest_head

    assert oldest is not None
    assert timedelta(hours=3) <= oldest < timedelta(hours=4)


def test_a_scrape_shows_them_and_each_state_that_no_head_is_in(bench: Bench) -> None:
    head, _ = fail_in_stream(bench, 2)
    make_dead(bench.db, head)
    metrics = Metrics(
        version="1",
        error_queues=[],
        staging_queue=STAGING,
        read_figures=lambda: read_figures(bench.db),
    )

    scrape = Scrape.of(metrics)

    assert scrape.get("retrier_held_messages") == 1
    assert scrape.get("retrier_held_streams", head="dead") == 1
    assert scrape.get("retrier_held_streams", head="on_its_way") == 0
    assert scrape.get("retrier_oldest_head_age_seconds") is not None

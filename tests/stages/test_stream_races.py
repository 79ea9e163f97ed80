"""What a cut left out is looked for again, though it becomes free while the cut is being made."""

from collections.abc import Iterator

import pytest

from retrier.store.engine.database import Database
from tests.conftest import opened_empty
from tests.support.bench import Bench
from tests.support.between import BetweenLookAndCount
from tests.support.streams import fail_in_stream, look_now

pytestmark = pytest.mark.postgres


# With SQLite nobody can write between the two: they are in one transaction.
@pytest.fixture
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with opened_empty("postgres", request) as db:
        yield db


def test_a_follower_goes_whose_head_is_confirmed_between_look_and_count(
    database: Database,
) -> None:
    # Given a consumer that confirms the head while the next cut is being made
    bench = Bench(database)
    head, follower = fail_in_stream(bench, 2)
    created = bench.ask_all()
    race = BetweenLookAndCount(bench.db, bench.sent, lambda: bench.confirm(head))

    bench.work()
    race.close()
    # When the time comes to look again, unless it has come already: a slow machine takes that long
    look_now(bench)
    bench.work()

    assert race.has_acted
    assert bench.sent() == [head, follower]
    assert bench.operation(created)["skipped"] == 0

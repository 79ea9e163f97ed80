"""The six cases of a head and its follower: who is held, as the cut decides and as the API says."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from sqlalchemy import select

from retrier.domain.archive_operation import Act
from retrier.domain.failed_message import Disposition
from retrier.store.engine.database import Database
from retrier.store.holds import IS_HELD
from retrier.store.schema import failed_messages
from tests.contract.store_rows import select_rows, set_columns
from tests.support.api import Api
from tests.support.bench import QUEUE, Bench
from tests.support.old import settle
from tests.support.streams import ORDER, fail_in_stream, look_now, release

LATER = datetime(2099, 1, 1, tzinfo=UTC)
MAY_GO, HELD = False, True


def schedule(bench: Bench, head: str) -> None:
    """Let a policy have set a time for its retry."""
    set_columns(bench.db, head, disposition=Disposition.SCHEDULED, retry_at=LATER)


def leave(bench: Bench, head: str) -> None:
    """Let it wait for a person, or be dead."""
    set_columns(
        bench.db, head, disposition=Disposition.DEAD, disposition_reason="it never succeeds"
    )


def send(bench: Bench, head: str) -> None:
    """Let its retry be on its way."""
    bench.ask([head])
    bench.work()


def resolve(bench: Bench, head: str) -> None:
    settle(bench.db, Act.RESOLVE, [head])


def archive(bench: Bench, head: str) -> None:
    settle(bench.db, Act.ARCHIVE, [head])


Prepare = Callable[[Bench, str], None]
MATRIX: list[tuple[str, Prepare, bool, bool]] = [
    ("1: head scheduled, follower not released", schedule, False, HELD),
    ("2: head scheduled, follower released", schedule, True, MAY_GO),
    ("3: head not scheduled, follower released", leave, True, MAY_GO),
    ("4: head on its way, follower not released", send, False, HELD),
    ("4: head on its way, follower released", send, True, MAY_GO),
    ("5: head resolved", resolve, False, MAY_GO),
    ("5: head archived", archive, False, MAY_GO),
    ("6: head not scheduled, follower not released", leave, False, HELD),
]


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


@pytest.mark.parametrize(
    ("prepare", "released", "held"),
    [case[1:] for case in MATRIX],
    ids=[case[0] for case in MATRIX],
)
def test_the_matrix_of_head_and_follower(
    bench: Bench, prepare: Prepare, *, released: bool, held: bool
) -> None:
    # Given a head and its follower in that state
    head, follower = fail_in_stream(bench, 2)
    prepare(bench, head)
    api = Api(bench.db)
    if released:
        assert release(bench.db).ids == (follower,)

    # Then SQL says so
    key = failed_messages.c.unique_message_id == follower
    (row,) = select_rows(bench.db, select(IS_HELD.label("held")).where(key))
    assert bool(row["held"]) is held

    # And HTTP does
    shown = api.get(f"streams/{ORDER}", queue=QUEUE)["messages"][-1]
    assert shown["id"] == follower
    assert ("held_because" in shown) is held

    # And a bulk retry acts so
    bench.ask_all()
    look_now(bench)
    bench.work()
    assert (follower in bench.sent()) is not held

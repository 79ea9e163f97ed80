"""The legal moves of a failed message: what the table says of them is what the store allows."""

from collections.abc import Callable

import pytest
from sqlalchemy import select

from retrier.domain.decision import Dead, Manual
from retrier.domain.failed_message import MOVES, FailedMessageStatus, Move
from retrier.domain.recording import MessageChange
from retrier.store import messages
from retrier.store.engine.database import Database
from retrier.store.engine.transaction import Transaction
from retrier.store.messages import legal
from retrier.store.schema import failed_messages as stored
from tests.contract.store_rows import only_message, record, set_columns
from tests.support.factories import confirmation, failure

STATUSES = tuple(FailedMessageStatus)
EVERY_STATUS = pytest.mark.parametrize("status", STATUSES)


def confirm(tx: Transaction, number: int, key: str) -> None:
    change = MessageChange(unique_message_id=key, is_new=False, confirmation=confirmation(key))
    messages.confirm(tx, {number: change})


MADE: dict[Move, Callable[[Transaction, int, str], object]] = {
    Move.REVERTED: lambda tx, number, _key: messages.become_unresolved(
        tx, Move.REVERTED, {number: Manual()}
    ),
    Move.CONFIRMED: confirm,
    Move.SETTLED: lambda tx, number, _key: messages.settle(tx, [number]),
    Move.PRESUMED: lambda tx, number, _key: messages.presume(tx, [number]),
    Move.ARCHIVED: lambda tx, number, _key: messages.archive(tx, [number]),
    Move.UNARCHIVED: lambda tx, number, _key: messages.become_unresolved(
        tx, Move.UNARCHIVED, {number: Manual()}
    ),
    Move.GIVEN_UP: lambda tx, number, _key: messages.become_unresolved(
        tx, Move.GIVEN_UP, {number: Dead(why="by hand")}
    ),
}
"""What makes a move that needs nothing but the message."""


def in_status(db: Database, status: FailedMessageStatus) -> tuple[int, str]:
    """Store a message in that status; return its number and its id."""
    record(db, failure())
    row = only_message(db)
    resolution = "by_hand" if status is FailedMessageStatus.RESOLVED else None
    set_columns(db, row["unique_message_id"], status=status, resolution=resolution)
    return row["number"], row["unique_message_id"]


def test_every_move_is_said_to_lead_somewhere() -> None:
    assert set(MOVES) == set(Move)


def test_every_status_is_left_by_some_move_and_reached_by_some_move() -> None:
    sources = {status for left, _ in MOVES.values() for status in left}
    targets = {status for _, status in MOVES.values()}

    assert sources == targets == set(FailedMessageStatus)


def test_a_failure_brings_a_message_back_from_everywhere() -> None:
    assert MOVES[Move.FAILED] == (frozenset(STATUSES), FailedMessageStatus.UNRESOLVED)


@EVERY_STATUS
@pytest.mark.parametrize("move", Move)
def test_the_condition_of_a_move_is_met_by_what_may_make_it(
    database: Database, move: Move, status: FailedMessageStatus
) -> None:
    in_status(database, status)

    query = select(stored.c.number).where(legal(move))
    found = database.read(lambda tx: tx.execute(query).scalars().all())

    assert bool(found) == (status in MOVES[move][0])


@EVERY_STATUS
@pytest.mark.parametrize("move", MADE)
def test_a_move_is_made_only_by_what_may_make_it(
    database: Database, move: Move, status: FailedMessageStatus
) -> None:
    number, key = in_status(database, status)
    before = only_message(database)

    database.transact(lambda tx: MADE[move](tx, number, key))

    sources, target = MOVES[move]
    if status in sources:
        assert only_message(database)["status"] == target
    else:
        assert only_message(database) == before

"""Sets of values as one parameter: ids, hashes, numbers and texts, each as its column holds it."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Column, select

from retrier.domain.failed_message import Failure
from retrier.store.engine.database import Database
from retrier.store.schema import failed_messages, processing_attempts
from tests.contract.store_rows import message, record
from tests.support.factories import failure, unique_id

messages = failed_messages.c
attempts = processing_attempts.c

ODD = 'a,b{c}"d\\e\n'
VALUES: dict[str, tuple[Column[Any], Callable[[Database, Failure], object]]] = {
    "ids": (messages.unique_message_id, lambda _db, made: unique_id(made)),
    "hashes": (attempts.body_hash, lambda _db, made: made.body_hash),
    "fingerprints": (attempts.fingerprint, lambda _db, made: made.fingerprint),
    "numbers": (messages.number, lambda db, made: message(db, unique_id(made))["number"]),
    "texts": (messages.message_id, lambda _db, made: made.message_id),
}
"""A column of each kind, and what it holds of a failure."""

of_each_kind = pytest.mark.parametrize(("column", "value"), VALUES.values(), ids=VALUES.keys())


@pytest.fixture
def made(database: Database) -> list[Failure]:
    """Give three failures that are stored."""
    failures = [failure(), failure(message_id=ODD), failure()]
    record(database, *failures)
    return failures


@of_each_kind
@pytest.mark.parametrize("wanted", [[], [1], [0, 2], [0, 1, 2]], ids=str)
def test_just_these_are_found(
    database: Database,
    made: list[Failure],
    column: Column[Any],
    value: Callable[[Database, Failure], object],
    wanted: list[int],
) -> None:
    values = [value(database, made[each]) for each in wanted]

    query = select(column).where(database.sql.member(column, values))
    found = database.read(lambda tx: tx.execute(query).scalars().all())

    assert sorted(found) == sorted(values)


@of_each_kind
def test_a_statement_that_is_made_once_takes_any_number_of_them(
    database: Database,
    made: list[Failure],
    column: Column[Any],
    value: Callable[[Database, Failure], object],
) -> None:
    values = [value(database, each) for each in made]
    query = select(column).where(database.sql.listed(column, "wanted")).order_by(column)

    for number in range(len(values) + 1):
        some = values[:number]
        found = database.read(lambda tx, w=some: tx.execute(query, {"wanted": w}).scalars().all())
        assert sorted(found) == sorted(some)

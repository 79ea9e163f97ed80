"""What a text names exactly, and how many messages are found by it, each way.

It names something by a whole id, by the beginning of one, or as its sender's message id: each of
these questions is answered by an index, and none reads more than two rows.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from sqlalchemy import Column, func, or_, select

from retrier.domain.identity import canonical, is_guid
from retrier.domain.search import By, Way
from retrier.domain.selection import Selection
from retrier.domain.text import clean, ids_beginning
from retrier.domain.values import dataclass
from retrier.store.engine.database import Database, reading
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import (
    archive_operations,
    ended_retries,
    failed_imports,
    failed_message_retries,
    failed_messages,
    failure_groups,
    retry_batches,
    retry_operations,
)
from retrier.store.selections import conditions_looked_up

messages = failed_messages.c


class NamedKind(StrEnum):
    """What may be named by an id."""

    MESSAGE = "message"
    OPERATION = "operation"
    ARCHIVE = "archive"
    GROUP = "group"
    IMPORT = "import"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """One thing, by its whole id."""

    kind: NamedKind
    key: str


_IDS: Sequence[tuple[NamedKind, Column[Any]]] = (
    (NamedKind.MESSAGE, messages.unique_message_id),
    (NamedKind.OPERATION, retry_operations.c.operation_id),
    (NamedKind.ARCHIVE, archive_operations.c.operation_id),
    (NamedKind.GROUP, failure_groups.c.group_id),
    (NamedKind.IMPORT, failed_imports.c.import_id),
)
_MOST = 2
"""Of each kind: one is found, and two are too many to go to."""


@reading
def find_named(tx: Transaction, text: str) -> Sequence[Named]:
    """Return what the text names, two of each kind at most. Raises DatabaseUnavailable."""
    found: list[Named] = []
    ids = ids_beginning(text)
    if ids is not None:
        for kind, column in _IDS:
            query = select(column).where(column.between(ids.first, ids.last)).limit(_MOST)
            keys = tx.execute(query).scalars()
            found += [Named(kind=kind, key=canonical(str(key))) for key in keys]
    if found:
        return found
    if is_guid(text) and (retried := _find_by_retry(tx, canonical(text))):
        return retried
    by_sender = select(messages.unique_message_id).where(messages.message_id == text).limit(_MOST)
    return [Named(kind=NamedKind.MESSAGE, key=str(key)) for key in tx.execute(by_sender).scalars()]


def _find_by_retry(tx: Transaction, key: str) -> Sequence[Named]:
    """Return what one of our other ids belongs to: that of a batch, of its staging, of a retry.

    These have no index that leads from them to a message: it would be written with each retry, and
    be read by nobody else.
    """
    batches = retry_batches.c
    of_batch = select(batches.operation_id).where(
        or_(batches.batch_id == key, batches.staging_id == key)
    )
    for operation in tx.execute(of_batch.limit(1)).scalars():
        return [Named(kind=NamedKind.OPERATION, key=canonical(str(operation)))]
    for table in (failed_message_retries, ended_retries):
        of_retry = (
            select(messages.unique_message_id)
            .join_from(failed_messages, table, table.c.number == messages.number)
            .where(table.c.retry_id == key)
        )
        for message in tx.execute(of_retry.limit(1)).scalars():
            return [Named(kind=NamedKind.MESSAGE, key=str(message))]
    return ()


MOST_COUNTED = 10_000
"""Messages of one way that are counted: of a million a person looks at none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedWay:
    """A way, and how many messages it finds; with `more` there are more than were counted."""

    way: Way
    count: int
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a text names, and the ways in which it finds any message."""

    named: Sequence[Named]
    ways: Sequence[CountedWay]


def search(db: Database, text: str, ways: Iterable[Way], most: int = MOST_COUNTED) -> Found:
    """Look a text up in each of these ways, and count no more; beginnings only if nothing is found.

    Raises DatabaseUnavailable.
    """
    wanted = clean(text.strip())
    named = find_named(db, wanted) if wanted else ()
    counted: list[CountedWay] = []
    for way in ways:
        if way.by is By.BEGINNINGS and (named or counted):
            continue
        if count := count_some(db, way.selection, most):
            counted.append(CountedWay(way=way, count=min(count, most), more=count > most))
    return Found(named=named, ways=counted)


@reading
def count_some(tx: Transaction, wanted: Selection, most: int) -> int:
    """Count the messages that match, so many and one more at most."""
    found = select(messages.number).where(*conditions_looked_up(tx, wanted))
    some = found.limit(most + 1).subquery()
    return int(tx.execute(select(func.count()).select_from(some)).scalar_one())

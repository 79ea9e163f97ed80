"""What a text names exactly: by a whole id, by the beginning of one, or by its sender's message id.

Each question is answered by an index, and none reads more than two rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Column, select

from retrier.domain.identity import canonical
from retrier.domain.text import ids_beginning
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import (
    archive_operations,
    failed_imports,
    failed_messages,
    failure_groups,
    retry_operations,
)

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
    by_sender = select(messages.unique_message_id).where(messages.message_id == text).limit(_MOST)
    return [Named(kind=NamedKind.MESSAGE, key=str(key)) for key in tx.execute(by_sender).scalars()]

"""What a bulk act is about: conditions on messages, and the ids that meet them, in chunks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from sqlalchemy import ColumnElement, Connection, exists, select

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.selection import Selection
from retrier.store import selections
from retrier.store.database import Database
from retrier.store.schema import failed_message_retries, failed_messages

messages = failed_messages.c
claims = failed_message_retries.c

CHUNK = 1000
"""Messages that one transaction changes at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """Messages in one status; `modified` is a range of their last change, both ends included.

    `up_to` is a failure number: what became unresolved after the request is not part of it.
    In *retry issued* only pending retries are meant: those recorded as forwarded.
    """

    status: FailedMessageStatus
    group: str | None = None
    queue: str | None = None
    modified: tuple[datetime, datetime] | None = None
    up_to: int | None = None


def last_number(db: Database) -> int:
    """Return the failure number up to which a bulk act goes. Raises DatabaseUnavailable."""
    return db.read(db.sql.last_failure_seq)


def find_chunk(db: Database, sought: Sought, after: str) -> Sequence[str]:
    """Return the next ids behind `after`, in their order, at most CHUNK of them.

    By id, so that all chunks together read the table once. Raises DatabaseUnavailable.
    """
    return db.read(partial(_find, sought, after))


def conditions(sought: Sought) -> list[ColumnElement[bool]]:
    """Return the conditions, to be joined by *and*."""
    found = [messages.status == sought.status]
    found += selections.where(Selection(group=sought.group, queue=sought.queue))
    if sought.up_to is not None:
        found.append(messages.failure_seq <= sought.up_to)
    if sought.modified is not None:
        found.append(messages.last_modified.between(*sought.modified))
    if sought.status is FailedMessageStatus.RETRY_ISSUED:
        found.append(_is_pending())
    return found


def _is_pending() -> ColumnElement[bool]:
    return exists().where(
        claims.unique_message_id == messages.unique_message_id, claims.forwarded_at.is_not(None)
    )


def _find(sought: Sought, after: str, conn: Connection) -> Sequence[str]:
    query = (
        select(messages.unique_message_id)
        .where(messages.unique_message_id > after, *conditions(sought))
        .order_by(messages.unique_message_id)
        .limit(CHUNK)
    )
    return conn.execute(query).scalars().all()

"""What became of failed imports that are none any more, as the event log says it."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select

from retrier.domain.identity import canonical
from retrier.domain.text import ids_beginning
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import event_log

events = event_log.c

LOOKED_AT = 100_000
"""So many of the newest events are looked at: no index knows the ids of failed imports."""

_ENDS = ("import_sent", "import_deleted", "import_read_again")


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerImport:
    """The event by which a failed import became something else, or nothing."""

    text: str
    at: datetime
    who: str
    unique_message_id: str | None


@reading
def find_former_import(tx: Transaction, text: str) -> FormerImport | None:
    """Return what became of the import whose id begins with the text, the last one if several.

    None if the newest events do not say it. Raises DatabaseUnavailable.
    """
    if ids_beginning(text) is None:
        return None
    newest = select(func.max(events.event_id)).scalar_subquery()
    query = (
        select(events.text, events.at, events.who, events.unique_message_id)
        .where(events.event_id > newest - LOOKED_AT, events.kind.in_(_ENDS))
        .where(events.text.startswith(f"The failed import {canonical(text)}", autoescape=True))
        .order_by(events.event_id.desc())
        .limit(1)
    )
    row = tx.execute(query).mappings().one_or_none()
    return None if row is None else FormerImport(**row)

"""What a bulk act is about, found in chunks."""

from dataclasses import dataclass

from sqlalchemy import select

from retrier.domain.selection import Sought
from retrier.store.engine.sql_dialect import Counter
from retrier.store.engine.transaction import Transaction
from retrier.store.engine.verb import reading
from retrier.store.queries.selections import conditions
from retrier.store.schema import failed_messages

messages = failed_messages.c

CHUNK = 1000
"""Messages that one transaction changes at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Unique message ids, and the number of the last one: the next chunk lies behind it."""

    unique_ids: tuple[str, ...]
    last: int


@reading
def last_number(tx: Transaction) -> int:
    """Return the failure number up to which a bulk act goes. Raises DatabaseUnavailable."""
    return tx.sql.last_number(tx.conn, Counter.FAILURE_SEQ)


@reading
def find_chunk(tx: Transaction, sought: Sought, after: int) -> Chunk | None:
    """Return the next messages behind the number `after`, at most CHUNK; None at the end.

    By number, so that all chunks together read the table once. Raises DatabaseUnavailable.
    """
    query = (
        select(messages.number, messages.unique_message_id)
        .where(messages.number > after, *conditions(sought))
        .order_by(messages.number)
        .limit(CHUNK)
    )
    rows = tx.execute(query).all()
    if not rows:
        return None
    return Chunk(unique_ids=tuple(row.unique_message_id for row in rows), last=rows[-1].number)

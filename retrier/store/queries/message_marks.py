"""What changes when a message changes, as one small text: open pages of it see that they are old."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256

from sqlalchemy import select

from retrier.domain.identity import canonical, is_guid
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import failed_message_retries, failed_messages

_DIGITS = 16

messages = failed_messages.c
claims = failed_message_retries.c


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageMark:
    """How often a message failed, and a text that is another one after each change of its state."""

    failures: int
    state: str


@reading
def find_marks(tx: Transaction, ids: Collection[str]) -> Mapping[str, MessageMark]:
    """Return the marks of those messages that there are, by id. Raises DatabaseUnavailable."""
    known = sorted(canonical(each) for each in ids if is_guid(each))
    if not known:
        return {}
    query = (
        select(
            messages.unique_message_id,
            messages.attempts,
            messages.status,
            messages.disposition,
            messages.retry_at,
            messages.last_modified,
            claims.retry_id,
            claims.sending_since,
            claims.forwarded_at,
        )
        .outerjoin_from(failed_messages, failed_message_retries, claims.number == messages.number)
        .where(tx.sql.member(messages.unique_message_id, known))
    )
    return {row[0]: _mark(tuple(row)) for row in tx.execute(query)}


def _mark(row: tuple[object, ...]) -> MessageMark:
    digest = sha256("\0".join(map(str, row)).encode()).hexdigest()
    return MessageMark(failures=int(str(row[1])), state=digest[:_DIGITS])

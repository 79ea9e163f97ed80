"""Texts of messages: given to those that a version before had stored, deleted when nobody has them."""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import select

from retrier.domain.failed_message import FailureDetails
from retrier.domain.shown import searched_text
from retrier.domain.wire import PropertyCodec
from retrier.store.engine.database import Database, bind
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.messages import SOURCES, texts_of
from retrier.store.schema import causes, failed_messages, processing_attempts
from retrier.store.tables import failed_messages as message_rows
from retrier.store.tables import message_texts

messages = failed_messages.c
attempts = processing_attempts.c

_AT_ONCE = 1000
_PAUSE = 0.02
"""Seconds between two looks for texts: nobody waits for this."""
_OF_CAUSE = (
    causes.c.destination,
    causes.c.endpoint,
    causes.c.message_type,
    causes.c.exception_type,
    causes.c.failure_reason,
)
_WITHOUT_TEXT = (
    select(messages.number, messages.attempt_id, messages.reason, *_OF_CAUSE, *SOURCES)
    .join_from(failed_messages, causes, causes.c.cause_id == messages.cause_id)
    .outerjoin(processing_attempts, attempts.attempt_id == messages.attempt_id)
    .where(messages.text_id.is_(None))
    .order_by(messages.number)
    .limit(_AT_ONCE)
)


def complete_texts(db: Database, codec: PropertyCodec) -> int:
    """Give each message without a text its own; return how many. Raises DatabaseUnavailable.

    Revision 1026 cannot do it: it does not know how the broker's bytes are read. A thousand in one
    transaction; after a kill the next start goes on. Several processes may do it at once.
    """
    completed = 0
    while given := db.transact(bind(_complete_some, codec)):
        completed += given
    return completed


def _complete_some(tx: Transaction, codec: PropertyCodec) -> int:
    found = tx.execute(_WITHOUT_TEXT).mappings().all()
    shown = [searched_text(_details(dict(row), codec), row["reason"]) for row in found]
    ids = message_texts.identify(tx, shown)
    message_rows.give_texts(
        tx,
        [
            {"key": row["number"], "shown": row["attempt_id"], "text": ids[text]}
            for row, text in zip(found, shown, strict=True)
        ],
    )
    return len(found)


def _details(row: Mapping[str, Any], codec: PropertyCodec) -> FailureDetails:
    # Without its attempt, which somebody deleted by hand, it shows what its cause says.
    is_there = row["raw_properties"] is not None
    return FailureDetails(
        queue=row["queue"],
        **{column.name: row[column.name] for column in _OF_CAUSE},
        exception_message=texts_of(row, codec).exception_message if is_there else None,
    )


def sweep_texts(db: Database, stopped: Callable[[float], bool]) -> int:
    """Delete the texts that no message has; return how many. Raises DatabaseUnavailable.

    Looked for in chunks, and without a lock. `stopped` waits so many seconds, and says whether to
    stop.
    """
    deleted, last = 0, 0
    while True:
        unused, after = db.read(bind(message_texts.find_unused, last))
        if unused:
            deleted += db.transact(bind(message_texts.remove_unused, unused))
        if after is None or stopped(_PAUSE):
            return deleted
        last = after

"""The body of a failed message, byte for byte."""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import func, select

from retrier.domain.identity import canonical, is_guid
from retrier.domain.shown import derive
from retrier.domain.wire import PropertyCodec
from retrier.store.engine.sql_dialect import IN_BINARY
from retrier.store.engine.transaction import Transaction
from retrier.store.engine.verb import reading
from retrier.store.queries.selections import Condition
from retrier.store.schema import causes, failed_messages, processing_attempts

messages = failed_messages.c
attempts = processing_attempts.c
holders = processing_attempts.alias("holders")

_NEWEST = (
    select(
        func.coalesce(attempts.body, holders.c.body).label("body"),
        attempts.body_hash,
        attempts.raw_properties,
        attempts.dialect,
        causes.c.queue,
    )
    .join_from(failed_messages, causes, causes.c.cause_id == messages.cause_id)
    .join(processing_attempts, attempts.attempt_id == messages.attempt_id)
    .outerjoin(holders, holders.c.attempt_id == attempts.same_body_as)
    .order_by(messages.failure_seq.desc())
    .limit(1)
    .execution_options(**{IN_BINARY: True})
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageBody:
    """A body, the hash of its bytes, and the content type its sender gave."""

    body: bytes
    body_hash: str
    content_type: str | None


@reading
def find_body(tx: Transaction, key: str, codec: PropertyCodec) -> MessageBody | None:
    """Return the body of the message with that unique id, else the newest with that message id.

    None when there is no such message. Raises DatabaseUnavailable.
    """
    for condition in _meanings(key):
        row = tx.execute(_NEWEST.where(condition)).one_or_none()
        if row is not None:
            shown = derive(codec, row.raw_properties, dialect=row.dialect, otherwise=row.queue)
            return MessageBody(
                body=row.body, body_hash=row.body_hash, content_type=shown.content_type
            )
    return None


def _meanings(key: str) -> Iterator[Condition]:
    if is_guid(key):
        yield messages.unique_message_id == canonical(key)
    yield messages.message_id == key

"""The body of a failed message, byte for byte."""

from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection, select

from retrier.store.database import Database
from retrier.store.schema import failed_messages, message_bodies


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageBody:
    """A body, the hash of its bytes, and the content type its sender gave."""

    body: bytes
    body_hash: str
    content_type: str | None


def find_body(db: Database, key: str) -> MessageBody | None:
    """Return the body of the message with that unique id, else the newest with that message id.

    None when there is no such message. Raises DatabaseUnavailable.
    """
    return db.read(partial(_find, key))


def _find(key: str, conn: Connection) -> MessageBody | None:
    messages = failed_messages.c
    bodies = (
        select(message_bodies.c.body, messages.body_hash, messages.content_type)
        .join_from(failed_messages, message_bodies)
        .order_by(messages.failure_seq.desc())
        .limit(1)
    )
    for column in (messages.unique_message_id, messages.message_id):
        row = conn.execute(bodies.where(column == key)).mappings().one_or_none()
        if row is not None:
            return MessageBody(**row)
    return None

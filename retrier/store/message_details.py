"""One failed message with everything known of it, and the mark by which it is seen to change."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from sqlalchemy import LargeBinary, Select, bindparam, func, select

from retrier.domain.edits import ShownEdit
from retrier.domain.failed_message import FailureGroup
from retrier.domain.failure_texts import derive
from retrier.domain.identity import canonical, is_guid
from retrier.domain.streams import show_position
from retrier.domain.values import dataclass
from retrier.domain.wire import PropertyCodec, packed_as
from retrier.store import edits
from retrier.store.attempts import ShownAttempt, find_steps, newest_attempts
from retrier.store.engine.database import reading
from retrier.store.engine.sql_dialect import IN_BINARY
from retrier.store.engine.transaction import Transaction
from retrier.store.message_lists import (
    ListedMessage,
    ShownClaim,
    from_row,
    listed_with,
    shown_claims,
    shown_messages,
    texts_of,
)
from retrier.store.pending import find_sent_to
from retrier.store.schema import (
    cause_groups,
    causes,
    failed_message_retries,
    failed_messages,
    failure_groups,
    message_edits,
    processing_attempts,
)
from retrier.store.selections import Condition

messages = failed_messages.c
edited = message_edits.c
attempts = processing_attempts.c
claims = failed_message_retries.c


MOST_DERIVED = 100
"""So many messages that carry the stamps of one are named in its story."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDetails:
    """A failed message with headers, attempts (oldest first), groups and claim.

    `sent_to` is the queue to which the retry went that has the claim; None if it was not sent yet.
    `derived_from` is the message whose stamps it carries although it is another; `derived` are
    those that carry its own stamps, the newest MOST_DERIVED of them.
    """

    message: ListedMessage
    error_queue: str
    dialect: str
    content_type: str | None
    body_size: int
    headers: Mapping[str, object]
    properties: Mapping[str, object]
    completed_steps: str | None
    stream_id: str | None
    stream_position: str | None
    stream_position_unread: str | None
    resolved_at: datetime | None
    last_retry_id: str | None
    maybe_copy_of: str | None
    derived_from: str | None
    derived: tuple[str, ...]
    edits: Sequence[ShownEdit]
    edited_versions: tuple[str, ...]
    attempts: tuple[ShownAttempt, ...]
    groups: tuple[FailureGroup, ...]
    claim: ShownClaim | None
    sent_to: str | None


_PLAIN = (
    attempts.error_queue,
    messages.body_size,
    messages.stream_id,
    messages.stream_position_unread,
    messages.resolved_at,
    messages.last_retry_id,
    messages.maybe_copy_of,
    messages.derived_from,
)
"""Columns that are shown as they are."""


@reading
def find_message(
    tx: Transaction, unique_message_id: str, codec: PropertyCodec
) -> MessageDetails | None:
    """Return the message with that id, or None. Raises DatabaseUnavailable."""
    own = (messages.stream_position, messages.attempt_id, messages.cause_id, messages.edited)
    more = (*_PLAIN, *own)
    row = _find(tx, unique_message_id, shown_messages(*more))
    if row is None:
        return None
    texts = texts_of(row, codec)
    return MessageDetails(
        **{column.name: row[column.name] for column in _PLAIN},
        stream_position=show_position(row["stream_position"]),
        completed_steps=find_steps(tx, [row["number"]]).get(row["number"]),
        derived=_derived(tx, row["unique_message_id"]),
        edits=edits.list_edits(tx, row["number"], codec) if row["edited"] else (),
        edited_versions=edits.find_versions_of(tx, row["unique_message_id"])
        if row["edited"]
        else (),
        dialect=row["dialect"],
        message=listed_with(row, texts),
        content_type=texts.content_type,
        headers=texts.headers,
        properties=texts.properties,
        attempts=newest_attempts(tx, row, codec),
        groups=_groups(tx, row["cause_id"]),
        claim=_claim(tx, row["number"]),
        sent_to=find_sent_to(tx, row["number"]),
    )


@reading
def find_listed(
    tx: Transaction, unique_message_id: str, codec: PropertyCodec
) -> ListedMessage | None:
    """Return the message as lists show it, or None. Raises DatabaseUnavailable."""
    row = _find(tx, unique_message_id, shown_messages())
    return from_row(row, codec) if row else None


def _find(tx: Transaction, unique_message_id: str, query: Select[Any]) -> Mapping[str, Any] | None:
    if not is_guid(unique_message_id):
        return None
    wanted = query.where(messages.unique_message_id == canonical(unique_message_id))
    row = tx.execute(wanted).mappings().one_or_none()
    return dict(row) if row is not None else None


def _derived(tx: Transaction, unique_message_id: str) -> tuple[str, ...]:
    query = (
        select(messages.unique_message_id)
        .where(messages.derived_from == unique_message_id)
        .order_by(messages.number.desc())
        .limit(MOST_DERIVED)
    )
    return tuple(tx.execute(query).scalars())


def _groups(tx: Transaction, cause_id: int) -> tuple[FailureGroup, ...]:
    query = (
        select(failure_groups)
        .join(cause_groups, cause_groups.c.group_id == failure_groups.c.group_id)
        .where(cause_groups.c.cause_id == cause_id)
        .order_by(failure_groups.c.classifier)
    )
    return tuple(FailureGroup(**row) for row in tx.execute(query).mappings())


def _claim(tx: Transaction, number: int) -> ShownClaim | None:
    query = shown_claims().where(failed_message_retries.c.number == number)
    row = tx.execute(query).mappings().one_or_none()
    return ShownClaim(**row) if row is not None else None


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
    """A body, the hash of its bytes, and the content type and encoding that its sender gave."""

    body: bytes
    body_hash: str
    content_type: str | None
    packed: str


@reading
def find_body(tx: Transaction, key: str, codec: PropertyCodec) -> MessageBody | None:
    """Return the body of the message with that unique id, else of the newest with that message id.

    None when there is no such message. Raises DatabaseUnavailable.
    """
    for condition in _meanings(key):
        row = tx.execute(_NEWEST.where(condition)).one_or_none()
        if row is not None:
            shown = derive(codec, row.raw_properties, dialect=row.dialect, otherwise=row.queue)
            return MessageBody(
                body=row.body,
                body_hash=row.body_hash,
                content_type=shown.content_type,
                packed=packed_as(shown.properties, shown.headers),
            )
    return None


@reading
def find_edited_body(
    tx: Transaction, unique_message_id: str, edit_id: str, codec: PropertyCodec
) -> MessageBody | None:
    """Return the body that an edit of a message sends instead of its own, packed as it goes out.

    None when there is no such edit of it. Raises DatabaseUnavailable.
    """
    if not (is_guid(unique_message_id) and is_guid(edit_id)):
        return None
    known = {"key": canonical(unique_message_id), "edit": canonical(edit_id)}
    found = tx.execute(_EDITED, known).one_or_none()
    if found is None:
        return None
    shown = derive(codec, found.raw_properties, dialect=found.dialect, otherwise=found.queue)
    return MessageBody(
        body=found.body,
        body_hash=found.body_hash,
        content_type=shown.content_type,
        packed=packed_as(shown.properties, shown.headers),
    )


_EDITED = (
    select(edited.body, edited.body_hash, edited.raw_properties, attempts.dialect, causes.c.queue)
    .join_from(message_edits, failed_messages, messages.number == edited.number)
    .join(causes, causes.c.cause_id == messages.cause_id)
    .outerjoin(processing_attempts, attempts.attempt_id == edited.attempt_id)
    .where(edited.edit_id == bindparam("edit"), messages.unique_message_id == bindparam("key"))
    .execution_options(**{IN_BINARY: True})
)


def _meanings(key: str) -> Iterator[Condition]:
    if is_guid(key):
        yield messages.unique_message_id == canonical(key)
    yield messages.message_id == key


@reading
def find_beginning(tx: Transaction, unique_message_id: str, most: int) -> bytes:
    """Return the first bytes of the body of a message; none if there is no such message.

    The rest of a large body is not read. Raises DatabaseUnavailable.
    """
    if not is_guid(unique_message_id):
        return b""
    key = canonical(unique_message_id)
    return _read_beginnings(tx, [key], most).get(key, b"")


@reading
def find_beginnings(
    tx: Transaction, unique_message_ids: Sequence[str], most: int
) -> Mapping[str, bytes]:
    """Return the same of messages that lists show, by their ids. Raises DatabaseUnavailable."""
    return _read_beginnings(tx, unique_message_ids, most)


def _read_beginnings(tx: Transaction, keys: Sequence[str], most: int) -> Mapping[str, bytes]:
    whole = func.coalesce(attempts.body, holders.c.body)
    query = (
        select(messages.unique_message_id, func.substr(whole, 1, most, type_=LargeBinary))
        .join_from(failed_messages, processing_attempts, attempts.attempt_id == messages.attempt_id)
        .outerjoin(holders, holders.c.attempt_id == attempts.same_body_as)
        .where(tx.sql.member(messages.unique_message_id, keys))
        .execution_options(**{IN_BINARY: True})
    )
    return {key: bytes(body or b"") for key, body in tx.execute(query)}


_DIGITS = 16


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

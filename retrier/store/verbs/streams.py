"""Streams: a person lets go of messages that earlier ones of their stream hold."""

from collections.abc import Iterator, Sequence

from sqlalchemy import ColumnElement, select

from retrier.domain.identity import canonical, is_guid
from retrier.domain.streams import NotInStream, Released, Stream, UnknownStream
from retrier.store.engine.database import writing
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.queries.stream_order import IN_ORDER, IS_HELD, of_stream
from retrier.store.schema import failed_messages
from retrier.store.tables import event_log, retry_operations
from retrier.store.tables import failed_messages as rows_of_messages
from retrier.store.tables.event_log import Entry

messages = failed_messages.c

TOLD_ONE_BY_ONE = 1000
"""Released messages that have an event of their own, at most: more would hide everything else."""


@writing
def release_stream(
    tx: Transaction,
    stream: Stream,
    ids: Sequence[str] | None,
    who: str,
    counted: Sequence[int] | None = None,
) -> Released | UnknownStream | NotInStream:
    """Let go of what is held now in a stream: all of it, or the messages with these ids.

    With `counted`, failure numbers of a plan, only what has one of these.

    They may be retried before the earlier ones, until they fail again. What comes into the stream
    later is held as before. Raises DatabaseUnavailable.
    """
    if tx.execute(select(messages.number).where(*of_stream(stream)).limit(1)).first() is None:
        return UnknownStream()
    wanted = None if ids is None else list(dict.fromkeys(map(_as_stored, ids)))
    strangers = [] if wanted is None else _find_strangers(tx, stream, wanted)
    if strangers:
        return NotInStream(ids=tuple(strangers))
    held = _lock_held(tx, stream, wanted, counted)
    if held:
        rows_of_messages.release_from_stream(tx, [row.number for row in held])
        # Behind the locks on messages, as ingestion does, which counts at operations.
        retry_operations.look_again(tx)
        event_log.append(tx, list(_tell(stream, [row.unique_message_id for row in held], who)))
        tx.sql.announce_request(tx.conn)
    released = tuple(row.unique_message_id for row in held)
    rest = tuple(each for each in wanted or () if each not in set(released))
    return Released(ids=released, not_held=rest)


def _find_strangers(tx: Transaction, stream: Stream, ids: Sequence[str]) -> list[str]:
    """Return those of these ids that no message of the stream has, in whichever status."""
    known = select(messages.unique_message_id).where(
        tx.sql.member(messages.unique_message_id, [each for each in ids if is_guid(each)]),
        messages.stream_queue == stream.queue,
        messages.stream_id == stream.stream_id,
    )
    found = set(tx.execute(known).scalars())
    return [each for each in ids if each not in found]


def _lock_held(
    tx: Transaction, stream: Stream, ids: Sequence[str] | None, counted: Sequence[int] | None
) -> Sequence[StoredRow]:
    named: list[ColumnElement[bool]] = (
        [] if ids is None else [tx.sql.member(messages.unique_message_id, ids)]
    )
    if counted is not None:
        named.append(tx.sql.member(messages.failure_seq, counted))
    query = (
        select(messages.number, messages.unique_message_id)
        .where(*of_stream(stream), IS_HELD, *named)
        .order_by(*IN_ORDER)
        .with_for_update()
    )
    return tx.execute(query).all()


def _tell(stream: Stream, ids: Sequence[str], who: str) -> Iterator[Entry]:
    place = f"stream {stream.stream_id} of {stream.queue}"
    yield Entry(
        kind="stream_released",
        text=f"{place}: {len(ids)} messages released: they no longer wait for earlier ones",
        who=who,
        details={"queue": stream.queue, "stream_id": stream.stream_id, "count": len(ids)},
    )
    for key in ids[:TOLD_ONE_BY_ONE]:
        yield Entry(
            kind="message_released",
            text=f"{key}: released: it no longer waits for earlier messages of {place}",
            who=who,
            unique_message_id=key,
        )


def _as_stored(unique_id: str) -> str:
    return canonical(unique_id) if is_guid(unique_id) else unique_id

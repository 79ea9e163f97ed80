"""Messages that a request names by their ids: found, and judged one by one."""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import select

from retrier.domain.identity import canonical, is_guid
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.queries.cuts import UNKNOWN_ID, why_not
from retrier.store.queries.stream_order import is_any_strict, tell_those_held
from retrier.store.schema import failed_message_retries, failed_messages

messages = failed_messages.c
claims = failed_message_retries.c


def look_up(tx: Transaction, ids: Iterable[str]) -> Mapping[str, StoredRow]:
    """Return the messages with these ids, each with its claim if it has one, by the id given."""
    wanted = {unique_id: canonical(unique_id) for unique_id in ids if is_guid(unique_id)}
    if not wanted:
        return {}
    query = (
        select(
            messages.unique_message_id,
            messages.number,
            messages.status,
            messages.failure_seq,
            claims.retry_id,
        )
        .outerjoin_from(failed_messages, failed_message_retries, claims.number == messages.number)
        .where(tx.sql.member(messages.unique_message_id, sorted({*wanted.values()})))
    )
    found = {row.unique_message_id: row for row in tx.execute(query)}
    return {unique_id: found[key] for unique_id, key in wanted.items() if key in found}


def judge(
    tx: Transaction, ids: Sequence[str], found: Mapping[str, StoredRow], cut_off: int
) -> Mapping[str, str]:
    """Return why some of these ids cannot be retried as things are, as their cut would judge."""
    held = tell_those_held(tx, _numbers(found)) if is_any_strict(tx) else {}
    reasons = {
        key: why_not(found[key], cut_off) or held.get(found[key].number)
        if key in found
        else UNKNOWN_ID
        for key in ids
    }
    return {key: why for key, why in reasons.items() if why is not None}


def _numbers(found: Mapping[str, StoredRow]) -> Sequence[int]:
    return sorted({row.number for row in found.values()})

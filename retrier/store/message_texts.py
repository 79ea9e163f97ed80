"""Texts that are searched (`message_texts`): each stored once, however many messages have it."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlalchemy import delete, exists, select

from retrier.domain.failure_texts import digest_of, with_reason
from retrier.store.engine.database import Database, bind
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import failed_messages, message_texts, processing_attempts

message_columns = failed_messages.c
texts = message_texts.c
attempts = processing_attempts.c


AT_ONCE = 1000
"""How many texts, or messages without one, a transaction looks at, at most."""


def identify_texts(tx: Transaction, wanted: Iterable[str]) -> Mapping[str, int]:
    """Return the ids of these folded texts; adds those that are new.

    Those that are there are locked until this transaction ends: whoever deletes what no message
    has cannot see the message that is about to get one.
    """
    by_digest = {digest_of(each): each for each in wanted}
    if not by_digest:
        return {}
    known = _find(tx, list(by_digest))
    # In order of digest: two processes that add the same must not deadlock.
    if new := sorted(by_digest.keys() - known.keys()):
        columns = {"digest": new, "folded": [by_digest[key] for key in new]}
        shown = (texts.digest, texts.text_id)
        known |= tx.sql.add_numbered(tx.conn, message_texts, columns, shown)
        if others := sorted(by_digest.keys() - known.keys()):
            known |= _find(tx, others)  # another process has added these meanwhile
    return {by_digest[key]: text_id for key, text_id in known.items()}


def _find(tx: Transaction, digests: Sequence[str]) -> dict[str, int]:
    query = select(texts.digest, texts.text_id).where(tx.sql.member(texts.digest, digests))
    locked = query.with_for_update(read=True, key_share=True)
    return {row[0]: row[1] for row in tx.execute(locked)}


def classify_anew(tx: Transaction, reasons: Mapping[int, str | None]) -> Mapping[int, int]:
    """Return the text ids, by number, of messages that are classified under these reasons now.

    The caller has locked the messages. One whose text somebody has deleted by hand is left out.
    """
    query = (
        select(message_columns.number, texts.folded)
        .join_from(failed_messages, message_texts, texts.text_id == message_columns.text_id)
        .where(tx.sql.member(message_columns.number, sorted(reasons)))
    )
    wanted = {row[0]: with_reason(row[1], reasons[row[0]]) for row in tx.execute(query)}
    ids = identify_texts(tx, wanted.values())
    return {number: ids[folded] for number, folded in wanted.items()}


def find_unused(tx: Transaction, after: int) -> tuple[Sequence[int], int | None]:
    """Return those of the next AT_ONCE texts that no message has, and the last; None at the end."""
    look = select(texts.text_id).where(texts.text_id > after).order_by(texts.text_id)
    ids = tx.execute(look.limit(AT_ONCE)).scalars().all()
    if not ids:
        return [], None
    unused = select(texts.text_id).where(tx.sql.member(texts.text_id, ids), ~_IS_USED)
    return tx.execute(unused).scalars().all(), int(ids[-1])


def remove_unused(tx: Transaction, ids: Sequence[int]) -> int:
    """Delete those of these texts that no message has; return how many.

    What somebody else has locked is left out: a message is getting it. The look for messages is a
    statement of its own, after the lock, so that it sees what was committed before that.
    """
    these = select(texts.text_id).where(tx.sql.member(texts.text_id, ids))
    locked = tx.execute(these.with_for_update(skip_locked=True)).scalars().all()
    if not locked:
        return 0
    free = tx.sql.member(texts.text_id, locked) & ~_IS_USED
    return tx.execute(delete(message_texts).where(free)).rowcount


_IS_USED = exists().where(message_columns.text_id == texts.text_id)


_PAUSE = 0.02
"""Seconds between two looks for texts: nobody waits for this."""


def sweep_texts(db: Database, stopped: Callable[[float], bool]) -> int:
    """Delete the texts that no message has; return how many. Raises DatabaseUnavailable.

    Looked for in chunks, and without a lock. `stopped` waits so many seconds, and says whether to
    stop.
    """
    deleted, last = 0, 0
    while True:
        unused, after = db.read(bind(find_unused, last))
        if unused:
            deleted += db.transact(bind(remove_unused, unused))
        if after is None or stopped(_PAUSE):
            return deleted
        last = after

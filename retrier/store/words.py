"""Words of messages (`message_words`): read after their failures are stored, and looked for.

They are read by a job, in chunks: what is stored newly first, then what was stored before words were
wanted, the newest first. How far it is stands in `word_progress`, and is written with each chunk.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import accumulate, takewhile

from sqlalchemy import ColumnElement, Select, and_, delete, func, insert, select, update

from retrier.domain.values import dataclass
from retrier.domain.wire import PropertyCodec
from retrier.domain.words import FailureBytes, read_wanted, read_words
from retrier.store.engine.database import Database, reading, writing
from retrier.store.engine.sql_dialect import NumberSource, has_words, wants
from retrier.store.engine.transaction import Transaction
from retrier.store.fields import shown_failures
from retrier.store.schema import (
    attempt_number,
    failed_messages,
    message_words,
    processing_attempts,
    word_progress,
)

words = message_words.c
progress = word_progress.c
messages = failed_messages.c
attempts = processing_attempts.c


def delete_of(tx: Transaction, numbers: Sequence[int]) -> None:
    """Delete the words of these messages."""
    tx.execute(delete(message_words).where(tx.sql.member(words.number, numbers)))


def holders_of_words(text: str, counted_to: int | None = None) -> Select[tuple[int]]:
    """Return the query for the numbers of the messages that have all these words.

    With `counted_to` only words that were written by then: a plan has counted no others.
    """
    found = select(words.number).where(
        has_words(words.number, words.words, wants(read_wanted(text)))
    )
    return found if counted_to is None else found.where(words.seq <= counted_to)


def have_words(text: str, counted_to: int | None = None) -> ColumnElement[bool]:
    """Return the condition that messages have all these words."""
    return messages.number.in_(holders_of_words(text, counted_to))


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The last number of an attempt that was taken, and the transactions that may still use one."""

    last: int
    writers: frozenset[str]


@reading
def look_at_numbers(tx: Transaction) -> Taken:
    """Return up to where attempts may be stored. Raises DatabaseUnavailable."""
    # In this order: who has taken a lower number is among the writers now, or has ended.
    last = tx.sql.last_number(tx.conn, NumberSource.ATTEMPT)
    return Taken(last=last, writers=tx.sql.find_writers(tx.conn, attempt_number))


MOST_AT_ONCE = 200
"""Messages of one chunk, at most."""

MOST_BYTES = 4 * 1024 * 1024
"""Bytes of bodies and properties of a chunk; one message may have more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far words are read: attempts up to `newest`, and messages from the number `backlog` on."""

    newest: int
    backlog: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadChunk:
    """Where the words are read next; `shown` are the messages, with the attempts that they show."""

    before: Progress
    after: Progress
    shown: Mapping[int, int]

    @property
    def is_any(self) -> bool:
        """Whether anything is left to be read."""
        return self.before != self.after


def fill_words(db: Database, up_to: int, codec: PropertyCodec, body_bytes: int) -> int | None:
    """Read the words of the next messages; return of how many, None where nothing is left.

    All attempts up to the number `up_to` are stored, or never will be. Read without a lock, and
    written where a message still shows the failure that was read: a later one comes later.
    A kill before the commit leaves all as it was, and nothing is written twice. Raises DatabaseUnavailable.
    """
    chunk = find_unread(db, up_to)
    if chunk is None:
        begin_words(db, up_to)
        return 0
    if not chunk.is_any:
        return None
    found = {
        row.number: read_words(
            codec,
            FailureBytes(
                queue=row.queue,
                dialect=row.dialect,
                raw=bytes(row.raw_properties),
                body=bytes(row.body or b""),
                size=len(row.body or b""),
            ),
            body_bytes,
        )
        for row in find_failures(db, sorted(chunk.shown))
        if row.raw_properties is not None
    }
    return write_words(db, chunk, found)


find_failures = reading(shown_failures)


@writing
def begin_words(tx: Transaction, up_to: int) -> None:
    """Note that words are wanted: what is stored by now is read behind what comes.

    Raises DatabaseUnavailable.
    """
    backlog = tx.sql.last_number(tx.conn, NumberSource.MESSAGE) + 1
    row = tx.sql.insert(word_progress).values(id=1, newest=up_to, backlog=backlog)
    tx.execute(row.on_conflict_do_nothing())


@reading
def find_unread(tx: Transaction, up_to: int) -> UnreadChunk | None:
    """Return what is read next; None if nobody has wanted words before."""
    row = tx.execute(select(progress.newest, progress.backlog)).one_or_none()
    if row is None:
        return None
    before = Progress(newest=row.newest, backlog=row.backlog)
    if before.newest < up_to:
        return _find_new(tx, before, up_to)
    return _find_older(tx, before)


_SIZE = func.coalesce(messages.body_size + messages.properties_size, 0).label("size")


def _find_new(tx: Transaction, before: Progress, up_to: int) -> UnreadChunk:
    """Return attempts in the order of their numbers; what no message shows any more is passed."""
    shown = and_(messages.number == attempts.number, messages.attempt_id == attempts.attempt_id)
    query = (
        select(attempts.attempt_id, messages.number, _SIZE)
        .join_from(processing_attempts, failed_messages, shown, isouter=True)
        .where(attempts.attempt_id > before.newest, attempts.attempt_id <= up_to)
        .order_by(attempts.attempt_id)
        .limit(MOST_AT_ONCE)
    )
    rows = tx.execute(query).all()
    fitting = _count_fitting([row.size for row in rows])
    is_end = fitting == len(rows) < MOST_AT_ONCE
    newest = up_to if is_end else rows[fitting - 1].attempt_id
    return UnreadChunk(
        before=before,
        after=Progress(newest=newest, backlog=before.backlog),
        shown={row.number: row.attempt_id for row in rows[:fitting] if row.number is not None},
    )


def _find_older(tx: Transaction, before: Progress) -> UnreadChunk:
    query = (
        select(messages.number, messages.attempt_id, _SIZE)
        .where(messages.number < before.backlog)
        .order_by(messages.number.desc())
        .limit(MOST_AT_ONCE)
    )
    rows = tx.execute(query).all() if before.backlog else []
    fitting = _count_fitting([row.size for row in rows])
    is_end = fitting == len(rows) < MOST_AT_ONCE
    return UnreadChunk(
        before=before,
        after=Progress(newest=before.newest, backlog=0 if is_end else rows[fitting - 1].number),
        shown={row.number: row.attempt_id for row in rows[:fitting]},
    )


def _count_fitting(sizes: Sequence[int]) -> int:
    totals = accumulate(sizes)
    fitting = sum(1 for _ in takewhile(lambda total: total <= MOST_BYTES, totals))
    return max(fitting, 1) if sizes else 0


@writing
def write_words(tx: Transaction, chunk: UnreadChunk, found: Mapping[int, Sequence[str]]) -> int:
    """Write the words of those messages that still show the failure that was read; return how many.

    None is written if another process has written this chunk meanwhile.
    """
    # Before any row is locked. What a plan has counted has no words with a higher number.
    seq = tx.sql.take_entry_number(tx.conn)
    before, after = chunk.before, chunk.after
    is_there = (progress.newest == before.newest, progress.backlog == before.backlog)
    moved = update(word_progress).where(*is_there)
    if not tx.execute(moved.values(newest=after.newest, backlog=after.backlog)).rowcount:
        return 0
    # A message that is deleted meanwhile takes its words with it, so it has to be there until the
    # end of this transaction. Nothing else is kept from changing it.
    query = (
        select(messages.number, messages.attempt_id)
        .where(tx.sql.member(messages.number, sorted(found)))
        .order_by(messages.number)
        .with_for_update(key_share=True, read=True)
    )
    rows = tx.execute(query).all() if found else []
    same = [row.number for row in rows if row.attempt_id == chunk.shown[row.number]]
    if same:
        delete_of(tx, same)
        full = [{"number": each, "seq": seq, "words": found[each]} for each in same if found[each]]
        if full:
            tx.execute(insert(message_words), full)
    return len(same)


MOST_COUNTED = 100_000
"""So many messages without their words are counted, and no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WordLag:
    """How much is still to be read: of what came since words were wanted, and of what was before.

    Each is counted up to MOST_COUNTED. `since` is when the first of the new ones came.
    """

    waiting: int
    backlog: int
    since: datetime | None
    now: datetime

    @property
    def seconds(self) -> float:
        """How far words are behind what is stored newly."""
        return 0.0 if self.since is None else max(0.0, (self.now - self.since).total_seconds())


def find_lag(tx: Transaction) -> WordLag | None:
    """Return how far words are behind; None if nobody has wanted them yet."""
    row = tx.execute(select(progress.newest, progress.backlog)).one_or_none()
    if row is None:
        return None
    newer = attempts.attempt_id > row.newest
    first = select(attempts.received_at).where(newer).order_by(attempts.attempt_id).limit(1)
    older = messages.number < row.backlog
    return WordLag(
        waiting=_count(tx, select(attempts.attempt_id).where(newer)),
        backlog=_count(tx, select(messages.number).where(older)),
        since=tx.execute(first).scalar_one_or_none(),
        now=tx.now,
    )


get_lag = reading(find_lag)


def _count(tx: Transaction, found: Select[tuple[int]]) -> int:
    some = found.limit(MOST_COUNTED).subquery()
    return int(tx.execute(select(func.count()).select_from(some)).scalar_one())

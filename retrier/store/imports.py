"""Failed imports (`failed_imports`): messages that could not be understood, kept as they came."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate, takewhile
from typing import Any
from uuid import uuid4

from sqlalchemy import ColumnElement, Select, and_, bindparam, delete, func, or_, select, update

from retrier.domain.failed_imports import (
    NO_CONTENT,
    ImportKind,
    ImportState,
    Send,
    TriedMessage,
    kind_of,
)
from retrier.domain.failed_message import FailedImport
from retrier.domain.identity import canonical, is_guid
from retrier.domain.retry_operation import Plan, hash_words
from retrier.domain.text import IdRange
from retrier.domain.values import dataclass
from retrier.domain.wire import PropertyCodec
from retrier.store.engine.database import Database, reading
from retrier.store.engine.sql_dialect import IN_BINARY
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.event_log import short
from retrier.store.message_lists import Page, PageRequest
from retrier.store.pending import time_before
from retrier.store.schema import failed_import_sends, failed_imports
from retrier.store.selections import take_cut_off

imports = failed_imports.c
sends = failed_import_sends.c


_NOTE_REASON = (
    update(failed_imports)
    .where(imports.import_id == bindparam("kept"))
    .values(reason=bindparam("why"))
)


def add(tx: Transaction, new: Sequence[FailedImport]) -> Sequence[FailedImport]:
    """Keep them; return those that were new.

    A redelivered one with a known fingerprint is the same: a crash between commit and
    acknowledgement must not store it twice. Without the redelivered flag, equal bytes are two.
    The caller must share the cut-off before it locks any row.
    """
    known = find_known(tx, [item.fingerprint for item in new if item.redelivered])
    fresh = [item for item in new if not (item.redelivered and item.fingerprint in known)]
    if fresh:
        # A received batch has one time: within it, the ids say what came first.
        ids = sorted(str(uuid4()) for _ in fresh)
        seq = tx.sql.take_entry_number(tx.conn)
        rows = [_row(*pair) | {"stored_seq": seq} for pair in zip(ids, fresh, strict=True)]
        tx.execute(failed_imports.insert(), rows)
    return fresh


def delete_old(tx: Transaction, conditions: Iterable[ColumnElement[bool]], most: int) -> int:
    """Delete those that meet conditions, the oldest first; return how many."""
    column = failed_imports.c.import_id
    query = select(column).where(*conditions).order_by(failed_imports.c.received_at).limit(most)
    ids = tx.execute(query.with_for_update(skip_locked=True)).scalars().all()
    if ids:
        tx.execute(delete(failed_imports).where(tx.sql.member(column, ids)))
    return len(ids)


def find_known(tx: Transaction, fingerprints: Sequence[str]) -> frozenset[str]:
    """Return those of these fingerprints that an import has which is kept."""
    if not fingerprints:
        return frozenset()
    member = tx.sql.member(imports.fingerprint, fingerprints)
    return frozenset(tx.execute(select(imports.fingerprint).where(member)).scalars())


def lock(tx: Transaction, import_ids: Sequence[str]) -> dict[str, FailedImport]:
    """Lock these imports, in the order of their ids; return those that are there.

    In the order in which they came: what they turn into is numbered in that order.
    """
    query = (
        select(failed_imports)
        .where(tx.sql.member(imports.import_id, import_ids))
        .order_by(imports.import_id)
        .with_for_update()
        .execution_options(**{IN_BINARY: True})
    )
    rows = sorted(tx.execute(query), key=lambda row: (row.received_at, row.import_id))
    return {
        row.import_id: FailedImport(
            error_queue=row.error_queue,
            reason=row.reason,
            raw=bytes(row.raw_properties),
            body=bytes(row.body),
            fingerprint=row.fingerprint,
            received_at=row.received_at,
            redelivered=row.redelivered,
        )
        for row in rows
    }


def lock_row(tx: Transaction, import_id: str) -> None:
    """Lock an import, if it is there, without reading its bytes: before its stamp is changed."""
    tx.execute(select(imports.import_id).where(imports.import_id == import_id).with_for_update())


def note_reasons(tx: Transaction, reasons: Mapping[str, str]) -> None:
    """Note why these imports are kept, as of today."""
    if reasons:
        rows = [{"kept": key, "why": short(why)} for key, why in sorted(reasons.items())]
        tx.execute(_NOTE_REASON, rows)


def remove(tx: Transaction, import_ids: Sequence[str]) -> None:
    """Delete these imports, which are locked: they are something else by now, or gone."""
    if import_ids:
        tx.execute(delete(failed_imports).where(tx.sql.member(imports.import_id, import_ids)))


def _row(import_id: str, item: FailedImport) -> dict[str, object]:
    return {
        "import_id": import_id,
        "error_queue": short(item.error_queue),
        "reason": short(item.reason),
        "raw_properties": item.raw,
        "body": item.body,
        "fingerprint": item.fingerprint,
        "received_at": item.received_at,
        "redelivered": item.redelivered,
    }


def find_stamps(tx: Transaction, import_ids: Sequence[str]) -> dict[str, Send]:
    """Return the stamps of these imports, by import; the imports are locked."""
    query = select(failed_import_sends).where(tx.sql.member(sends.import_id, import_ids))
    return {
        row.import_id: Send(
            send_id=row.send_id,
            to=row.sending_to,
            since=row.sending_since,
            requested_by=row.requested_by,
        )
        for row in tx.execute(query)
    }


def stamp(tx: Transaction, import_id: str, send: Send) -> None:
    """Stamp an import that has no stamp."""
    tx.execute(failed_import_sends.insert().values(import_id=import_id, **_stamp_columns(send)))


def replace_stamp(tx: Transaction, import_id: str, send_id: str, send: Send) -> bool:
    """Put another stamp in the place of the one with this id; say whether that was there."""
    mine = (sends.import_id == import_id, sends.send_id == send_id)
    statement = update(failed_import_sends).where(*mine).values(**_stamp_columns(send))
    return bool(tx.execute(statement).rowcount)


def remove_stamp(tx: Transaction, import_id: str, send_id: str) -> bool:
    """Take the stamp with this id away; say whether it was there."""
    mine = (sends.import_id == import_id, sends.send_id == send_id)
    return bool(tx.execute(delete(failed_import_sends).where(*mine)).rowcount)


def _stamp_columns(send: Send) -> dict[str, object]:
    return {
        "send_id": send.send_id,
        "sending_to": send.to,
        "sending_since": send.since,
        "requested_by": short(send.requested_by),
    }


SHOWN_BYTES = 16 * 1024
"""So much of properties and of a body is shown; the rest is fetched as bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSelection:
    """Which imports are wanted, and whether the oldest comes first.

    `counted_to` is that of a plan: what was kept under a higher number was not counted.
    """

    error_queue: str | None = None
    counted_to: int | None = None
    ids: IdRange | None = None
    ascending: bool = False


EVERYTHING = ImportSelection()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedImport:
    """A failed import as lists show it; `send` is the stamp of one that is in doubt."""

    import_id: str
    error_queue: str
    reason: str
    received_at: datetime
    properties_size: int
    body_size: int
    send: Send | None

    @property
    def state(self) -> ImportState:
        """Where it stands."""
        return ImportState.KEPT if self.send is None else ImportState.IN_DOUBT


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportDetails:
    """A failed import, what can be read of its properties, and the beginnings of its bytes.

    `unreadable` is why the rest of the properties cannot be read; None if all can.
    """

    listed: ListedImport
    fields: Mapping[str, str | int]
    headers: Mapping[str, object]
    unreadable: str | None
    raw: bytes
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSend:
    """The stamp of an import, None if it has none, and the database's time.

    `only_confirms`: it has no body, and confirms a retry of which nothing is known.
    """

    send: Send | None
    now: datetime
    only_confirms: bool


@dataclass(frozen=True, slots=True)
class LoadedImport:
    """A failed import with all its bytes."""

    import_id: str
    message: TriedMessage


_LISTED = select(
    imports.import_id,
    imports.error_queue,
    imports.reason,
    imports.received_at,
    func.length(imports.raw_properties).label("properties_size"),
    func.length(imports.body).label("body_size"),
    sends.send_id,
    sends.sending_to,
    sends.sending_since,
    sends.requested_by,
).outerjoin_from(failed_imports, failed_import_sends, sends.import_id == imports.import_id)


_FIRST_BYTES = func.substr(imports.body, 1, max(map(len, NO_CONTENT)) + 1).label("first_bytes")
"""Enough of a body to see that there is none."""


@reading
def list_imports(tx: Transaction, wanted: ImportSelection, page: PageRequest) -> Page[ListedImport]:
    """Return one page of the imports. Raises DatabaseUnavailable."""
    conditions = conditions_of(wanted)
    keys = (imports.received_at, imports.import_id)
    total = page.count(tx, select(func.count()).select_from(failed_imports).where(*conditions))
    query = (
        _LISTED.where(*conditions, *page.behind(*keys, descending=not wanted.ascending))
        .order_by(*(keys if wanted.ascending else (key.desc() for key in keys)))
        .limit(page.size)
        .offset(page.offset)
    )
    items = tuple(_listed(row) for row in tx.execute(query))
    place = page.next_place(total, items, lambda last: [last.received_at, last.import_id])
    return Page(items=items, total=total, next=place)


@reading
def count_imports(tx: Transaction, wanted: ImportSelection = EVERYTHING) -> int:
    """Return how many there are. Raises DatabaseUnavailable."""
    query = select(func.count()).select_from(failed_imports).where(*conditions_of(wanted))
    return int(tx.execute(query).scalar_one())


def plan_imports(db: Database, act: str, error_queue: str | None) -> Plan:
    """Count the imports of an error queue, or all there are, and plan an act on them.

    Raises DatabaseUnavailable.
    """
    cut_off = take_cut_off(db)
    counted = ImportSelection(error_queue=error_queue, counted_to=cut_off)
    return Plan(
        subject=hash_words(act, error_queue or ""),
        counted_to=cut_off,
        cut_off=cut_off,
        total=count_imports(db, counted),
        at=time_before(db, timedelta(0)),
    )


@reading
def find_error_queue(tx: Transaction, import_id: str) -> str | None:
    """Return the error queue on which an import was found, None of an unknown one.

    Raises DatabaseUnavailable.
    """
    row = _find(tx, import_id, _LISTED)
    return None if row is None else str(row.error_queue)


@reading
def find_send(tx: Transaction, import_id: str) -> FoundSend | None:
    """Return the stamp of an import, or None if there is no such import.

    Raises DatabaseUnavailable.
    """
    row = _find(tx, import_id, _LISTED.add_columns(_FIRST_BYTES))
    if row is None:
        return None
    nothing = bytes(row.first_bytes or b"") in NO_CONTENT
    only_confirms = nothing and kind_of(row.reason) is ImportKind.CONFIRMATION
    return FoundSend(send=_listed(row).send, now=tx.now, only_confirms=only_confirms)


@reading
def find_import(tx: Transaction, import_id: str, codec: PropertyCodec) -> ImportDetails | None:
    """Return an import with what can be read of it, or None. Raises DatabaseUnavailable."""
    body = func.substr(imports.body, 1, SHOWN_BYTES).label("beginning")
    row = _find(tx, import_id, _LISTED.add_columns(imports.raw_properties, body))
    if row is None:
        return None
    raw = bytes(row.raw_properties)
    properties, unreadable = codec.read_what_can_be(raw)
    return ImportDetails(
        listed=_listed(row),
        fields=properties.fields,
        headers=properties.headers,
        unreadable=unreadable,
        raw=raw[:SHOWN_BYTES],
        # SQLite: the beginning of nothing is NULL.
        body=bytes(row.beginning or b""),
    )


@reading
def load_imports(
    tx: Transaction, wanted: ImportSelection, most: int, ids: Sequence[str] = ()
) -> Page[LoadedImport]:
    """Return imports with all their bytes, the newest first: so many, and CHUNK_BYTES, at most.

    With `ids` only those of them that are there. Raises DatabaseUnavailable.
    """
    conditions = conditions_of(wanted)
    if ids:
        named = [canonical(each) for each in ids if is_guid(each)]
        conditions.append(tx.sql.member(imports.import_id, named))
    total = tx.execute(select(func.count()).select_from(failed_imports).where(*conditions))
    size = func.length(imports.raw_properties) + func.length(imports.body)
    sized = (
        select(imports.import_id, size.label("size"))
        .where(*conditions)
        .order_by(imports.received_at.desc(), imports.import_id.desc())
        .limit(most)
    )
    found = tx.execute(sized).all()
    sums = accumulate(row.size for row in found)
    fitting = len(list(takewhile(CHUNK_BYTES.__ge__, sums)))
    taken = [row.import_id for row in found[: max(1, fitting)]]
    query = select(failed_imports).where(tx.sql.member(imports.import_id, taken))
    rows = {row.import_id: row for row in tx.execute(query.execution_options(**{IN_BINARY: True}))}
    return Page(
        items=tuple(
            LoadedImport(
                each,
                TriedMessage(
                    queue=rows[each].error_queue,
                    raw=bytes(rows[each].raw_properties),
                    body=bytes(rows[each].body),
                ),
            )
            for each in taken
            if each in rows
        ),
        total=total.scalar_one(),
    )


@reading
def find_import_body(tx: Transaction, import_id: str) -> bytes | None:
    """Return the whole body of an import, or None. Raises DatabaseUnavailable."""
    row = _find(tx, import_id, select(imports.body))
    return None if row is None else bytes(row.body)


def conditions_of(wanted: ImportSelection) -> list[ColumnElement[bool]]:
    """Return the conditions, to be joined by *and*."""
    conditions = []
    if wanted.error_queue is not None:
        conditions.append(imports.error_queue == wanted.error_queue)
    if wanted.counted_to is not None:
        conditions.append(imports.stored_seq <= wanted.counted_to)
    if wanted.ids is not None:
        conditions.append(imports.import_id.between(wanted.ids.first, wanted.ids.last))
    return conditions


def _find(tx: Transaction, import_id: str, query: Select[Any]) -> StoredRow | None:
    if not is_guid(import_id):
        return None
    wanted = query.where(imports.import_id == canonical(import_id))
    return tx.execute(wanted.execution_options(**{IN_BINARY: True})).one_or_none()


def _listed(row: StoredRow) -> ListedImport:
    send = Send(
        send_id=row.send_id,
        to=row.sending_to,
        since=row.sending_since,
        requested_by=row.requested_by,
    )
    return ListedImport(
        import_id=row.import_id,
        error_queue=row.error_queue,
        reason=row.reason,
        received_at=row.received_at,
        properties_size=row.properties_size,
        body_size=row.body_size,
        send=None if row.send_id is None else send,
    )


CHUNK = 500
CHUNK_BYTES = 16 * 1024 * 1024
"""What one transaction reads again at most, or one import that is larger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportChunk:
    """Imports in the order in which they came; the next chunk lies behind the last one."""

    import_ids: tuple[str, ...]
    last: tuple[datetime, str]


@reading
def find_end(tx: Transaction) -> datetime | None:
    """Return when the newest came: a bulk goes up to it, and ends though others come meanwhile.

    None where there is none. Raises DatabaseUnavailable.
    """
    newest: datetime | None = tx.execute(select(func.max(imports.received_at))).scalar_one()
    return newest


@reading
def find_import_chunk(
    tx: Transaction,
    wanted: ImportSelection,
    end: datetime,
    after: tuple[datetime, str] | None,
) -> ImportChunk | None:
    """Return the next imports, as many as one transaction may read again; None at the end.

    Raises DatabaseUnavailable.
    """
    size = func.length(imports.raw_properties) + func.length(imports.body)
    query = (
        select(imports.import_id, imports.received_at, size.label("size"))
        .where(*conditions_of(wanted), imports.received_at <= end)
        .order_by(imports.received_at, imports.import_id)
        .limit(CHUNK)
    )
    rows = tx.execute(query.where(_behind(*after)) if after else query).all()
    if not rows:
        return None
    sums = accumulate(row.size for row in rows)
    fitting = len(list(takewhile(CHUNK_BYTES.__ge__, sums)))
    taken = rows[: max(1, fitting)]
    return ImportChunk(
        import_ids=tuple(row.import_id for row in taken),
        last=(taken[-1].received_at, taken[-1].import_id),
    )


def _behind(received_at: datetime, import_id: str) -> ColumnElement[bool]:
    same = and_(imports.received_at == received_at, imports.import_id > import_id)
    return or_(imports.received_at > received_at, same)

"""Failed imports as people see them: lists, one of them, its body."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select

from retrier.domain.failed_imports import NO_CONTENT, ImportState, Kind, Send, kind_of
from retrier.domain.identity import canonical, is_guid
from retrier.domain.retry_operation import Plan, hash_words
from retrier.domain.text import IdRange
from retrier.domain.wire import PropertyCodec
from retrier.store.engine.database import Database, reading
from retrier.store.engine.sql_dialect import IN_BINARY
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.queries.ordering import Page, PageRequest
from retrier.store.queries.pending import time_before
from retrier.store.queries.selections import take_cut_off
from retrier.store.schema import failed_import_sends, failed_imports

imports = failed_imports.c
sends = failed_import_sends.c

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
    query = (
        _LISTED.where(*conditions)
        .order_by(*(keys if wanted.ascending else (key.desc() for key in keys)))
        .limit(page.size)
        .offset(page.offset)
    )
    total = select(func.count()).select_from(failed_imports).where(*conditions)
    return Page(
        items=tuple(_listed(row) for row in tx.execute(query)),
        total=tx.execute(total).scalar_one(),
    )


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
def find_send(tx: Transaction, import_id: str) -> FoundSend | None:
    """Return the stamp of an import, or None if there is no such import.

    Raises DatabaseUnavailable.
    """
    row = _find(tx, import_id, _LISTED.add_columns(_FIRST_BYTES))
    if row is None:
        return None
    nothing = bytes(row.first_bytes or b"") in NO_CONTENT
    only_confirms = nothing and kind_of(row.reason) is Kind.CONFIRMATION
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

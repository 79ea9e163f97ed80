"""The failed imports of a bulk, in chunks of bounded size."""

from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, takewhile

from sqlalchemy import ColumnElement, and_, func, or_, select

from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.imports import ImportSelection, conditions_of
from retrier.store.schema import failed_imports

imports = failed_imports.c

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

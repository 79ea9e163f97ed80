"""Tries what the service needs of the database, and takes it back."""

from collections.abc import Iterator, Sequence
from uuid import uuid4

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from retrier.store.engine.database import Database, writing
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import metadata

_SHOWN = 3
_WHO = text("SELECT current_user, current_schema()")
_OURS = (
    "SELECT c.relname FROM pg_class c "
    "WHERE c.relnamespace = to_regnamespace(quote_ident(current_schema())) "
    "AND c.relname = ANY(:names) AND NOT ({allowed}) ORDER BY c.relname"
)
_TABLE_RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")
_UNUSABLE_TABLES = text(
    _OURS.format(
        allowed=" AND ".join(f"has_table_privilege(c.oid, '{each}')" for each in _TABLE_RIGHTS)
    )
)
_SEQUENCE_RIGHTS = ("USAGE", "SELECT")
"""SELECT to read the last number that was given: the cut-off of a retry is one."""
_UNUSABLE_SEQUENCES = text(
    _OURS.format(
        allowed=" AND ".join(
            f"has_sequence_privilege(c.oid, '{each}')" for each in _SEQUENCE_RIGHTS
        )
    )
)
_FILTERED_TABLES = text(_OURS.format(allowed="NOT row_security_active(c.oid)"))
_TABLES_OF_OTHERS = text(_OURS.format(allowed="pg_has_role(c.relowner, 'USAGE')"))


def find_missing_rights(db: Database, *, upgrading: bool) -> tuple[str, ...]:
    """Return what the user of the connection may not do, each in a sentence; nothing is changed.

    With `upgrading` also what an upgrade of the schema needs: a table is made, and taken back.
    SQLite has no rights but those of its file. Raises DatabaseUnavailable.
    """
    return () if db.is_sqlite else _try(db, upgrading=upgrading)


@writing
def _try(tx: Transaction, *, upgrading: bool) -> tuple[str, ...]:
    user, schema = tx.execute(_WHO).one()
    problems = [*_find_unusable(tx, user, schema)]
    if upgrading:
        problems += _try_upgrade(tx, user, schema)
    return tuple(problems)


def _find_unusable(tx: Transaction, user: str, schema: str) -> Iterator[str]:
    names = {"names": [*metadata.tables, "alembic_version"]}
    if tables := tx.execute(_UNUSABLE_TABLES, names).scalars().all():
        yield (
            f"the user {user} may not read and write {_list('table', tables)}: "
            f"GRANT {', '.join(_TABLE_RIGHTS)} ON ALL TABLES IN SCHEMA {schema} TO {user}"
        )
    if tables := tx.execute(_FILTERED_TABLES, names).scalars().all():
        yield (
            f"row-level security hides rows of {_list('table', tables)} from the user {user}: "
            f"ALTER ROLE {user} BYPASSRLS, or ALTER TABLE {tables[0]} DISABLE ROW LEVEL SECURITY"
        )
    names = {"names": [*metadata._sequences]}  # noqa: SLF001 - there is no other list of them
    if sequences := tx.execute(_UNUSABLE_SEQUENCES, names).scalars().all():
        yield (
            f"the user {user} may not use {_list('sequence', sequences)}: "
            f"GRANT {', '.join(_SEQUENCE_RIGHTS)} ON ALL SEQUENCES IN SCHEMA {schema} TO {user}"
        )


def _try_upgrade(tx: Transaction, user: str, schema: str) -> Iterator[str]:
    names = {"names": [*metadata.tables, "alembic_version"]}
    if tables := tx.execute(_TABLES_OF_OTHERS, names).scalars().all():
        yield (
            f"the user {user} does not own {_list('table', tables)}, which the upgrade changes: "
            "run `retrier db upgrade` as their owner"
        )
    trial = tx.conn.begin_nested()
    try:
        tx.execute(text(f"CREATE TABLE retrier_check_{uuid4().hex} (id integer)"))
    except DBAPIError as error:
        words = str(error.orig).strip().splitlines()[0]
        yield (
            f"the user {user} may not create tables ({words}): GRANT USAGE, CREATE ON SCHEMA "
            f"{schema} TO {user}, or run `retrier db upgrade` as another user"
        )
    finally:
        trial.rollback()


def _list(what: str, names: Sequence[str]) -> str:
    shown, more = ", ".join(names[:_SHOWN]), len(names) - _SHOWN
    return f"the {what}{'s' if len(names) > 1 else ''} {shown}" + (
        f" and {more} more" if more > 0 else ""
    )

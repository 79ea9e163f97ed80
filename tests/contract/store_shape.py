"""What a database itself says of its tables, whatever the code thinks they are."""

from typing import Any

from sqlalchemy import MetaData, inspect, select, text

from retrier.store.engine.database import Database


def shape_of(db: Database) -> dict[str, object]:
    """Return everything the database itself says of its tables."""
    with db.engine.connect() as conn:
        inspector = inspect(conn)
        return {
            name: {
                "columns": [{**c, "type": repr(c["type"])} for c in inspector.get_columns(name)],
                "primary key": inspector.get_pk_constraint(name),
                "foreign keys": sorted(inspector.get_foreign_keys(name), key=by_name),
                "unique": sorted(inspector.get_unique_constraints(name), key=by_name),
                "checks": sorted(inspector.get_check_constraints(name), key=by_name),
                "indexes": sorted(map(shown, inspector.get_indexes(name)), key=by_name),
            }
            for name in inspector.get_table_names()
            if name != "alembic_version"
        }


def shown(index: Any) -> dict[str, Any]:
    return {**index, "dialect_options": {k: str(v) for k, v in index["dialect_options"].items()}}


def by_name(constraint: Any) -> Any:
    return constraint["name"]


def sequences_of(db: Database) -> list[str]:
    """Return the sequences; SQLite has none."""
    return [] if db.is_sqlite else sorted(inspect(db.engine).get_sequence_names())


def relations_of(db: Database) -> list[tuple[str, str]]:
    """Return whatever has a name in the database: tables, indexes, views, sequences."""
    sqlite = "SELECT name, type FROM sqlite_master ORDER BY name"
    postgres = (
        "SELECT relname::text, relkind::text FROM pg_class "
        "WHERE relnamespace NOT IN ('pg_catalog'::regnamespace, "
        "'information_schema'::regnamespace, 'pg_toast'::regnamespace) ORDER BY relname"
    )
    with db.engine.connect() as conn:
        found = conn.execute(text(sqlite if db.is_sqlite else postgres))
        return [(name, kind) for name, kind in found]


def particulars_of(db: Database) -> dict[str, str]:
    """Return what makes a table special, of which no inspection tells.

    SQLite: that its numbers are never given out again. PostgreSQL: its fillfactor and the like.
    """
    numbered = "SELECT name, 'AUTOINCREMENT' FROM sqlite_master WHERE sql LIKE '%AUTOINCREMENT%'"
    stored = (
        "SELECT relname, array_to_string(reloptions, ' ') "
        "FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace "
        "AND reloptions IS NOT NULL"
    )
    with db.engine.connect() as conn:
        found = conn.execute(text(numbered if db.is_sqlite else stored)).all()
        return {row[0]: row[1] for row in found}


def all_rows(db: Database) -> dict[str, list[str]]:
    """Return whatever there is in any table, also in those that nobody knows any more."""
    found = MetaData()
    with db.engine.connect() as conn:
        found.reflect(conn)
        return {
            name: sorted(str(tuple(row)) for row in conn.execute(select(table)))
            for name, table in found.tables.items()
        }

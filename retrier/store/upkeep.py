"""What the service needs of the database: tried at the start, probed, and swept.

Here also is the installation (`installation`): a random id that marks its copies on the broker.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import uuid4

from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError

from retrier.store import batches, breakers, event_log
from retrier.store.engine.database import Database, reading, writing
from retrier.store.engine.sessions import is_pooled
from retrier.store.engine.transaction import Transaction
from retrier.store.lease import fenced
from retrier.store.schema import installation, metadata


def give_installation_id(tx: Transaction) -> str:
    """Return this database's installation id, making it at the first call."""
    insert = tx.sql.insert(installation).values(
        id=1, installation_id=str(uuid4()), created_at=tx.now
    )
    # Update an existing row, too: `probe_write` needs a write, to prove that writes work.
    tx.execute(
        insert.on_conflict_do_update(
            index_elements=["id"], set_={"installation_id": installation.c.installation_id}
        )
    )
    return str(find_installation_id(tx))


def find_installation_id(tx: Transaction) -> str | None:
    """Return the installation id; None before it was made."""
    return tx.execute(select(installation.c.installation_id)).scalar_one_or_none()


_IN_FORCE = text("SELECT lower(name), setting FROM pg_settings WHERE lower(name) = ANY(:names)")
_PLACE = text(
    "SELECT inet_client_addr() IS NOT NULL, current_setting('server_encoding'), "
    "current_setting('default_transaction_read_only') = 'on'"
)
_LIMITS = text(
    "SELECT 'the role', rolconnlimit FROM pg_roles WHERE rolname = session_user "
    "UNION ALL SELECT 'the database', datconnlimit FROM pg_database "
    "WHERE datname = current_database() "
    "UNION ALL SELECT 'the server', CAST(current_setting('max_connections') AS integer)"
)
NEEDED = 20
"""Connections that one process may hold at once in its usual work."""
_NETWORK = "tcp_"
_ALL_TEXTS = ("UTF8", "SQL_ASCII")


def find_session_warnings(db: Database) -> tuple[str, ...]:
    """Return what is not in force of all that a session says, and what it overrules, in words.

    Nothing on SQLite. Raises DatabaseUnavailable.
    """
    return () if db.is_sqlite else db.read(lambda tx: tuple(_find(tx, db.said.all())))


def _find(tx: Transaction, said: Mapping[str, str]) -> Iterator[str]:
    by_network, encoding, read_only = tx.execute(_PLACE).one()
    if found := list(_find_different(tx, said, by_network=by_network)):
        pooled = "behind a pooler, where " if is_pooled(tx.conn) else ""
        yield (
            f"{pooled}these are not in force: {', '.join(found)}; set them for the role (ALTER "
            "ROLE ... SET): docs/operations.md, Behind a pooler"
        )
    if read_only:
        yield "the role or the database sets default_transaction_read_only; Retrier writes anyway"
    for whose, limit in tx.execute(_LIMITS):
        if 0 <= limit < NEEDED:
            yield f"{whose} allows {limit} connections, and a process opens up to {NEEDED}"
    if encoding not in _ALL_TEXTS:
        yield (
            f"its encoding is {encoding}: a failure with other letters becomes a failed import. "
            "Make a database with ENCODING 'UTF8'"
        )


def _find_different(tx: Transaction, said: Mapping[str, str], *, by_network: bool) -> Iterator[str]:
    """Compare; what an older server does not have is not compared, nor TCP on a local socket."""
    rows = tx.execute(_IN_FORCE, {"names": list(said)})
    for name, value in sorted((str(name), str(value)) for name, value in rows):
        if value != said[name] and (by_network or not name.startswith(_NETWORK)):
            yield f"{name} = {said[name]} (is {value})"


_VACUUM_IS_OFF = text(
    "SELECT current_setting('autovacuum') = 'off' OR current_setting('track_counts') = 'off'"
)
# The server begins at a fifth, and looks once a minute: so many are behind, not just dead.
_FULL_OF_DEAD = text("""
SELECT s.relname, s.n_live_tup, s.n_dead_tup FROM pg_stat_user_tables s
WHERE s.schemaname = current_schema() AND s.relname = ANY(:names)
  AND s.n_dead_tup >= :least AND s.n_dead_tup > s.n_live_tup
  AND coalesce(greatest(s.last_vacuum, s.last_autovacuum), '-infinity')
      < clock_timestamp() - interval '10 minutes'
ORDER BY s.n_dead_tup DESC, s.relname
""")
_NOT_VACUUMED = text("""
SELECT c.relname FROM pg_class c, unnest(c.reloptions) AS said
WHERE c.relnamespace = to_regnamespace(quote_ident(current_schema())) AND c.relname = ANY(:names)
  AND lower(said) IN ('autovacuum_enabled=false', 'autovacuum_enabled=off',
                      'autovacuum_enabled=no', 'autovacuum_enabled=0')
ORDER BY c.relname
""")
MANY_DEAD = 100_000
"""Dead rows of a table from which on they are told: fewer take no room and no time."""


def find_vacuum_warnings(db: Database, least: int = MANY_DEAD) -> tuple[str, ...]:
    """Return why dead rows stay in the tables, and in which there are more than living ones.

    SQLite has no dead rows. Raises DatabaseUnavailable.
    """
    return () if db.is_sqlite else tuple(_find_unvacuumed(db, least))


@reading
def _find_unvacuumed(tx: Transaction, least: int) -> list[str]:
    names = list(metadata.tables)
    found = []
    if tx.execute(_VACUUM_IS_OFF).scalar_one():
        found.append(
            "autovacuum is off on this server, so the tables grow with each retry: turn it on"
        )
    elif tables := tx.execute(_NOT_VACUUMED, {"names": names}).scalars().all():
        found.append(
            f"autovacuum is off for {_list('table', tables)}: ALTER TABLE ... RESET (autovacuum_enabled)"
        )
    full = tx.execute(_FULL_OF_DEAD, {"names": names, "least": least})
    found += [
        f"{name} has {dead:,} dead rows and {live:,} others: VACUUM {name}, and look for transactions "
        "that stay open"
        for name, live, dead in full
    ]
    return found


_AT_ONCE = 1000

Sweep = Callable[[Transaction, datetime, int], int]


def sweep_events(db: Database, *, older_than: timedelta, as_of: datetime | None = None) -> int:
    """Delete events that were older than that `as_of` then, and are now; return how many.

    Raises DatabaseUnavailable.
    """
    return _sweep_all(db, event_log.sweep, older_than, as_of)


def sweep_staging_ids(db: Database, *, older_than: timedelta, as_of: datetime | None = None) -> int:
    """Delete staging ids that were older than that `as_of` then, and are now; return how many.

    The id of a batch that exists stays, however old it is. Raises DatabaseUnavailable.
    """
    return _sweep_all(db, batches.sweep_staging_ids, older_than, as_of)


@writing
def sweep_breaker_counts(
    tx: Transaction, *, older_than: timedelta, as_of: datetime | None = None
) -> int:
    """Delete what was counted for breakers before that; return how many rows.

    Each thread deletes its own: these are of threads that have ended. Raises DatabaseUnavailable.
    """
    return breakers.sweep_counts(tx, tx.agreed(as_of) - older_than)


def _sweep_all(db: Database, sweep: Sweep, older_than: timedelta, as_of: datetime | None) -> int:
    def sweep_some(tx: Transaction) -> int:
        return sweep(tx, tx.agreed(as_of) - older_than, _AT_ONCE)

    swept = deleted = db.transact(sweep_some)
    while deleted == _AT_ONCE:
        deleted = db.transact(sweep_some)
        swept += deleted
    return swept


# A client that stops in the middle of a pipeline (several statements sent at once) makes the server
# wait, "active" or "idle in transaction"; neither statement_timeout nor
# idle_in_transaction_session_timeout runs then. The same with a result that the client never reads.
_END = text("""
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user
  AND application_name = current_setting('application_name') AND pid <> pg_backend_pid()
  AND state <> 'idle' AND wait_event_type = 'Client'
  AND greatest(query_start, state_change) < clock_timestamp() - :limit
""")


def end_stuck_sessions(db: Database, *, older_than: timedelta) -> int:
    """End sessions whose server has waited that long for the client; return how many.

    A frozen process, or one cut off behind a proxy that keeps the connection open, would hold its
    locks until it is back: nobody could take over its lease. SQLite has no such sessions.
    Raises DatabaseUnavailable.
    """
    return 0 if db.is_sqlite else _end(db, older_than)


@writing
def _end(tx: Transaction, older_than: timedelta) -> int:
    return int(tx.execute(_END, {"limit": older_than}).scalar_one())


@writing
def get_installation_id(tx: Transaction) -> str:
    """Return this database's installation id, making it at the first call."""
    return give_installation_id(tx)


@writing
def probe_write(tx: Transaction) -> None:
    """Prove that the database takes writes. Raises DatabaseUnavailable."""
    give_installation_id(tx)


@reading
def probe_read(tx: Transaction) -> None:
    """Prove that the database answers. Raises DatabaseUnavailable."""
    tx.execute(select(1))


@fenced
def record_staging_ids(tx: Transaction, ids: Sequence[str]) -> None:
    """Store these staging ids; one that exists gets a new time, so that it is kept longer.

    Raises LeaseLost, DatabaseUnavailable.
    """
    batches.add_staging_ids(tx, ids)


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

"""Whether what a session says is in force: read back, because a pooler may have decided otherwise."""

from collections.abc import Iterator, Mapping

from sqlalchemy import text

from retrier.store.engine.database import Database
from retrier.store.engine.sessions import is_pooled
from retrier.store.engine.transaction import Transaction

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

"""What an error of the driver means: try again, database unavailable, or data refused."""

import re
import socket
import ssl
import struct
from datetime import timedelta

from sqlalchemy.exc import (
    DatabaseError,
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    InternalError,
    OperationalError,
    SQLAlchemyError,
    StatementError,
)
from sqlalchemy.exc import TimeoutError as NoConnectionFree

from retrier.domain.values import dataclass
from retrier.errors import (
    AnswerTooSlow,
    DatabaseRefused,
    DatabaseUnavailable,
    DataRefused,
    TablesMissing,
)
from retrier.store.engine.sessions import SessionRefused

HAS_EXPIRED = "certificate has expired"
_UNTRUSTED = "certificate verify failed"
_SERVER = re.compile(r'server at "([^"]+)"(?: \(([^)]+)\))?, port (\d+)')
_SSL_REQUEST = struct.pack("!ii", 8, 80877103)
_YES = b"S"
_EXPIRED = 10
"""OpenSSL's code for a certificate whose time is over."""


def describe_expired(words: str, authorities: str | None, timeout: float) -> str:
    """Return libpq's words, and that the certificate has expired if that is the reason.

    One more handshake finds it out. `authorities` is a file; None: those of the machine.
    """
    server = _SERVER.search(words)
    if _UNTRUSTED not in words or server is None:
        return words
    place = (server[2] or server[1], int(server[3]))
    return f"{words} ({HAS_EXPIRED})" if _has_expired(place, authorities, timeout) else words


def _has_expired(place: tuple[str, int], authorities: str | None, timeout: float) -> bool:
    try:
        context = ssl.create_default_context(cafile=authorities)
        context.check_hostname = False
        with socket.create_connection(place, timeout) as line:
            line.sendall(_SSL_REQUEST)
            if line.recv(1) == _YES:
                context.wrap_socket(line).close()
    except ssl.SSLCertVerificationError as error:
        return error.verify_code == _EXPIRED
    except OSError:
        return False
    return False


DUPLICATE = "23505"
# Deadlock detected, serialization failure, lock timeout: the transaction did nothing; do it again.
# Foreign key violation, too: the row referred to has just been deleted, and the next try sees
# that.
_TRANSIENT_STATES = frozenset({"40P01", "40001", "55P03", "23503"})
# query_canceled: usually by statement_timeout.
_CANCELLED = "57014"
# Program limits, such as a value too large for an index, come as operational errors, but they are
# the data's fault.
_PROGRAM_LIMITS = "54"
# No such table, no such column: the schema is not there yet, or is of an older version.
_MISSING_STATES = frozenset({"42P01", "42703"})
_MISSING_WORDS = ("no such table: ", "no such column: ", " has no column named ")
# No right to use it: the fault is in the database, not in the statement.
_NO_RIGHT = "42501"
# A standby refuses a transaction that may write. Behind a pooler we say its BEGIN; else the driver
# does, with the first statement, and then only the words of the server tell.
_NOT_SUPPORTED = "0A000"
_WRITING = ("during recovery", "read-write")
_STANDBY = (
    "it is a standby. Name the primary in database.url, or all hosts with "
    "target_session_attrs=read-write"
)
_STATEMENT_POOLING = "statement pooling mode"
_NO_TRANSACTIONS = (
    "pools by statement, and Retrier needs transactions: let it pool by transaction or by session "
    "(PgBouncer: pool_mode)"
)
_UNUSABLE = (OperationalError, InterfaceError, InternalError)
_BUSY_WORDS = ("database is locked", "database table is locked")


_NO_DATABASE = re.compile(r'database "(.+)" does not exist')
_NOT_OPENED = "unable to open database file"
"""SQLite's words, whatever the reason is."""
_FOLDER_NEEDED = "the user of this process must be able to write to its folder, or to make it"


def _refuses_writing(error: DBAPIError, words: str) -> bool:
    begins = (error.statement or "").startswith("BEGIN")
    return begins or any(each in words.casefold() for each in _WRITING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Translator:
    """Turns errors of SQLAlchemy and the driver into errors of Retrier."""

    place: str
    answer_limit: timedelta | None

    def translate(self, error: SQLAlchemyError) -> Exception:
        """Return the Retrier error for it; the error itself if our own code is at fault."""
        match error:
            case DBAPIError():
                return self._translate_from_driver(error)
            case NoConnectionFree():
                return DatabaseUnavailable(f"all connections to {self.place} are in use")
            # An error of SQLAlchemy itself is a fault of our statement: DataRefused would hide it.
            case StatementError(orig=Exception() as cause) if not isinstance(
                cause, SQLAlchemyError
            ):
                return DataRefused(str(cause))
            case _:
                return error

    def _translate_from_driver(self, error: DBAPIError) -> Exception:
        words = str(error.orig).strip().splitlines()
        # Only the first line: the others may quote a message's data.
        first = words[0] if words else type(error.orig).__name__
        limit = self.answer_limit
        if limit is not None and state_of(error) == _CANCELLED:
            return AnswerTooSlow(f"no answer from {self.place} within {limit.total_seconds():g} s")
        if _is_refusal(error):
            # PostgreSQL quotes the refused value behind `: "`.
            return DataRefused(first.partition(': "')[0])
        if isinstance(error.orig, SessionRefused):
            return DatabaseRefused(f"the database at {self.place} cannot be used: {first}")
        if state_of(error) == _NOT_SUPPORTED and _refuses_writing(error, first):
            return DatabaseRefused(f"the database at {self.place} takes no writes: {_STANDBY}")
        if _STATEMENT_POOLING in first:
            return DatabaseRefused(f"the pooler at {self.place} {_NO_TRANSACTIONS}")
        if state_of(error) == _NO_RIGHT or _lacks_tables(error, first):
            return self._explain_unready(error, first)
        if _is_unusable(error):
            return self._explain_unusable(first, _advise(" ".join(words)))
        return error

    def _explain_unready(self, error: DBAPIError, words: str) -> DatabaseRefused:
        """Return the error of a database that is there, and cannot be used as it is."""
        if state_of(error) == _NO_RIGHT:
            return DatabaseRefused(
                f"the database at {self.place} refused: {words}; `retrier check` says what to do"
            )
        # Not in the words of the driver, which would reach clients.
        return TablesMissing(
            f"the database at {self.place} has not all tables of Retrier yet; "
            "`retrier check` says what to do if it stays so"
        )

    def _explain_unusable(self, words: str, advice: str) -> DatabaseUnavailable:
        """Return the error; a server that refuses the connection was reached."""
        _, refused, reason = words.partition("FATAL:  ")
        if missing := _NO_DATABASE.fullmatch(reason):
            return DatabaseRefused(
                f"the database at {self.place} refused: {reason}; create it: createdb {missing[1]}"
            )
        if refused:
            text = f"the database at {self.place} refused: {reason}{advice}"
            return _kind_of(reason)(text)
        if words == _NOT_OPENED:
            return DatabaseUnavailable(
                f"cannot open or make the database file {self.place}: {_FOLDER_NEEDED}"
            )
        return _kind_of(words)(f"cannot reach the database at {self.place}: {words}{advice}")


_FOR_A_PERSON = (
    "authentication failed",
    "pg_hba.conf",
    "is not permitted to log in",
    "permission denied for database",
    "does not exist",
)
"""Words with which a connection is refused until a person changes something."""
_LIMITED = "a process opens up to 20 connections, and 50 when many clients ask at once"
_ADVICE_ON_LIMITS = {
    "too many connections": _LIMITED,
    "too many clients": _LIMITED,
    "connection slots are reserved": _LIMITED,
    "query_wait_timeout": "the pooler had no connection free for long: give it more",
}
_ADVICE = {
    HAS_EXPIRED: "it shows a certificate that has expired: renew it there",
    "certificate expired": "our certificate, named as sslcert, has expired: renew it",
    "certificate verify failed": (
        "name the file of the authority that signed the server's certificate as sslrootcert"
    ),
    "root certificate file": "name the file of its authority as sslrootcert",
    "unknown ca": "it does not trust the authority that signed our certificate, named as sslcert",
    "does not match host name": "name the host in database.url as the server's certificate does",
    "requires a valid client certificate": "name our certificate as sslcert and its key as sslkey",
    "certificate authentication failed": "name our certificate as sslcert and its key as sslkey",
    "certificate required": "name our certificate as sslcert and its key as sslkey",
    "server does not support SSL": "write sslmode=prefer or disable, or let the server use TLS",
    "no encryption": "write sslmode=require in database.url",
    "unsupported startup parameter": (
        "a pooler stands before it, and does not take that from database.url: leave it out there, "
        "and set it for the role (ALTER ROLE ... SET)"
    ),
}
"""What to do, by words of libpq and poolers. In another language there is only their sentence."""


def _advise(words: str) -> str:
    found = {**_ADVICE, **_ADVICE_ON_LIMITS}
    return next((f"; {advice}" for sign, advice in found.items() if sign in words), "")


def _kind_of(words: str) -> type[DatabaseUnavailable]:
    """Return the error that says whether a person has to change something, or a later try may do."""
    signs = (*_FOR_A_PERSON, *_ADVICE)
    return DatabaseRefused if any(sign in words for sign in signs) else DatabaseUnavailable


def is_transient(error: SQLAlchemyError) -> bool:
    """Return whether the same transaction may succeed when it is tried again."""
    if not isinstance(error, DBAPIError):
        return False
    return state_of(error) in _TRANSIENT_STATES or any(
        word in str(error.orig) for word in _BUSY_WORDS
    )


def state_of(error: DBAPIError) -> str:
    """Return PostgreSQL's code of the error; empty where there is none."""
    return getattr(error.orig, "sqlstate", None) or ""


def _lacks_tables(error: DBAPIError, words: str) -> bool:
    return state_of(error) in _MISSING_STATES or any(each in words for each in _MISSING_WORDS)


def _is_refusal(error: DBAPIError) -> bool:
    return isinstance(error, DataError | IntegrityError) or state_of(error).startswith(
        _PROGRAM_LIMITS
    )


def _is_unusable(error: DBAPIError) -> bool:
    connecting = error.statement is None
    # SQLite reports a damaged file, or one that is no database, as a plain DatabaseError.
    damaged = type(error) is DatabaseError
    unusable = isinstance(error, _UNUSABLE)
    return connecting or damaged or unusable or error.connection_invalidated

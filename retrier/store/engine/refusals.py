"""What an error of the driver means: to be tried again, out of reach, or the data's own fault."""

from dataclasses import dataclass
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

from retrier.errors import AnswerTooSlow, DatabaseUnavailable, DataRefused

DUPLICATE = "23505"
# Deadlock detected, serialization failure, lock timeout: the transaction did nothing; do it again.
# So it is with a missing row that another one refers to: somebody has just deleted it, and the
# next try looks at what is there now.
_TRANSIENT_STATES = frozenset({"40P01", "40001", "55P03", "23503"})
# By a statement's time limit, as a rule.
_CANCELLED = "57014"
# Program limits, such as a value too large for an index, come as operational errors, but they are
# the data's fault.
_PROGRAM_LIMITS = "54"
# No such table, no right to it: the database is not what it should be, whatever the statement.
_UNUSABLE_STATES = frozenset({"42P01", "42501"})
_UNUSABLE = (OperationalError, InterfaceError, InternalError)
_BUSY_WORDS = ("database is locked", "database table is locked")


@dataclass(frozen=True, slots=True, kw_only=True)
class Translator:
    """Turns errors of one database into ours."""

    place: str
    answer_limit: timedelta | None

    def translate(self, error: SQLAlchemyError) -> Exception:
        """Return our error for it; itself, if it is a fault of ours."""
        match error:
            case DBAPIError():
                return self._translate_from_driver(error)
            case NoConnectionFree():
                return DatabaseUnavailable(f"all connections to {self.place} are in use")
            # What SQLAlchemy itself objects to is our statement; blaming a row would hide that.
            case StatementError(orig=Exception() as cause) if not isinstance(
                cause, SQLAlchemyError
            ):
                return DataRefused(str(cause))
            case _:
                return error

    def _translate_from_driver(self, error: DBAPIError) -> Exception:
        words = str(error.orig).strip().splitlines()
        # The first line only: what follows may quote the data.
        first = words[0] if words else type(error.orig).__name__
        limit = self.answer_limit
        if limit is not None and state_of(error) == _CANCELLED:
            return AnswerTooSlow(f"no answer from {self.place} within {limit.total_seconds():g} s")
        if _is_refusal(error):
            # PostgreSQL quotes there what is no id, say.
            return DataRefused(first.partition(': "')[0])
        if _is_unusable(error):
            return DatabaseUnavailable(f"cannot reach the database at {self.place}: {first}")
        return error


def is_transient(error: SQLAlchemyError) -> bool:
    """Say whether the same transaction may well succeed when it is tried again."""
    if not isinstance(error, DBAPIError):
        return False
    return state_of(error) in _TRANSIENT_STATES or any(
        word in str(error.orig) for word in _BUSY_WORDS
    )


def state_of(error: DBAPIError) -> str:
    """Return PostgreSQL's code of the error; empty where there is none."""
    return getattr(error.orig, "sqlstate", None) or ""


def _is_refusal(error: DBAPIError) -> bool:
    return isinstance(error, DataError | IntegrityError) or state_of(error).startswith(
        _PROGRAM_LIMITS
    )


def _is_unusable(error: DBAPIError) -> bool:
    connecting = error.statement is None
    # SQLite tells of a damaged file, or of one that is no database, by the plain class.
    damaged = type(error) is DatabaseError
    unusable = isinstance(error, _UNUSABLE) or state_of(error) in _UNUSABLE_STATES
    return connecting or damaged or unusable or error.connection_invalidated

"""Where PostgreSQL and SQLite differ: locks, numbers, time, upserts, arrays, order of texts."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    BindParameter,
    Boolean,
    Connection,
    FromClause,
    Insert,
    Select,
    Table,
    func,
    type_coerce,
)
from sqlalchemy import Sequence as NumberedBy
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import ColumnElement
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction
from sqlalchemy.types import Integer, NullType, Text, TypeDecorator, UserDefinedType

from retrier.domain.words import Phrase
from retrier.overlap import WhileInFlight
from retrier.store.schema.messages import WORDS_INDEX
from retrier.store.schema.types import Digest, Id, Number, UtcTime


class by_code_point(GenericFunction[str]):  # noqa: N801 - used as a function
    """A text as it is sorted: PostgreSQL is told so, and SQLite knows no other order."""

    type = Text()
    inherit_cache = True
    name = "retrier_by_code_point"


class contains(GenericFunction[bool]):  # noqa: N801 - used as a function
    """Whether the first text has the second one in it: byte for byte, without wildcards."""

    type = Boolean()
    inherit_cache = True
    name = "retrier_contains"


class like_pattern(GenericFunction[bool]):  # noqa: N801 - used as a function
    """Whether the whole text is like a pattern: `*` stands for any characters, and case counts."""

    type = Boolean()
    inherit_cache = True
    name = "retrier_like_pattern"


class holds_bytes(GenericFunction[bool]):  # noqa: N801 - used as a function
    """Whether the first binary value has the second one in it."""

    type = Boolean()
    inherit_cache = True
    name = "retrier_holds_bytes"


class has_words(GenericFunction[Any]):  # noqa: N801 - used as a function
    """Whether a message has all these phrases: its number, its words, and a WantedWords."""

    # Of a Boolean SQLAlchemy compares with 1 on SQLite, which then reads all messages.
    type = NullType()
    inherit_cache = True
    name = "retrier_has_words"


class WantedWords(TypeDecorator[Sequence[Phrase]]):
    """Phrases in the language of each database's full-text search: only letters and digits are left."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Sequence[Phrase] | None, dialect: Dialect) -> str:
        """Write them: all are wanted."""
        phrases = value or ()
        if dialect.name == "sqlite":
            written = (f'"{" ".join(each.words)}"{" *" * each.goes_on}' for each in phrases)
            return " AND ".join(written) or _NOTHING
        # A phrase of one word that goes on is a prefix; of several only the last one is.
        return " & ".join(
            f"({' <-> '.join(each.words)}{':*' if each.goes_on else ''})" for each in phrases
        )


_NOTHING = '""'
"""What SQLite finds nowhere. An empty text it calls a mistake."""


def wants(phrases: Sequence[Phrase]) -> BindParameter[Sequence[Phrase]]:
    """Return phrases as a parameter of `has_words`."""
    return BindParameter(None, tuple(phrases), type_=WantedWords())


@compiles(by_code_point, "postgresql")
def _collate(element: by_code_point, compiler: SQLCompiler, **options: Any) -> str:
    return f'({compiler.process(element.clauses, **options)} COLLATE "C")'


@compiles(by_code_point)
def _as_it_is(element: by_code_point, compiler: SQLCompiler, **options: Any) -> str:
    return compiler.process(element.clauses, **options)


@compiles(contains, "postgresql")
def _find(element: contains, compiler: SQLCompiler, **options: Any) -> str:
    return f"(strpos({compiler.process(element.clauses, **options)}) > 0)"


@compiles(contains)
def _look(element: contains, compiler: SQLCompiler, **options: Any) -> str:
    """Use GLOB, which minds case: of a million texts it takes two thirds of the time of `instr`."""
    text, wanted = (compiler.process(each, **options) for each in element.clauses)
    for wildcard in "[*?":
        wanted = f"replace({wanted}, '{wildcard}', '[{wildcard}]')"
    return f"({text} GLOB '*' || {wanted} || '*')"


@compiles(like_pattern, "postgresql")
def _like(element: like_pattern, compiler: SQLCompiler, **options: Any) -> str:
    """Use LIKE, whose own wildcards are taken back. A percent sign stands twice for the driver."""
    text, wanted = (compiler.process(each, **options) for each in element.clauses)
    for wildcard in ("^", "%%", "_"):
        wanted = f"replace({wanted}, '{wildcard}', '^{wildcard}')"
    return f"({text} LIKE replace({wanted}, '*', '%%') ESCAPE '^')"


@compiles(like_pattern)
def _glob(element: like_pattern, compiler: SQLCompiler, **options: Any) -> str:
    text, wanted = (compiler.process(each, **options) for each in element.clauses)
    for wildcard in "[?":
        wanted = f"replace({wanted}, '{wildcard}', '[{wildcard}]')"
    return f"({text} GLOB {wanted})"


@compiles(holds_bytes, "postgresql")
def _find_bytes(element: holds_bytes, compiler: SQLCompiler, **options: Any) -> str:
    value, wanted = (compiler.process(each, **options) for each in element.clauses)
    return f"(position({wanted} in {value}) > 0)"


@compiles(holds_bytes)
def _look_for_bytes(element: holds_bytes, compiler: SQLCompiler, **options: Any) -> str:
    return f"(instr({compiler.process(element.clauses, **options)}) > 0)"


@compiles(has_words, "postgresql")
def _match(element: has_words, compiler: SQLCompiler, **options: Any) -> str:
    _, words, wanted = (compiler.process(each, **options) for each in element.clauses)
    return f"({words} @@ CAST({wanted} AS tsquery))"


@compiles(has_words)
def _match_in_index(element: has_words, compiler: SQLCompiler, **options: Any) -> str:
    clauses = list(element.clauses)
    number, wanted = (compiler.process(each, **options) for each in (clauses[0], clauses[2]))
    found = f"SELECT rowid FROM {WORDS_INDEX} WHERE {WORDS_INDEX} MATCH {wanted}"  # noqa: S608 - a name of ours
    return f"({number} IN ({found}))"


class Array(UserDefinedType[Sequence[Any]]):
    """A PostgreSQL array that is sent as an array literal (text).

    psycopg would dump it element by element, which takes longer than the server needs for the
    whole statement.
    """

    cache_ok = True
    render_bind_cast = True

    def __init__(self, kind: str) -> None:
        """`kind` is the type of the elements: TEXT, UUID, BIGINT, TIMESTAMPTZ or BYTEA (of digits)."""
        self.kind = kind

    def get_col_spec(self, **_: object) -> str:
        """Return the type to which the server casts the literal."""
        return f"{self.kind}[]"

    def bind_processor(self, dialect: Dialect) -> Callable[[Sequence[Any] | None], str | None]:  # noqa: ARG002 - SQLAlchemy's signature
        """Return the function that writes the literal."""
        write = _WRITERS[self.kind]
        return lambda values: None if values is None else write(values)


class JsonArray(TypeDecorator[Sequence[Any]]):
    """A JSON array, which SQLite expands with `json_each`."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Sequence[Any] | None, dialect: Dialect) -> str:  # noqa: ARG002 - SQLAlchemy's signature
        """Write the array."""
        return json.dumps(list(value or ()))


def array_like(column: ColumnElement[Any]) -> Array:
    """Return the array type for values of this column."""
    match column.type:
        case Id():
            return Array("UUID")
        case Digest():
            return Array("BYTEA")
        case kind if isinstance(kind, type(Number)):
            return Array("BIGINT")
        case Integer():
            return Array("BIGINT")
        case UtcTime():
            return Array("TIMESTAMPTZ")
        case _:
            return Array("TEXT")


def write_array(texts: Sequence[str | None]) -> str:
    """Return the array literal of these texts (PostgreSQL, 8.15.6: array input)."""
    return f"{{{','.join(map(_quote, texts))}}}"


def _quote(text: str | None) -> str:
    if text is None:
        return "NULL"
    if "\\" in text or '"' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _write_plain(values: Sequence[object]) -> str:
    """Write numbers or ids, which need no quotes."""
    return f"{{{','.join(map(str, values))}}}"


def _write_times(values: Sequence[datetime | None]) -> str:
    """Write moments with their offset."""
    return write_array([None if each is None else each.isoformat() for each in values])


def _write_digests(values: Sequence[str]) -> str:
    """Write `bytea` values in hexadecimal form."""
    return write_array([f"\\x{digits}" for digits in values])


_WRITERS: dict[str, Callable[[Sequence[Any]], str]] = {
    "TEXT": write_array,
    "UUID": _write_plain,
    "BIGINT": _write_plain,
    "TIMESTAMPTZ": _write_times,
    "BYTEA": _write_digests,
}


Moment = ColumnElement[Any]
"""A time as an SQL expression."""

Columns = Any
"""The columns of a table or a query, by name."""

READING = "retrier_reading"
"""The execution option that makes SQLite begin without the write lock."""

RESTRUCTURING = "retrier_restructuring"
"""The execution option that makes SQLite check no foreign keys."""

IN_BINARY = "retrier_in_binary"
"""The execution option for results with bodies: as text each byte takes two characters."""


REQUESTS = "retrier_requests"
"""The PostgreSQL channel that notifies every process of a new request."""

EVENTS = "retrier_events"
"""The PostgreSQL channel that notifies whoever follows the event log of new entries."""


class NumberSource(StrEnum):
    """Sources of numbers: each is a sequence on PostgreSQL, a row of `counters` on SQLite."""

    FAILURE_SEQ = "failure_seq"
    MESSAGE = "message_number"
    ATTEMPT = "attempt_number"


class SqlDialect(ABC):
    """What the two databases do differently."""

    reading: Mapping[str, Any]
    """Execution options of a transaction that reads: all its statements see one snapshot."""

    restructuring: Mapping[str, Any]
    """Execution options of a transaction that changes tables."""

    keeps_counts: bool
    """Whether triggers keep counts of messages (decision 0158)."""

    marks_at_once: bool
    """Whether a cut can be one transaction, without locks on its messages (decision 0027)."""

    @abstractmethod
    def now(self, conn: Connection) -> datetime:
        """Return the database's clock, which all instances share."""

    moments: tuple[Moment, Moment]
    """Now and later, as SQL expressions of that clock; `tell` returns their parameters."""

    @abstractmethod
    def tell(self, conn: Connection, later: timedelta) -> Mapping[str, object]:
        """Return the parameters with which `moments` are now, and `later` after now."""

    def minute_of(self, moment: Moment) -> Moment:
        """Return the minute in which a stored time lies, as a time.

        On SQLite times are texts: what is behind the minute is cut off.
        """
        return type_coerce(func.substr(moment, 1, 16).op("||")(":00.000000"), moment.type)

    @abstractmethod
    def take_numbers(self, conn: Connection, counter: NumberSource, count: int) -> list[int]:
        """Take `count` new numbers, ascending; no number is ever given out twice."""

    @abstractmethod
    def last_number(self, conn: Connection, counter: NumberSource) -> int:
        """Return the highest number taken so far; 0 before the first."""

    @abstractmethod
    def share_cut_off(self, conn: Connection, *, by_index: bool = False) -> None:
        """Make cut-offs wait until this transaction's failure numbers are committed.

        Call it before taking a number, and before locking any row: else deadlocks are possible. With
        `by_index` also `force_index_order`, in one round trip: each batch of failures needs both.
        """

    @abstractmethod
    def take_entry_number(self, conn: Connection, *, by_index: bool = False) -> int:
        """Share the cut-off, and take one failure number for all that this transaction changes.

        Before locking any row, as `share_cut_off`. With `by_index` also `force_index_order`: in one
        round trip, as each window of Forwarding needs both. What comes to match a selection without a new
        failure number is marked with it, so that a plan can leave it out.
        """

    @abstractmethod
    def take_cut_off(self, conn: Connection) -> None:
        """Wait until all failure numbers taken are committed; nobody can take one meanwhile."""

    @abstractmethod
    def reserve_key(self, conn: Connection, key: str) -> None:
        """Let nobody else add a request under this key until this transaction ends.

        Keys stand in several tables, and a unique index is about one. Call it before locking any
        row: else deadlocks are possible.
        """

    @abstractmethod
    def reserve_bytes(self, conn: Connection, fingerprints: Collection[str]) -> None:
        """Let nobody else record messages with these fingerprints until this transaction ends.

        For those without a message id: no unique index is about equal bytes. Call it before
        `share_cut_off` and before locking any row: else deadlocks are possible.
        """

    def makes_standing(self, conn: Connection) -> bool:  # noqa: ARG002 - PostgreSQL uses it
        """Say whether this transaction may add the standing operation; waits for nobody.

        Of several at once one may. Two that insert the same key would wait for each other's end,
        with rows locked that the other one wants. SQLite has one writer at a time.
        """
        return True

    @abstractmethod
    def force_index_order(self, conn: Connection) -> None:
        """Make the rest of this transaction read rows by an index, so in the order of its keys."""

    @abstractmethod
    def read_once_in_joins(self, conn: Connection) -> None:
        """Make the rest of this transaction read each side of a join once, and not for each row."""

    @abstractmethod
    def beside(self, rows: FromClause, query: Select[Any]) -> tuple[FromClause, Columns]:
        """Join to each row what a query of one table finds that is correlated with it.

        The query has the key of the table as its first column. Returns the join, and the columns.
        """

    @abstractmethod
    def using_waits(
        self, conn: Connection, while_in_flight: WhileInFlight
    ) -> AbstractContextManager[None]:
        """Call `while_in_flight` while the database works for this connection."""

    @abstractmethod
    def without_timeouts(self, conn: Connection, lock: str) -> None:
        """Lift all time limits of this transaction, and take the lock with that key."""

    @abstractmethod
    def find_strays(self, conn: Connection) -> frozenset[str]:
        """Return the tables with rows that refer to missing rows."""

    @abstractmethod
    def lock_table(self, conn: Connection, table: Table) -> None:
        """Let nobody else change the table until this transaction ends; reading stays possible."""

    @abstractmethod
    def hold_still(self, conn: Connection, tables: Sequence[Table]) -> None:
        """Let nobody else change these tables until this transaction ends, however long it takes.

        Reading stays possible, and so does nothing else that locks them like this.
        """

    @abstractmethod
    def find_sessions(self, conn: Connection) -> Sequence[str]:
        """Return where other processes of Retrier are connected from, to this database."""

    @abstractmethod
    def size_of(self, column: ColumnElement[Any]) -> ColumnElement[int]:
        """Return about how many bytes a text or binary value has, without reading all of it."""

    @abstractmethod
    def restore_rows(
        self, conn: Connection, table: Table, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """Add rows that were read of another database: all columns, JSON as its text."""

    @abstractmethod
    def delete_all(self, conn: Connection, tables: Sequence[Table]) -> None:
        """Delete all rows of these tables; those that refer to others stand behind them."""

    @abstractmethod
    def set_last_number(self, conn: Connection, counter: NumberSource, number: int) -> None:
        """Make the counter go on behind this number."""

    @abstractmethod
    def last_key(self, conn: Connection, table: Table) -> int:
        """Return the highest key that the database has given to a row of a table that it numbers."""

    @abstractmethod
    def set_last_key(self, conn: Connection, table: Table, key: int) -> None:
        """Make the database number the rows of this table behind this key."""

    @abstractmethod
    def take_statistics(self, conn: Connection, tables: Sequence[Table]) -> None:
        """Let the planner know how much was added, before anybody asks."""

    @abstractmethod
    def give_back_pages(self, conn: Connection) -> bool:
        """Return some free pages to the file system, if there are many; say whether more are."""

    @abstractmethod
    def announce_request(self, conn: Connection) -> None:
        """Wake the processor, in whichever process, when this transaction is committed."""

    @contextmanager
    def only_reading(self, conn: Connection) -> Iterator[None]:
        """Refuse every write of this connection while the context is open.

        SQLite has no transactions that only read: the connection itself is told.
        """
        conn.exec_driver_sql("PRAGMA query_only = ON")
        try:
            yield
        finally:
            if not conn.invalidated:  # else it is closed, and nobody uses it again
                conn.exec_driver_sql("PRAGMA query_only = OFF")

    def announcing(self, insert: Insert) -> Insert:
        """Make this insert of events wake who follows the event log, when it is committed.

        On SQLite as it is: there they look every half second.
        """
        return insert

    def find_writers(self, conn: Connection, table: Table | NumberedBy) -> frozenset[str]:  # noqa: ARG002 - PostgreSQL uses them
        """Return the transactions not over yet that may have taken ids of new rows of this table.

        Or numbers of this sequence.

        On SQLite none: it has one writer at a time, so rows are committed in the order of ids.
        """
        return frozenset()

    @abstractmethod
    def insert(self, table: Table) -> Any:
        """Return an insert that supports ON CONFLICT."""

    @abstractmethod
    def add_rows(self, conn: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add many rows that all have the same columns. Raises IntegrityError if one exists."""

    @abstractmethod
    def add_missing(
        self,
        conn: Connection,
        table: Table,
        columns: Mapping[str, Sequence[Any]],
        same: Mapping[str, Any],
    ) -> None:
        """Add those of the rows, given by column, that do not exist yet; `same` is for all.

        In the order given: key order where others may add the same, or they deadlock.
        """

    @abstractmethod
    def rows_of(self, columns: Mapping[str, Sequence[Any]], table: Table) -> Select[Any]:
        """Return rows, given by column, as a query; they have the names and types of a table's."""

    @abstractmethod
    def add_numbered(
        self,
        conn: Connection,
        table: Table,
        columns: Mapping[str, Sequence[Any]],
        shown: tuple[ColumnElement[Any], ColumnElement[Any]],
    ) -> Mapping[Any, int]:
        """Do so to a table that numbers its rows; return the numbers of those that were added.

        By their keys: `shown` are the columns of the key and of the number. A row that somebody
        else has added meanwhile is left out.
        """

    @abstractmethod
    def insert_columns(
        self, table: Table, columns: Mapping[str, Sequence[Any]], same: Mapping[str, Any]
    ) -> Any:
        """Return an insert of many rows, given by column, that supports ON CONFLICT.

        `same` holds the columns that have the same value in all rows.
        """

    @abstractmethod
    def among(self, column: ColumnElement[Any], values: BindParameter[Any]) -> ColumnElement[bool]:
        """Test whether a column is one of the values of this parameter."""

    @abstractmethod
    def values(
        self, column: ColumnElement[Any], name: str | None, values: Sequence[Any] | None = None
    ) -> BindParameter[Any]:
        """Return one parameter for any number of values of this column."""

    def member(self, column: ColumnElement[Any], values: Sequence[Any]) -> ColumnElement[bool]:
        """Test whether a column is one of the values."""
        return self.among(column, self.values(column, None, values))

    def listed(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """Test whether a column is in the parameter of that name: for cached statements."""
        return self.among(column, self.values(column, name))

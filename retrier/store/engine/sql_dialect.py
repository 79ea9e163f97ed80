"""Where PostgreSQL and SQLite differ: locks, numbers, time, upserts, array parameters."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    BindParameter,
    Connection,
    Table,
)
from sqlalchemy.sql import ColumnElement

from retrier.overlap import WhileInFlight

Moment = ColumnElement[Any]
"""A time as an SQL expression."""

READING = "retrier_reading"
"""The execution option by which SQLite is told to begin without the write lock."""

RESTRUCTURING = "retrier_restructuring"
"""The execution option by which SQLite is told to look at no foreign key."""

IN_BINARY = "retrier_in_binary"
"""The execution option of a statement whose results hold bodies: as text a byte is two, to and fro."""


REQUESTS = "retrier_requests"
"""The channel on which PostgreSQL tells every process that something was asked for."""


class Counter(StrEnum):
    """What is numbered: on PostgreSQL a sequence, on SQLite a row of `counters`."""

    FAILURE_SEQ = "failure_seq"
    MESSAGE = "message_number"
    ATTEMPT = "attempt_number"


class SqlDialect(ABC):
    """What the store's verbs ask a database for in its own words."""

    reading: Mapping[str, Any]
    """Execution options of a transaction that reads: one view of the data for all it asks."""

    restructuring: Mapping[str, Any]
    """Execution options of a transaction that changes tables."""

    marks_at_once: bool
    """Whether a cut is one transaction, without a lock on its messages."""

    @abstractmethod
    def now(self, conn: Connection) -> datetime:
        """Return the database's clock, which all instances share."""

    moments: tuple[Moment, Moment]
    """Now, and later, as values to be written by that clock; `tell` gives what they need."""

    @abstractmethod
    def tell(self, conn: Connection, later: timedelta) -> Mapping[str, object]:
        """Return the parameters with which `moments` are now, and so much later."""

    @abstractmethod
    def take_numbers(self, conn: Connection, counter: Counter, count: int) -> list[int]:
        """Take so many new numbers of that kind, ascending: none is ever given out twice."""

    @abstractmethod
    def last_number(self, conn: Connection, counter: Counter) -> int:
        """Return the highest number of that kind taken so far; 0 before the first."""

    @abstractmethod
    def share_cut_off(self, conn: Connection) -> None:
        """Hold off cut-offs until this transaction's failure numbers are committed.

        Before the first of them is taken, and before any row is locked.
        """

    @abstractmethod
    def take_cut_off(self, conn: Connection) -> None:
        """Wait until all failure numbers taken are committed, and let none be taken meanwhile."""

    @abstractmethod
    def force_index_order(self, conn: Connection) -> None:
        """Have this transaction find what it looks for by an index, in the order of its keys."""

    @abstractmethod
    def using_waits(
        self, conn: Connection, while_in_flight: WhileInFlight
    ) -> AbstractContextManager[None]:
        """Have something else done while the database is at work for this connection."""

    @abstractmethod
    def without_timeouts(self, conn: Connection, lock: str) -> None:
        """Let this transaction last as long as it likes, alone under a lock of that name."""

    @abstractmethod
    def find_strays(self, conn: Connection) -> frozenset[str]:
        """Return the tables with rows that refer to what is not there, unless none can have any."""

    @abstractmethod
    def lock_table(self, conn: Connection, table: Table) -> None:
        """Let nobody else change the table before this transaction ends; reading goes on."""

    @abstractmethod
    def announce_request(self, conn: Connection) -> None:
        """Wake the processor, wherever it runs, when this transaction is committed."""

    @abstractmethod
    def insert(self, table: Table) -> Any:
        """Return an insert that knows ON CONFLICT."""

    @abstractmethod
    def add_rows(self, conn: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add many rows that all have the same columns; one that is there already is an error."""

    @abstractmethod
    def add_missing(
        self,
        conn: Connection,
        table: Table,
        columns: Mapping[str, Sequence[Any]],
        same: Mapping[str, Any],
    ) -> None:
        """Add many rows that are given by column, except those that are there already.

        In the order given, which is that of their keys wherever others add the same.
        """

    @abstractmethod
    def insert_columns(
        self, table: Table, columns: Mapping[str, Sequence[Any]], same: Mapping[str, Any]
    ) -> Any:
        """Return an insert of many rows that are given by column; it knows ON CONFLICT.

        `same` gives the columns in which all of them say the same.
        """

    @abstractmethod
    def among(self, column: ColumnElement[Any], values: BindParameter[Any]) -> ColumnElement[bool]:
        """Test whether a column is one of some values."""

    @abstractmethod
    def values(
        self, column: ColumnElement[Any], name: str | None, values: Sequence[Any] | None = None
    ) -> BindParameter[Any]:
        """Return a parameter that is any number of such values as the column holds."""

    def member(self, column: ColumnElement[Any], values: Sequence[Any]) -> ColumnElement[bool]:
        """Test whether a column is one of the values."""
        return self.among(column, self.values(column, None, values))

    def listed(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """Test whether a column is in the parameter of that name: for statements made once."""
        return self.among(column, self.values(column, name))

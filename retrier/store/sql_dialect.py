"""Where PostgreSQL and SQLite differ: locks, numbers, time, upserts, array parameters."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    BindParameter,
    Connection,
    Table,
)
from sqlalchemy.sql import ColumnElement

from retrier.store.patience import Meanwhile

Moment = ColumnElement[Any]
"""A time as an SQL expression."""

READING = "retrier_reading"
"""The execution option by which SQLite is told to begin without the write lock."""

IN_BINARY = "retrier_in_binary"
"""The execution option of a statement whose results hold bodies: as text a byte is two, to and fro."""


REQUESTS = "retrier_requests"
"""The channel on which PostgreSQL tells every process that something was asked for."""


class SqlDialect(ABC):
    """What the store's verbs ask a database for in its own words."""

    reading: Mapping[str, Any]
    """Execution options of a transaction that reads: one view of the data for all it asks."""

    writes_in_queries: bool
    """Whether a query may insert rows on its way to its answer."""

    @abstractmethod
    def now(self, conn: Connection) -> datetime:
        """Return the database's clock, which all instances share."""

    moments: tuple[Moment, Moment]
    """Now, and later, as values to be written by that clock; `tell` gives what they need."""

    @abstractmethod
    def tell(self, conn: Connection, later: timedelta) -> Mapping[str, object]:
        """Return the parameters with which `moments` are now, and so much later."""

    @abstractmethod
    def next_failure_seqs(self, conn: Connection, count: int) -> list[int]:
        """Take so many new failure numbers, ascending."""

    @abstractmethod
    def last_failure_seq(self, conn: Connection) -> int:
        """Return the highest failure number taken so far."""

    @abstractmethod
    def share_cut_off(self, conn: Connection) -> None:
        """Hold off cut-offs until this transaction's failure numbers are committed."""

    @abstractmethod
    def take_cut_off(self, conn: Connection) -> None:
        """Wait until all failure numbers taken are committed, and let none be taken meanwhile."""

    @abstractmethod
    def go_by_index(self, conn: Connection) -> None:
        """Have this transaction find what it looks for by an index, in the order of its keys."""

    @abstractmethod
    def using_waits(
        self, conn: Connection, meanwhile: Meanwhile | None
    ) -> AbstractContextManager[None]:
        """Have something else done while the database is at work for this connection."""

    @abstractmethod
    def take_time(self, conn: Connection) -> None:
        """Let this transaction last as long as it likes, also where it waits for others."""

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
    def insert_texts(
        self, table: Table, columns: Mapping[str, Sequence[str]], same: Mapping[str, str]
    ) -> Any:
        """Return an insert of many rows of text, given by column; it knows ON CONFLICT.

        `same` gives the columns in which all of them say the same.
        """

    @abstractmethod
    def among(self, column: ColumnElement[Any], texts: BindParameter[Any]) -> ColumnElement[bool]:
        """Test whether a column is one of some texts."""

    @abstractmethod
    def texts(self, name: str | None, values: Sequence[str] | None = None) -> BindParameter[Any]:
        """Return a parameter that is any number of texts."""

    def member(self, column: ColumnElement[Any], values: Sequence[str]) -> ColumnElement[bool]:
        """Test whether a column is one of the values."""
        return self.among(column, self.texts(None, values))

    def listed(self, column: ColumnElement[Any]) -> ColumnElement[bool]:
        """Test whether a column is in the parameter `ids`: for statements made once."""
        return self.among(column, self.texts("ids"))

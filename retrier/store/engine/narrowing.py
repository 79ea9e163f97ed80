"""Narrows what a database shows to the messages of some queues, for who may see no others.

Each query gets common table expressions in front, under the names of the tables themselves: they
hide the tables, so that the query finds nothing else, whatever it asks and whoever writes it. It
holds for reads only; whatever is no query is refused. What no queue can be told of (the ledger, the
processor, saved views) is shown to everybody.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Engine, event

from retrier.domain.values import dataclass
from retrier.errors import DatabaseRefused

_FIRST_WORD = re.compile(r"\s*(WITH\s+RECURSIVE|WITH|SELECT)\s", re.IGNORECASE)
_NOTHING = "1 = 0"


def narrow(engine: Engine, patterns: Sequence[str], *, is_sqlite: bool) -> None:
    """Have an engine show nothing but what belongs to the queues of these patterns."""
    tables = _tables(tuple(patterns), is_sqlite)

    def rewrite(
        conn: Any, _cursor: object, statement: str, parameters: Any, _context: object, _many: object
    ) -> tuple[str, Any]:
        schema = "main" if is_sqlite else _schema_of(conn)
        return _rewritten(statement, tables, schema), parameters

    event.listen(engine, "before_cursor_execute", rewrite, retval=True)


def _schema_of(conn: Any) -> str:
    """Return the schema of our tables, quoted; each connection asks once."""
    known = conn.info.get("retrier schema")
    if known is None:
        cursor = conn.connection.cursor()
        cursor.execute(
            "SELECT quote_ident(n.nspname) FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass('causes')"
        )
        row = cursor.fetchone()
        cursor.close()
        known = conn.info["retrier schema"] = "public" if row is None else str(row[0])
    return str(known)


def _rewritten(statement: str, tables: Mapping[str, str], schema: str) -> str:
    found = _FIRST_WORD.match(statement)
    if found is None:
        if statement.strip().upper().startswith(("SET ", "BEGIN", "COMMIT", "ROLLBACK", "PRAGMA")):
            return statement
        raise DatabaseRefused("who may see some queues only can change nothing here")
    used = [name for name in tables if re.search(rf"\b{name}\b", statement)]
    if not used:
        return statement
    own = ", ".join(
        f"{name} AS NOT MATERIALIZED (SELECT * FROM {schema}.{name} "  # noqa: S608 - names of ours
        f"WHERE {tables[name].replace('{s}', schema)})"
        for name in used
    )
    word, rest = found[1], statement[found.end(1) :]
    match word.upper().split():
        case ["SELECT"]:
            return f"WITH {own} {word}{rest}"
        case _:
            return f"{word} {own}, {rest.lstrip()}"


@lru_cache(maxsize=100)
def _tables(patterns: tuple[str, ...], is_sqlite: bool) -> Mapping[str, str]:  # noqa: FBT001 - a key
    return dict(find_conditions(patterns, is_sqlite=is_sqlite))


def find_conditions(patterns: tuple[str, ...], *, is_sqlite: bool) -> Iterator[tuple[str, str]]:
    """Yield each table that tells of queues, with the condition of what is shown of it.

    `{s}` stands for the schema.
    """
    own = _Own(patterns, is_sqlite)
    yield from _of_messages(own)
    yield from _of_operations(own)
    yield from _of_others(own)


@dataclass(frozen=True, slots=True)
class _Own:
    """The words of conditions: what belongs to the queues of some patterns."""

    patterns: Sequence[str]
    is_sqlite: bool

    def match(self, column: str) -> str:
        """Return the condition that a column names such a queue."""
        each = (_like(column, pattern, is_sqlite=self.is_sqlite) for pattern in self.patterns)
        return f"({' OR '.join(each) or _NOTHING})"

    @property
    def causes(self) -> str:
        return f"SELECT cause_id FROM {{s}}.causes WHERE {self.match('queue')}"  # noqa: S608 - as above

    def of_message(self, condition: str) -> str:
        """Return the condition that there is such a message."""
        own = "{s}.failed_messages own JOIN {s}.causes why ON why.cause_id = own.cause_id"
        return f"EXISTS (SELECT 1 FROM {own} WHERE {condition} AND {self.match('why.queue')})"  # noqa: S608

    def of_number(self, table: str) -> str:
        return self.of_message(f"own.number = {{s}}.{table}.number")

    def of_id(self, table: str) -> str:
        """Return the same of a table where the id is a text, which need not be one.

        Only as an id the index of messages finds it.
        """
        text = as_id = f"{{s}}.{table}.unique_message_id"
        if not self.is_sqlite:
            is_id = f"length({text}) = 36 AND {text} ~ '^[0-9a-f-]*$'"
            as_id = f"CASE WHEN {is_id} THEN CAST({text} AS uuid) END"
        return self.of_message(f"own.unique_message_id = {as_id}")

    @property
    def same_rights(self) -> str:
        """The condition that an operation was asked for with just these rights."""
        written = ", ".join(map(json.dumps, self.patterns))
        if self.is_sqlite:
            listed = _quoted(f"[{written.replace(', ', ',')}]", is_sqlite=True)
            return f"json_extract(selection, '$.within') = {listed}"
        return f"selection->'within' = {_quoted(f'[{written}]', is_sqlite=False)}::jsonb"

    @property
    def retries(self) -> str:
        """The condition of operations that hold such a message, or were asked for with these rights."""
        held = (
            f"EXISTS (SELECT 1 FROM {{s}}.{table} of_it "  # noqa: S608 - names of ours
            f"WHERE of_it.operation_id = {{s}}.retry_operations.operation_id "
            f"AND {self.of_message('own.number = of_it.number')})"
            for table in ("failed_message_retries", "ended_retries", "retry_operation_messages")
        )
        return " OR ".join((self.same_rights, *held))

    @property
    def archives(self) -> str:
        """The same of archive operations."""
        of_it = "own.archive_operation_id = {s}.archive_operations.operation_id"
        return f"{self.same_rights} OR {self.of_message(of_it)}"


def _of_messages(own: _Own) -> Iterator[tuple[str, str]]:
    groups = f"SELECT group_id FROM {{s}}.cause_groups WHERE cause_id IN ({own.causes})"  # noqa: S608
    yield "causes", own.match("queue")
    yield "failed_messages", f"cause_id IN ({own.causes})"
    yield "message_counts", f"cause_id IN ({own.causes})"
    for table in (
        *("processing_attempts", "failed_message_retries", "ended_retries", "outgoing"),
        *("retry_operation_messages", "message_edits", "message_fields", "message_words"),
    ):
        yield table, own.of_number(table)
    yield "cause_groups", f"cause_id IN ({own.causes})"
    yield "failure_groups", f"group_id IN ({groups})"
    yield "group_comments", f"group_id IN ({groups})"


def _of_operations(own: _Own) -> Iterator[tuple[str, str]]:
    retries = f"SELECT operation_id FROM {{s}}.retry_operations WHERE {own.retries}"  # noqa: S608
    archives = f"SELECT operation_id FROM {{s}}.archive_operations WHERE {own.archives}"  # noqa: S608
    asked = f"SELECT operation_id FROM {{s}}.archive_operations WHERE {own.same_rights}"  # noqa: S608
    yield "retry_operations", own.retries
    of_one = ("retry_batches", "approvals", "retry_operation_canaries", "retry_operation_outcomes")
    for table in of_one:
        yield table, f"operation_id IN ({retries})"
    yield "archive_operations", own.archives
    named = "archive_operation_messages"
    yield named, f"operation_id IN ({asked}) OR {own.of_id(named)}"
    of_operation = f"operation_id IN ({retries}) OR operation_id IN ({archives})"
    of_no_message = f"unique_message_id IS NULL AND ({of_operation})"
    yield "event_log", f"{own.of_id('event_log')} OR ({of_no_message})"


def _of_others(own: _Own) -> Iterator[tuple[str, str]]:
    imports = f"SELECT import_id FROM {{s}}.failed_imports WHERE {own.match('error_queue')}"  # noqa: S608
    breakers = f"per = 'destination' AND {own.match('name')}"
    counted = f"SELECT breaker_id FROM {{s}}.breakers WHERE {breakers}"  # noqa: S608
    yield "message_redirects", f"{own.match('from_queue')} AND {own.match('to_queue')}"
    yield "failed_imports", own.match("error_queue")
    yield "failed_import_sends", f"import_id IN ({imports})"
    yield "breakers", breakers
    yield "breaker_counts", f"breaker_id IN ({counted})"
    # Its conditions are written as in an address: which queue they name cannot be read here.
    percent = "%" if own.is_sqlite else "%%"
    yield "saved_views", f"query NOT LIKE '{percent}queue={percent}'"


def _like(column: str, pattern: str, *, is_sqlite: bool) -> str:
    if is_sqlite:
        for wildcard in "[?":
            pattern = pattern.replace(wildcard, f"[{wildcard}]")
        return f"{column} GLOB {_quoted(pattern, is_sqlite=True)}"
    for wildcard in "^%_":
        pattern = pattern.replace(wildcard, f"^{wildcard}")
    return f"{column} LIKE {_quoted(pattern.replace('*', '%'), is_sqlite=False)} ESCAPE '^'"


def _quoted(text: str, *, is_sqlite: bool) -> str:
    """Return a text as a literal. A pattern may come from a provider: it is taken for nothing else."""
    literal = "'" + text.replace("'", "''") + "'"
    # For psycopg a percent sign begins a parameter, a brace would be taken for the schema below.
    return (literal if is_sqlite else literal.replace("%", "%%")).replace("{s}", "{ s}")

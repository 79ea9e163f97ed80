"""The statements that a database is asked to execute."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import event

from retrier.store.engine.database import Database


@contextmanager
def statements(db: Database) -> Iterator[list[str]]:
    """Note every statement that is executed meanwhile."""
    noted: list[str] = []

    def note(_conn: object, _cursor: object, statement: str, *_rest: object) -> None:
        noted.append(" ".join(statement.split()))

    event.listen(db.engine, "before_cursor_execute", note)
    try:
        yield noted
    finally:
        event.remove(db.engine, "before_cursor_execute", note)

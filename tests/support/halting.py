"""Halts a thread between two statements, so that others come in between."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, current_thread
from typing import Any

from sqlalchemy import event

from retrier.store.engine.database import Database

DEADLINE = 15.0
SLOW = "slow"
"""How the names of threads begin that can be halted."""
NO_LIMIT = "SET LOCAL idle_in_transaction_session_timeout = 0"


@contextmanager
def halted(db: Database, after: str, time: int = 1) -> Iterator[tuple[Event, Event]]:
    """Halt the slow thread once it has said such a statement, the n-th time.

    Gives what is set when it halts, and what lets it go on.
    """
    reached, go_on = Event(), Event()
    left = time

    def listen(_conn: object, cursor: Any, statement: str, *_rest: object) -> None:
        nonlocal left
        if after in statement and current_thread().name.startswith(SLOW):
            left -= 1
            if left == 0:
                if not db.is_sqlite:
                    # The server would end the session if the main thread took long meanwhile. Said
                    # past SQLAlchemy, so that nobody who listens hears of it.
                    cursor.connection.execute(NO_LIMIT)
                reached.set()
                assert go_on.wait(DEADLINE)

    event.listen(db.engine, "after_cursor_execute", listen)
    yield reached, go_on
    event.remove(db.engine, "after_cursor_execute", listen)

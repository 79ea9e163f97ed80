"""Halts a thread between two statements, so that others come in between."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, current_thread

from sqlalchemy import event

from retrier.store.engine.database import Database

DEADLINE = 15.0
SLOW = "slow"
"""How the names of threads begin that can be halted."""


@contextmanager
def halted(db: Database, after: str, time: int = 1) -> Iterator[tuple[Event, Event]]:
    """Halt the slow thread once it has said such a statement, the n-th time.

    Gives what is set when it halts, and what lets it go on.
    """
    reached, go_on = Event(), Event()
    left = time

    def listen(_conn: object, _cursor: object, statement: str, *_rest: object) -> None:
        nonlocal left
        if after in statement and current_thread().name.startswith(SLOW):
            left -= 1
            if left == 0:
                reached.set()
                assert go_on.wait(DEADLINE)

    event.listen(db.engine, "after_cursor_execute", listen)
    yield reached, go_on
    event.remove(db.engine, "after_cursor_execute", listen)

"""What gets in between: something that commits after marking has looked, and before it claims."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import event

from retrier.store.engine.database import Database

CLAIMS = "INSERT INTO failed_message_retries"
COUNT = "SELECT count(*) AS count_1 \nFROM failed_messages"


class BetweenLookAndClaims:
    """Calls `act` right before each statement that claims messages, inside its transaction.

    With PostgreSQL others can commit at that moment; with SQLite nobody can write then.
    """

    def __init__(self, db: Database, act: Callable[[], None]) -> None:
        self._db = db
        self._act = act
        event.listen(db.engine, "before_cursor_execute", self._look)

    def close(self) -> None:
        """Call it no more."""
        event.remove(self._db.engine, "before_cursor_execute", self._look)

    def _look(self, _connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if statement.startswith(CLAIMS):
            self._act()


class BetweenLookAndCount:
    """Calls `act` once, when a cut has looked and before it counts what it leaves out.

    Only if `is_time` says so then: earlier cuts count, too.
    """

    def __init__(
        self, db: Database, is_time: Callable[[], object], act: Callable[[], None]
    ) -> None:
        self._db = db
        self._is_time = is_time
        self._act = act
        self.has_acted = False
        event.listen(db.engine, "before_cursor_execute", self._look)

    def close(self) -> None:
        """Call it no more."""
        event.remove(self._db.engine, "before_cursor_execute", self._look)

    def _look(self, _connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if not self.has_acted and statement.startswith(COUNT) and self._is_time():
            self.has_acted = True
            self._act()

"""Texts of messages: deleted when nobody has them."""

from collections.abc import Callable

from retrier.store.engine.database import Database, bind
from retrier.store.tables import message_texts

_PAUSE = 0.02
"""Seconds between two looks for texts: nobody waits for this."""


def sweep_texts(db: Database, stopped: Callable[[float], bool]) -> int:
    """Delete the texts that no message has; return how many. Raises DatabaseUnavailable.

    Looked for in chunks, and without a lock. `stopped` waits so many seconds, and says whether to
    stop.
    """
    deleted, last = 0, 0
    while True:
        unused, after = db.read(bind(message_texts.find_unused, last))
        if unused:
            deleted += db.transact(bind(message_texts.remove_unused, unused))
        if after is None or stopped(_PAUSE):
            return deleted
        last = after

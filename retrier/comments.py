"""The gateway's part about comments on groups."""

from collections.abc import Callable
from dataclasses import dataclass

from retrier.domain.comments import CommentRefusal, read_comment
from retrier.events.event import Emit
from retrier.events.service import RequestReceived, RequestRecorded
from retrier.store.engine.database import Database
from retrier.store.verbs.comments import delete_comment, write_comment


@dataclass(frozen=True, slots=True)
class Comments:
    """Takes requests about comments. A comment changes nothing of messages: nobody is woken."""

    db: Database
    emit: Emit

    def write(self, group_id: str, written: str, who: str) -> CommentRefusal | None:
        """Comment on a group, in place of an earlier comment; return why not, or None."""
        text = read_comment(written)
        if isinstance(text, CommentRefusal):
            return text
        return self._record(lambda: write_comment(self.db, group_id, text, who))

    def delete(self, group_id: str, who: str) -> CommentRefusal | None:
        """Delete the comment of a group; return why not, or None: also if it had no comment."""
        return self._record(lambda: delete_comment(self.db, group_id, who))

    def _record(self, transact: Callable[[], CommentRefusal | None]) -> CommentRefusal | None:
        self.emit(RequestReceived())
        refusal = transact()
        self.emit(RequestRecorded())
        return refusal

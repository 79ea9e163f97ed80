"""Comments on groups: what a person wrote about one, and why a text is refused."""

from datetime import datetime
from enum import StrEnum

from retrier.domain.text import LONG_BYTES, clean
from retrier.domain.values import dataclass

LONGEST = 1000
"""Characters of a comment."""


class CommentRefusal(StrEnum):
    """Why a comment is not stored."""

    UNKNOWN = "no group has this id"
    EMPTY = "the comment is empty; to take one away, delete it"
    TOO_LONG = f"a comment has at most {LONGEST:,} characters"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """What a person wrote about a group, and when."""

    text: str
    who: str
    written_at: datetime


def read_comment(written: str) -> str | CommentRefusal:
    """Return the text as it is stored, or why it is refused. It is never cut: half may mislead."""
    # A form ends lines by CR LF: the same text sent by the API must be the same comment.
    text = written.replace("\r\n", "\n").strip()
    if len(text) > LONGEST:
        return CommentRefusal.TOO_LONG
    # Without what a database refuses it may be empty.
    return clean(text, LONG_BYTES).strip() or CommentRefusal.EMPTY

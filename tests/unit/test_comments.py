"""What a person writes about a group, as it is stored."""

import pytest

from retrier.domain.comments import LONGEST, CommentRefusal, read_comment


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("  both ends \n", "both ends"),
        ("one\r\ntwo", "one\ntwo"),
        ("a\0b", "ab"),
        ("\0", CommentRefusal.EMPTY),
        ("\udc80", CommentRefusal.EMPTY),
        ("x" * LONGEST, "x" * LONGEST),
        ("x" * (LONGEST + 1), CommentRefusal.TOO_LONG),
    ],
)
def test_it_is_stored_whole_or_refused(written: str, stored: str) -> None:
    assert read_comment(written) == stored

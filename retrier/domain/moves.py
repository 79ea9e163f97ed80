"""Moves: why the status of a failed message changes, and from which status to which."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from retrier.domain.failed_message import FailedMessageStatus


class Move(StrEnum):
    """Why the status of a stored message changes; MOVES lists from which to which.

    FAILED      a failure arrived that is newer than the stored one.
    ISSUED      its copy is in the staging queue, and its batch is about to be forwarded.
    REVERTED    its retry could not be sent, or a person gave up waiting for the outcome (release).
    CONFIRMED   a consumer reported that its retry, or the message itself, succeeded.
    PRESUMED    its retry was sent long ago and did not come back (`retries.presumed_after`).
    UPGRADED    a consumer reported that a retry presumed to have succeeded did.
    SETTLED     a person says that it is dealt with.
    ARCHIVED    a person set it aside.
    UNARCHIVED  a person made it unresolved again.
    GIVEN_UP    a person declared it dead: it stays unresolved, under a new failure number.
    """

    FAILED = "failed"
    ISSUED = "issued"
    REVERTED = "reverted"
    CONFIRMED = "confirmed"
    PRESUMED = "presumed"
    UPGRADED = "upgraded"
    SETTLED = "settled"
    ARCHIVED = "archived"
    UNARCHIVED = "unarchived"
    GIVEN_UP = "given_up"


_ISSUED = frozenset({FailedMessageStatus.RETRY_ISSUED})
_ARCHIVED = frozenset({FailedMessageStatus.ARCHIVED})
_OPEN = _ISSUED | {FailedMessageStatus.UNRESOLVED}

MOVES: Mapping[Move, tuple[frozenset[FailedMessageStatus], FailedMessageStatus]] = MappingProxyType(
    {
        Move.FAILED: (frozenset(FailedMessageStatus), FailedMessageStatus.UNRESOLVED),
        Move.ISSUED: (_OPEN, FailedMessageStatus.RETRY_ISSUED),
        Move.REVERTED: (_OPEN, FailedMessageStatus.UNRESOLVED),
        Move.CONFIRMED: (_OPEN, FailedMessageStatus.RESOLVED),
        Move.PRESUMED: (_ISSUED, FailedMessageStatus.RESOLVED),
        Move.UPGRADED: (frozenset({FailedMessageStatus.RESOLVED}), FailedMessageStatus.RESOLVED),
        Move.SETTLED: (_OPEN, FailedMessageStatus.RESOLVED),
        Move.ARCHIVED: (_OPEN, FailedMessageStatus.ARCHIVED),
        Move.UNARCHIVED: (_ARCHIVED, FailedMessageStatus.UNRESOLVED),
        Move.GIVEN_UP: (_OPEN - _ISSUED, FailedMessageStatus.UNRESOLVED),
    }
)
"""For each move the statuses it may start from, and the one it leads to. A message that becomes
unresolved gets a new failure number, even if it was unresolved before."""

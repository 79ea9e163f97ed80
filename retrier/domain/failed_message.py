"""A failed message, the failures seen of it, their causes, and the states it can be in."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """All failures that one classifier gives the same title."""

    group_id: str
    classifier: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What failures have in common that differ in nothing which a classifier looks at.

    `fingerprint` is a hash of all of it but `exception_message`, which is the first one's.
    """

    fingerprint: str
    queue: str
    destination: str
    endpoint: str | None
    message_type: str | None
    exception_type: str | None
    failure_reason: str | None
    exception_message: str | None
    groups: tuple[FailureGroup, ...]


class FailedMessageStatus(StrEnum):
    """Where a failed message stands (ServiceControl: FailedMessageStatus).

    UNRESOLVED    it failed and nobody has dealt with it; may be claimed by a batch that is
                  marking or staging.
    RETRY_ISSUED  it was staged: on its way, or sent and neither confirmed nor failed again. It
                  has a claim until one of these happens, so that no second retry can start.
    RESOLVED      a confirmation, a presumption or a person says it is dealt with.
    ARCHIVED      a person set it aside.
    """

    UNRESOLVED = "unresolved"
    RETRY_ISSUED = "retry_issued"
    RESOLVED = "resolved"
    ARCHIVED = "archived"


class Move(StrEnum):
    """What can become of a message that is stored; see MOVES for from where to where.

    FAILED      a failure arrived that is newer than what is known.
    ISSUED      its copy is in the staging queue, and its batch is about to be forwarded.
    REVERTED    its retry could not be sent, or nobody waits for its outcome any more.
    CONFIRMED   a consumer said that its retry, or the message itself, succeeded.
    SETTLED     a person, or a presumption, says that it is dealt with.
    ARCHIVED    a person set it aside.
    UNARCHIVED  a person took it back.
    """

    FAILED = "failed"
    ISSUED = "issued"
    REVERTED = "reverted"
    CONFIRMED = "confirmed"
    SETTLED = "settled"
    ARCHIVED = "archived"
    UNARCHIVED = "unarchived"


_OPEN = frozenset({FailedMessageStatus.UNRESOLVED, FailedMessageStatus.RETRY_ISSUED})

MOVES: Mapping[Move, tuple[frozenset[FailedMessageStatus], FailedMessageStatus]] = MappingProxyType(
    {
        Move.FAILED: (frozenset(FailedMessageStatus), FailedMessageStatus.UNRESOLVED),
        Move.ISSUED: (_OPEN, FailedMessageStatus.RETRY_ISSUED),
        Move.REVERTED: (_OPEN, FailedMessageStatus.UNRESOLVED),
        Move.CONFIRMED: (_OPEN, FailedMessageStatus.RESOLVED),
        Move.SETTLED: (_OPEN, FailedMessageStatus.RESOLVED),
        Move.ARCHIVED: (_OPEN, FailedMessageStatus.ARCHIVED),
        Move.UNARCHIVED: (
            frozenset({FailedMessageStatus.ARCHIVED}),
            FailedMessageStatus.UNRESOLVED,
        ),
    }
)
"""The only moves a message can make: from one of these, to that. Who becomes unresolved gets a new
failure number, also where it was unresolved before."""


class RetryEnd(StrEnum):
    """How a retry that had been sent, or may have been, ended."""

    FAILED = "failed"
    CONFIRMED = "confirmed"
    RESOLVED = "resolved"
    RELEASED = "released"
    REVERTED = "reverted"


class Disposition(StrEnum):
    """What the policies make of an unresolved message."""

    MANUAL = "manual"
    SCHEDULED = "scheduled"
    DEAD = "dead"


class Resolution(StrEnum):
    """The evidence on which a message became resolved."""

    CONFIRMED = "confirmed"
    PRESUMED = "presumed"
    BY_HAND = "by_hand"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureDetails:
    """What the failure headers of one message say, in no dialect any more.

    Times carry their offset; a time that the headers do not give is None and never compared.
    """

    queue: str
    destination: str
    endpoint: str | None = None
    message_type: str | None = None
    exception_type: str | None = None
    exception_message: str | None = None
    stack_trace: str | None = None
    failure_reason: str | None = None
    time_of_failure: datetime | None = None
    time_sent: datetime | None = None
    attempts_reported: int | None = None
    completed_steps: str | None = None
    stream_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failed message as it came off an error queue, understood but not yet stored.

    `stamped_id` is the unique message id its headers claim; `computed_id` the one that follows
    from message id and endpoint, None when it has no message id. `fingerprint` is the hash of
    properties (less the broker's counters) and body: equal for a redelivery of the same message.
    """

    stamped_id: str | None
    computed_id: str | None
    message_id: str | None
    retry_id: str | None
    dialect: str
    details: FailureDetails
    cause: Cause
    raw: bytes
    body: bytes
    body_hash: str
    fingerprint: str
    error_queue: str
    redelivered: bool
    received_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedImport:
    """A message that could not be understood or stored; its bytes are kept as they came."""

    error_queue: str
    reason: str
    raw: bytes
    body: bytes
    fingerprint: str
    received_at: datetime
    redelivered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """A consumer's word that the retry of a message succeeded (`ServiceControl.Retry.Successful`).

    `succeeded_at` is None when the header holds no readable time. `if_unknown` is what it is where
    no such message is stored, `if_idle` what it is where it changes nothing: None for one without
    content, with which nothing is lost.
    """

    unique_message_id: str
    succeeded_at: datetime | None
    received_at: datetime
    if_unknown: FailedImport
    if_idle: Failure | FailedImport | None = None
    redelivered: bool = False


Judged = Failure | Confirmation | FailedImport
"""What a message turns out to be whose stamps, if it has any, mean nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCopy:
    """A copy out of a staging queue, brought to an error queue by somebody's queue policy.

    `of_another` is the id of the installation that made it; None for this one.
    """

    staging_id: str
    unique_message_id: str | None
    error_queue: str
    of_another: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamped:
    """A message with stamps that only copies have; the database knows whether they are true.

    Anybody can write headers, so the stamps alone prove nothing.

    if_ours      what it is where we have made that staging id.
    if_unknown   what it is with our installation id and a staging id that we have not made.
    if_anothers  what it is with another installation's id.
    """

    installation_id: str
    staging_id: str
    if_ours: OwnCopy
    if_unknown: Judged
    if_anothers: Judged | OwnCopy


Received = Judged | OwnCopy | Stamped
"""What a delivery from an error queue turns out to be, as far as it says itself."""

Noteworthy = FailedImport | OwnCopy
"""What somebody should look at."""

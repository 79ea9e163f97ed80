"""A failed message, the failures seen of it, the states it can be in, and why these change."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

from retrier.domain.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """All failures that one classifier gives the same title."""

    group_id: str
    classifier: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What failures have in common that no classifier can tell apart.

    `fingerprint` is a hash of all other fields except `exception_message`. That one is taken from
    the first such failure.
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
    RETRY_ISSUED  it was staged: on its way, or sent and neither confirmed nor failed again. Until
                  then it keeps its claim, so that no second retry can start.
    RESOLVED      a confirmation, a presumption or a person says it is dealt with.
    ARCHIVED      a person set it aside.
    """

    UNRESOLVED = "unresolved"
    RETRY_ISSUED = "retry_issued"
    RESOLVED = "resolved"
    ARCHIVED = "archived"


class RetryEnd(StrEnum):
    """How a retry that had been sent, or may have been, ended."""

    FAILED = "failed"
    CONFIRMED = "confirmed"
    RESOLVED = "resolved"
    RELEASED = "released"
    REVERTED = "reverted"
    PRESUMED = "presumed"
    EDITED = "edited"


GIVEN_UP = (RetryEnd.PRESUMED, RetryEnd.RESOLVED, RetryEnd.RELEASED)
"""Ends of retries that were waited for no longer: what became of them may still be heard of."""


class Disposition(StrEnum):
    """What the retry policies decided about an unresolved message."""

    MANUAL = "manual"
    SCHEDULED = "scheduled"
    DEAD = "dead"


class LastWord(StrEnum):
    """What a person said of a message last, until they retry it or take it back."""

    DEAD = "dead"
    ARCHIVED = "archived"
    RESOLVED = "resolved"


class Resolution(StrEnum):
    """The evidence on which a message became resolved."""

    CONFIRMED = "confirmed"
    PRESUMED = "presumed"
    BY_HAND = "by_hand"
    EDITED = "edited"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureDetails:
    """What the failure headers of one message say, the same for all dialects.

    Times carry their offset; a time that the headers do not give is None. `crashes` and `rejected`
    are a worker's words: how often it crashed over the message, and why it gave the message up.
    `id_in_body` is the message id where the body has it, and no header. `stream_position` is the
    position that the sender states, as it is sorted; `stream_position_unread` what it states that
    is neither number nor time. `host` is the machine on which it failed, `host_id` the id that
    NServiceBus gives it, `process` the process there, and `node` what its library calls the one
    worker of several. They are no part of the
    endpoint: a container has another machine after each start.
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
    stream_position: str | None = None
    stream_position_unread: str | None = None
    crashes: int = 0
    rejected: str | None = None
    id_in_body: str | None = None
    host: str | None = None
    host_id: str | None = None
    process: str | None = None
    node: str | None = None


SenderFacts = Mapping[str, str]
"""What a sender said in the properties of its message, as texts by name; see `sender_facts`."""


class ReadsSenderFacts(Protocol):
    """Reads what senders said; `sender_facts.FactReader` is the one there is."""

    def facts(self, raw: bytes) -> SenderFacts | None:
        """Return the facts in raw properties; None if they cannot be read."""
        ...

    def task(self, raw: bytes, body: bytes) -> str | None:
        """Return what it asks for, if its library changes the body when it fails, else None."""
        ...

    def inside(self, raw: bytes, body: bytes, dialect: str) -> tuple[bytes, bytes] | None:
        """Return properties and body of what stands in an error envelope, else the same."""
        ...

    def patched(
        self, raw: bytes, body: bytes, dialect: str, patch: str
    ) -> tuple[bytes, bytes] | None:
        """Return properties and body as a patch makes them; None if it cannot be applied."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failed message as it came off an error queue, read but not yet stored.

    `stamped_id` is the unique message id in its headers; `computed_id` is computed from message
    id and endpoint, and None if it has no message id. `fingerprint` is the hash of
    properties (less the broker's counters) and body: equal for a redelivery of the same message.
    `logged_id` is the id in its headers if it may be a copy that was sent to the log queue.
    With `keeps_texts` the properties do not have exception message and stack trace, so that these
    are stored. `fields` are the values of declared fields; None where none is declared.
    `sender` reads what its sender said, of this and of the messages stored before.
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
    logged_id: str | None = None
    keeps_texts: bool = False
    fields: Mapping[str, str] | None = None
    sender: ReadsSenderFacts = field(compare=False, repr=False)


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
    """A consumer's report that a retry succeeded (header `ServiceControl.Retry.Successful`).

    `succeeded_at` is None if the header holds no readable time. `if_unknown` is stored instead if
    there is no such message. `if_idle` is stored instead if the confirmation changes nothing; it is
    None for one without content, because nothing is lost when that is dropped.
    """

    unique_message_id: str
    succeeded_at: datetime | None
    received_at: datetime
    if_unknown: FailedImport
    if_idle: Failure | FailedImport | None = None
    redelivered: bool = False


Judged = Failure | Confirmation | FailedImport
"""What a message is if its stamps are ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCopy:
    """A copy that a broker policy moved from a staging queue to an error queue.

    `of_another` is the id of the other installation that made it; None if this one made it.
    """

    staging_id: str
    unique_message_id: str | None
    error_queue: str
    of_another: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamped:
    """A message with stamps that only copies have. The store decides which case below it is.

    Anybody can write headers, so the stamps alone prove nothing (decision 0020).

    if_ours      this installation has made the staging id.
    if_unknown   it has our installation id, but a staging id that we have not made.
    if_anothers  it has the id of another installation.
    """

    installation_id: str
    staging_id: str
    if_ours: OwnCopy
    if_unknown: Judged
    if_anothers: Judged | OwnCopy


Received = Judged | OwnCopy | Stamped
"""What a delivery from an error queue is, as far as its own bytes show."""

Noteworthy = FailedImport | OwnCopy
"""What a person should look at."""


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
    EDITED      an edited version of it was sent in its place.
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
    EDITED = "edited"


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
        Move.EDITED: (_ISSUED, FailedMessageStatus.RESOLVED),
    }
)
"""For each move the statuses it may start from, and the one it leads to. A message that becomes
unresolved gets a new failure number, even if it was unresolved before."""

"""What one received batch of failures and confirmations changes, and what it is folded with."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime

from retrier.domain.decision import Known
from retrier.domain.failed_message import Confirmation, FailedImport, Failure, Noteworthy


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """What the fold and the store need of a failed message that has a row.

    `number` is None for one whose row the fold has just begun; `body_of` is the attempt that holds
    the body of the newest failure.
    """

    unique_message_id: str
    number: int | None = None
    body_of: int | None = None
    message_id: str | None
    body_hash: str
    last_retry_id: str | None
    known: Known


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A failure and the message it belongs to."""

    unique_message_id: str
    failure: Failure
    maybe_copy_of: str | None = None

    @property
    def shown_time(self) -> datetime:
        """When it failed, for people: the time of arrival stands in for a missing one."""
        return self.failure.details.time_of_failure or self.failure.received_at


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageChange:
    """What becomes of one message: all of the batch's attempts of it folded into one.

    `details` replaces the stored details and makes the message unresolved; `confirmation` makes
    it resolved. `claim_ends` says that whatever claim is in force goes. `first_failure` is the
    earliest of the attempts; `last_failure` is given where an attempt that replaced nothing was
    later than the details that stay.
    """

    unique_message_id: str
    is_new: bool
    attempts_added: int = 0
    first_failure: datetime | None = None
    last_failure: datetime | None = None
    details: Attempt | None = None
    confirmation: Confirmation | None = None
    claim_ends: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """All that one received batch changes, in order of arrival, and how the ledger counts it.

    `imports` are confirmations that confirm nothing.
    """

    attempts: tuple[Attempt, ...]
    changes: tuple[MessageChange, ...]
    imports: tuple[FailedImport, ...]
    new: int
    repeated: int
    redelivered: int
    confirmations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What one received batch came to.

    `counts` is what it added to the ledger, by entry. `confirmed` messages became resolved;
    `failed_again` came back from a retry. `noteworthy` is what somebody should look at.
    """

    receipt: Receipt
    counts: Mapping[str, int]
    confirmed: int
    failed_again: int
    noteworthy: Sequence[Noteworthy] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What the store knew before the batch.

    `stored` is keyed by unique message id; `seen` gives, for the fingerprint of a redelivered
    failure, the messages that have an attempt with it.
    """

    stored: Mapping[str, StoredMessage]
    seen: Mapping[str, AbstractSet[str]] = field(default_factory=dict)

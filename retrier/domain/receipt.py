"""What one received batch changes in the store, as values; `decision` decides, `folding` folds."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime

from retrier.domain.decision import Decided, Judgement
from retrier.domain.failed_message import (
    Confirmation,
    FailedImport,
    Failure,
    LastWord,
    Noteworthy,
)
from retrier.domain.last_word import Standing
from retrier.domain.new_failure import Known


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAttempt:
    """A stored failure of a message, as far as another one is compared with it."""

    raw: bytes
    queue: str
    destination: str
    endpoint: str | None
    message_type: str | None
    retry_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """What the fold and the store need of a failed message that has a row, or gets one in this batch.

    `number` is None for a message that is new in this batch; `body_of` is the number of the
    attempt that holds the body of the newest failure. `first` and `newest` are its first failure
    and the one that it shows. Of the retries that failures of the batch name, `issued` has those
    that were issued for the message and have ended, and `counted` those that `failure_count`
    counts; `outcomes` has the first failure under each of them, and `sent_to` the queues to which
    they may have been sent. `dropped` has, by retry, the headers that it went without. `decided` is what was decided about it. `body` is there only if a failure of the batch has another one and may be its own.
    """

    unique_message_id: str
    number: int | None = None
    body_of: int | None = None
    message_id: str | None
    maybe_copy_of: str | None = None
    body_hash: str
    last_retry_id: str | None
    known: Known
    failure_count: int = 0
    decided: Judgement | None = None
    issued: frozenset[str] = frozenset()
    counted: frozenset[str] = frozenset()
    first: StoredAttempt
    newest: StoredAttempt
    outcomes: Mapping[str, StoredAttempt] = field(default_factory=dict)
    sent_to: frozenset[str] = frozenset()
    dropped: Mapping[str, Sequence[str]] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A failure and its message; `maybe_copy_of` names one that may be the same after all.

    `derived_from` is the message whose stamps a new one carries. `failures` is the failure count
    of the message with it; None if it changes nothing. `standing` is how its message stood before;
    None if nothing of it can stand.
    """

    unique_message_id: str
    failure: Failure
    maybe_copy_of: str | None = None
    derived_from: str | None = None
    failures: int | None = None
    standing: Standing | None = None

    @property
    def word(self) -> LastWord | None:
        """A person's last word, which it leaves as it was."""
        return self.standing.word if self.standing else None

    @property
    def is_logged(self) -> bool:
        """Say whether it is the copy in the log queue that failed: another copy would circle.

        A header with another id is no proof: a consumer may write it on a message of its own.
        """
        logged_id = self.failure.logged_id
        has_id = self.failure.computed_id is not None
        return logged_id is not None and (logged_id == self.unique_message_id or not has_id)

    @property
    def shown_time(self) -> datetime:
        """The time of failure to show: the time of arrival if the headers give none."""
        return self.failure.details.time_of_failure or self.failure.received_at


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageChange:
    """How one batch changes one message: all its attempts and confirmations together.

    `details` replaces the stored details and makes the message unresolved; `confirmation` makes
    it resolved. `claim_ends` means that a claim in force is deleted. `first_failure` is the time
    of the earliest attempt. `last_failure` is the later time where an attempt is stored without
    replacing the details.
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
    """All changes of one received batch, in order of arrival, and the numbers for the ledger.

    `imports` are confirmations that become failed imports because they confirm nothing.
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
    """The result of storing one received batch.

    `counts` is what it added to the ledger, by entry. `confirmed` messages became resolved;
    `failed_again` came back after a retry. `noteworthy` is what a person should look at. `reasons`
    counts the failures by the reasons they were classified under; `decided` is what became of the
    messages that are unresolved now.
    """

    receipt: Receipt
    counts: Mapping[str, int]
    confirmed: int
    failed_again: int
    noteworthy: Sequence[Noteworthy] = ()
    reasons: Mapping[str, int] = field(default_factory=dict)
    decided: Sequence[Decided] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """The stored state before the batch, as far as the batch needs it.

    `stored` is keyed by unique message id; `seen` gives, for the fingerprint of a redelivered
    failure, the messages that have an attempt with it. `elsewhere` gives, for the fingerprint of
    one without a message id, a message that came with the same bytes on another error queue.
    `namesakes` gives, for one that names its node, open messages that have its message id, queue,
    type and body: a version that took the node for the endpoint stored them (decision 0068).
    """

    stored: Mapping[str, StoredMessage]
    seen: Mapping[str, AbstractSet[str]] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    namesakes: Mapping[str, Sequence[str]] = field(default_factory=dict)

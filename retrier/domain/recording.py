"""What one received batch changes in the store: its values, and what a failure may change.

What a person has declared dead, archived or resolved is theirs until they retry it or take it back.
Whatever runs by itself may store that it failed again, and nothing more.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from datetime import datetime
from enum import Enum

from retrier.domain.decision import Dead, Decided, Decision, Judgement, Manual
from retrier.domain.edits import EditedVersion
from retrier.domain.failed_message import (
    Confirmation,
    FailedImport,
    FailedMessageStatus,
    Failure,
    LastWord,
    Noteworthy,
    Resolution,
)
from retrier.domain.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The stored state of a message when a new failure or confirmation of it arrives.

    `claim` is the retry id of the claim in force. `last_failure` is None if the last failure has
    no time. `confirmed_at` is the time in the confirmation. `word` is what its row says of a
    person's last word; a retry ends it (`last_word`).
    """

    status: FailedMessageStatus
    claim: str | None
    last_failure: datetime | None
    resolution: Resolution | None
    confirmed_at: datetime | None
    word: LastWord | None = None

    @property
    def waits_for_outcome(self) -> bool:
        """Whether a confirmation of its retry is still news; one of a presumed retry is only late."""
        presumed = self.resolution is Resolution.PRESUMED
        return presumed or self.status is FailedMessageStatus.RETRY_ISSUED


class Verdict(Enum):
    """What a new failure does to the message.

    BECOMES_UNRESOLVED  a new failure: details replaced, a new failure number, any claim ends.
    ATTEMPT_ONLY        kept as an attempt; status, details and claim stay as they are.
    """

    BECOMES_UNRESOLVED = "becomes unresolved"
    ATTEMPT_ONLY = "attempt only"


def judge_failure(known: Known, *, retry_id: str | None, failed_at: datetime | None) -> Verdict:
    """Decide what a failure that is no redelivery does to the message.

    The retry id decides first. A failure with the retry id of the claim in force is the outcome of
    that retry, whatever its time is; a failure of another retry never ends that claim. Then the
    status: one whose retry was issued, or that a person put aside, is open again. Times decide last. With equal or missing times the message becomes unresolved: one that is open without need
    is seen by somebody, one that is closed by mistake is lost.
    """
    if known.claim is not None and retry_id is not None:
        same = retry_id == known.claim
        return Verdict.BECOMES_UNRESOLVED if same else Verdict.ATTEMPT_ONLY
    if known.status is FailedMessageStatus.RETRY_ISSUED or _was_set_aside_without_evidence(known):
        return Verdict.BECOMES_UNRESOLVED
    return _judge_by_time(known, failed_at)


def count_failure(before: int, *, counted: bool) -> int:
    """Return the failure count of a message that a failure makes unresolved, at least 1.

    `before` was its count; `counted` means that it counts the failure of this very retry already: a
    retry that a crash doubled fails twice, and its message must not be given up too early.
    """
    return max(1, before if counted else before + 1)


def confirmation_resolves(known: Known, *, succeeded_at: datetime | None) -> bool:
    """Say whether a confirmation resolves the message.

    One that waits for the outcome of its retry: always. An unresolved one: only if the success is
    later than the last failure, because an old confirmation must not hide a new failure.
    """
    if known.waits_for_outcome:
        return True
    if known.status is not FailedMessageStatus.UNRESOLVED:
        return False
    return (
        succeeded_at is not None
        and known.last_failure is not None
        and succeeded_at > known.last_failure
    )


def _was_set_aside_without_evidence(known: Known) -> bool:
    if known.status is FailedMessageStatus.RESOLVED:
        return known.resolution is not Resolution.CONFIRMED
    return known.status is FailedMessageStatus.ARCHIVED


def _judge_by_time(known: Known, failed_at: datetime | None) -> Verdict:
    # A confirmation came after the last failure, so only its time is compared: the clock of the
    # host that wrote that failure may be ahead.
    latest = known.confirmed_at or known.last_failure
    if failed_at is None or latest is None or failed_at >= latest:
        return Verdict.BECOMES_UNRESOLVED
    return Verdict.ATTEMPT_ONLY


class Stands(Enum):
    """What a failure that makes its message unresolved leaves as it was.

    NOTHING   the policies decide about it.
    DECISION  what was decided before stays: disposition, words, rule and time.
    WORD      the message is open again, and a person decides: nothing sends it by itself.
    """

    NOTHING = "nothing"
    DECISION = "the decision"
    WORD = "a person's word"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a message stood when it failed again.

    `is_copy` means that the failure is a second copy of a retry whose failure is counted. `of` names
    the message under whose retry another one came: then the word is about that message.
    """

    status: FailedMessageStatus
    word: LastWord | None = None
    is_copy: bool = False
    of: str | None = None


def last_word(known: Known) -> LastWord | None:
    """Return what a person said of a message last; None if they retried it or took it back since."""
    return None if known.status is FailedMessageStatus.RETRY_ISSUED else known.word


def what_stands(standing: Standing, decision: Decision) -> Stands:
    """Say what stands of a message about which this was decided before it failed again."""
    if standing.of is not None:
        return Stands.NOTHING if standing.word is None else Stands.WORD
    said = standing.word is not None or standing.is_copy
    if standing.status is not FailedMessageStatus.UNRESOLVED:
        return Stands.WORD if said else Stands.NOTHING
    return Stands.DECISION if said or _is_given_up(decision) else Stands.NOTHING


def _is_given_up(decision: Decision) -> bool:
    """Say whether nothing retries it by itself: it is dead, or a rule has left it to a person."""
    left = isinstance(decision, Manual) and decision.policy is not None
    return left or isinstance(decision, Dead)


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
    they may have been sent. `dropped` has, by retry, the headers that it went without, and `patches`
    the patch by which it was changed: then `sent` has the properties and the body that it makes of what the message shows.
    `edited_under` has the retries under which an edited version went out in its place. `decided` is what was decided about it. `body` is there only if a failure of the batch has another one and may be its own.
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
    patches: Mapping[str, str] = field(default_factory=dict)
    sent: Mapping[str, tuple[bytes, bytes]] = field(default_factory=dict)
    edited_under: frozenset[str] = frozenset()
    body: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A failure and its message; `maybe_copy_of` names one that may be the same after all.

    `derived_from` is the message whose stamps a new one carries, and `edit_of` the one of which a
    new one is an edited version. `failures` is the failure count
    of the message with it; None if it changes nothing. `standing` is how its message stood before;
    None if nothing of it can stand.
    """

    unique_message_id: str
    failure: Failure
    maybe_copy_of: str | None = None
    derived_from: str | None = None
    edit_of: str | None = None
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
    `versions` gives, for the retry that a failure names, the edit that was sent under it.
    """

    stored: Mapping[str, StoredMessage]
    seen: Mapping[str, AbstractSet[str]] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    namesakes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    versions: Mapping[str, EditedVersion] = field(default_factory=dict)

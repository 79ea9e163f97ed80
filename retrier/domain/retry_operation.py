"""Retry operations: a request with a cursor over what it selects; its plan, pace and steering."""

import json
import re
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta
from enum import IntEnum, StrEnum
from hashlib import sha256
from itertools import accumulate, pairwise
from typing import assert_never

from retrier.domain.approval import Approval, ApprovalTerms
from retrier.domain.outcomes import OutcomeCounts, RetryOutcome, outcomes_to_show
from retrier.domain.selection import Selection, bounds_of, chosen_parts
from retrier.domain.values import dataclass

SMALL_SELECTION = 100
"""A request that names at most this many ids overtakes bulk operations."""


class RetryType(StrEnum):
    """What kind of request made the operation (ServiceControl: RetryType)."""

    SINGLE_MESSAGE = "single_message"
    MULTIPLE_MESSAGES = "multiple_messages"
    FAILURE_GROUP = "failure_group"
    ALL_FOR_ENDPOINT = "all_for_endpoint"
    BY_QUEUE_ADDRESS = "by_queue_address"
    ALL = "all"
    BY_POLICY = "by_policy"
    EDIT = "edit"


STANDING_OPERATION = "00000000-0000-0000-0000-000000000001"
"""The id of the one operation that sends what is due by policy; it is never completed."""


class RetryOperationState(StrEnum):
    """How far an operation is.

    WAITING     no batch has been cut from it yet.
    PREPARING   its first batch is being marked or staged.
    FORWARDING  a batch of it has reached Forwarding; its next batch may be cut already.
    PAUSED      a person stopped it; no further batch is cut.
    COMPLETED   the last cut found no message, and none of its batches is left.
    CANCELLED   a person ended it.
    """

    WAITING = "waiting"
    PREPARING = "preparing"
    FORWARDING = "forwarding"
    PAUSED = "paused"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


OPEN_STATES = frozenset(
    {RetryOperationState.WAITING, RetryOperationState.PREPARING, RetryOperationState.FORWARDING}
)
"""States in which the processor may cut the next batch."""

ALIVE = OPEN_STATES | {RetryOperationState.PAUSED}
"""States of an operation that is neither completed nor cancelled."""


def name_skipped(state: str) -> str:
    """Return the word for what an operation in this state has not sent, and will not.

    "Skipped" says that somebody or another retry has dealt with a message. What a cancel stopped stays
    unresolved.
    """
    return "not sent" if state == RetryOperationState.CANCELLED else "skipped"


class Priority(IntEnum):
    """The order of cuts: single messages and short lists, then what is due by policy, then bulk."""

    SMALL = 0
    POLICY = 1
    BULK = 2


class CanaryState(StrEnum):
    """How far the first messages of an operation are, which are sent alone.

    SENDING  they are being sent; nothing else of the operation is.
    WAITING  they are sent, and the operation waits for those that come back.
    PASSED   few enough came back: the operation goes on.
    FAILED   too many came back: the operation is paused; who resumes it lets the rest go.
    """

    SENDING = "sending"
    WAITING = "waiting"
    PASSED = "passed"
    FAILED = "failed"


MOST_MESSAGES = 10_000_000
"""The largest limit of an operation."""

LARGEST_CANARY = 1000
"""Messages that are sent first at most: they are one batch."""

YEAR = timedelta(days=366)
"""How far ahead an operation may begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """Send the first `size` messages alone, wait, and go on if at most `most_back` came back."""

    size: int
    wait: timedelta = timedelta(seconds=60)
    most_back: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCanary:
    """The canary of an operation as stored: what was asked for, and how far it is."""

    size: int
    wait: timedelta
    most_back: int
    state: CanaryState


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryTerms:
    """How the messages of a request are to be sent; each part may be left open.

    `limit` messages at most, the first ones by failure number. All to `destination`, without
    redirects, and without the headers that fit `drop_headers`. Each as the `patch` makes it, a text
    that `patches.read_patch` reads. Not before `not_before`, or not before a `delay` is over, counted from the request by
    the database's clock. At most `rate` messages a second.
    """

    limit: int | None = None
    destination: str | None = None
    not_before: datetime | None = None
    delay: timedelta | None = None
    rate: int | None = None
    canary: Canary | None = None
    drop_headers: tuple[str, ...] = ()
    patch: str | None = None


def hash_patch(patch: str) -> str:
    """Return the hash of a patch: equal for equal texts."""
    return sha256(patch.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRequest:
    """A request for retries; one transaction turns it into an operation with a fixed cut-off.

    `cut_off` is that of a preview, so that only what it counted is sent; None means now.
    """

    retry_type: RetryType
    selection: Selection
    originator: str
    requested_by: str
    why: str | None = None
    idempotency_key: str | None = None
    terms: RetryTerms = RetryTerms()
    cut_off: int | None = None
    approval: ApprovalTerms | None = None

    @property
    def priority(self) -> Priority:
        """Where the operation stands in the queue for the next cut."""
        ids = self.selection.ids
        small = ids is not None and len(ids) <= SMALL_SELECTION
        return Priority.SMALL if small else Priority.BULK


_TYPES = {
    (): RetryType.ALL,
    ("group",): RetryType.FAILURE_GROUP,
    ("endpoint",): RetryType.ALL_FOR_ENDPOINT,
    ("queue",): RetryType.BY_QUEUE_ADDRESS,
}


def type_of(selection: Selection) -> RetryType:
    """Return what kind of request a selection makes; several conditions are multiple messages."""
    if selection.ids is not None and len(selection.ids) == 1:
        return RetryType.SINGLE_MESSAGE
    if selection.ids is not None:
        return RetryType.MULTIPLE_MESSAGES
    return _TYPES.get(tuple(chosen_parts(selection)), RetryType.MULTIPLE_MESSAGES)


def hash_request(request: RetryRequest) -> str:
    """Return the hash of everything that was asked for, without who asked and under which key.

    Two requests with the same hash ask for the same.
    """
    terms, canary = request.terms, request.terms.canary
    asked = {
        "type": request.retry_type,
        "originator": request.originator,
        "ids": None if request.selection.ids is None else sorted(set(request.selection.ids)),
        "parts": {**chosen_parts(request.selection), **bounds_of(request.selection)},
        "why": request.why,
        "limit": terms.limit,
        "destination": terms.destination,
        "not_before": None if terms.not_before is None else terms.not_before.isoformat(),
        "delay": None if terms.delay is None else terms.delay.total_seconds(),
        "rate": terms.rate,
        "canary": canary and [canary.size, canary.wait.total_seconds(), canary.most_back],
        "cut_off": request.cut_off,
    }
    if terms.drop_headers:  # else the hash is that of a version that knew none
        asked["drop_headers"] = sorted(set(terms.drop_headers))
    if terms.patch is not None:
        asked["patch"] = terms.patch
    return sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOperation:
    """One retry operation as stored; it is kept when its batches are deleted.

    `dead_left_out` counts the dead messages that matched when it was asked for, and that were not
    asked for.
    """

    operation_id: str
    retry_type: RetryType
    selection: Selection
    cut_off: int
    floor: int
    originator: str
    requested_by: str
    why: str | None
    priority: Priority
    state: RetryOperationState
    total: int
    forwarded: int
    skipped: int
    failed: int
    batches: int
    left_out: int
    limit: int | None
    destination: str | None
    rate: int | None
    cancel_asked: bool
    passed_over: bool
    look_again_at: datetime | None
    reason: str | None
    not_before: datetime | None
    next_cut: datetime | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    acknowledged_at: datetime | None
    modified_at: datetime
    canary: RunningCanary | None = None
    dead_left_out: int = 0
    drop_headers: tuple[str, ...] = ()
    patch: str | None = None
    outcomes: OutcomeCounts = field(default_factory=OutcomeCounts)
    approval: Approval | None = None

    @property
    def is_asking(self) -> bool:
        """Whether it waits for approval by a second person."""
        return self.approval is not None and self.approval.is_asked

    @property
    def waiting(self) -> int:
        """Retries that were sent and have no outcome yet."""
        return self.forwarded - self.outcomes.total

    @property
    def is_well(self) -> bool | None:
        """Whether it has done what was asked: not cancelled, and no message failed or came back.

        None: not known yet, as it is not over, or a retry has no outcome yet.
        """
        is_cancelled = self.state is RetryOperationState.CANCELLED
        if is_cancelled or self.failed or self.outcomes.came_back:
            return False
        return None if self.waiting or self.completed_at is None else True

    @property
    def outcomes_shown(self) -> Mapping[RetryOutcome, int]:
        """What people are shown of what became of its retries; the sum is `forwarded`, if all are known."""
        counts = {**self.outcomes.by_outcome, RetryOutcome.WAITING: self.waiting}
        return outcomes_to_show(counts)

    @property
    def is_standing(self) -> bool:
        """Whether it is the one that sends what is due by policy, and is never completed."""
        return self.operation_id == STANDING_OPERATION

    @property
    def sent(self) -> int:
        """Messages forwarded or failed: those that count for the limit and for the canary."""
        return self.forwarded + self.failed

    @property
    def remaining(self) -> int:
        """Messages neither forwarded, skipped nor failed yet.

        With a limit, others are taken for those that are skipped, until the operation is over.
        """
        skipped = 0 if self.limit is not None and self.completed_at is None else self.skipped
        return max(0, self.total - self.sent - skipped)


LATENESS = timedelta(milliseconds=50)
"""How much of a delay the following cuts catch up: no more, or a second might exceed the rate."""


def next_cut(due: datetime | None, now: datetime, taken: int, rate: int) -> datetime:
    """Return when an operation may be cut again that has just taken so many messages.

    `due` is when this cut was due. Counted from there, a delay of a few milliseconds per cut does
    not add up to a lower rate. A long delay is not caught up. A due time that has not come says that
    the clock was set back: it is not counted from there, or each cut would wait for that hour.
    """
    begun = now if due is None or due > now + LATENESS else max(due, now - LATENESS)
    return begun + timedelta(seconds=taken / rate)


def may_go_on(canary: RunningCanary, came_back: int) -> bool:
    """Say whether an operation goes on after so many of its first messages came back."""
    return came_back <= canary.most_back


LOOK_AGAIN = timedelta(seconds=1)
"""Until a canary is judged again that could not be judged yet."""
BEFORE_THE_VERDICT = "its first messages are not judged yet: "


def verdict_timeout(canary: RunningCanary) -> timedelta:
    """Return how long after its wait a canary may stay without a verdict before a person decides."""
    return max(10 * canary.wait, timedelta(minutes=10))


def describe_canary(sent: int, came_back: int) -> str:
    """Say how many of the first messages came back: "3 of 20 came back"."""
    return f"{came_back} of {sent} came back"


HIGHEST_RATE = 100_000
"""Messages a second that an operation may be limited to, at most."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Cut nothing more off the operation; the batch that is alive is finished."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on with a paused operation where it stood."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """End the operation: nothing of it that is not stamped yet is sent."""


@dataclass(frozen=True, slots=True)
class SetRate:
    """Send at most `rate` messages a second from now on; None lifts the limit."""

    rate: int | None


Order = Pause | Resume | Cancel | SetRate
"""What a person may ask of an operation that runs."""


class SteeringRefusal(StrEnum):
    """Why an order is not carried out."""

    UNKNOWN = "no operation has this id"
    COMPLETED = "it is completed: all of it is done"
    CANCELLED = "it was cancelled"
    STANDING = "it sends what is due by policy, and never ends"
    NOT_APPROVED = "it waits for approval by a second person"


@dataclass(frozen=True, slots=True, kw_only=True)
class Steered:
    """Which operation got the order, and whether that changed it: one may be repeated."""

    operation_id: str
    changed: bool


def refuse(
    order: Order,
    state: RetryOperationState,
    *,
    cancel_asked: bool,
    standing: bool = False,
    asking: bool = False,
) -> SteeringRefusal | None:
    """Return why an operation in this state cannot take the order; None if it can.

    To cancel once more is no mistake: the first answer may have been lost. The standing operation
    cannot be cancelled: nothing would begin it anew. One that is `asking` for approval is paused, and
    only a second person lets it go; what would pause it would be lost then.
    """
    if asking and isinstance(order, Pause | Resume):
        return SteeringRefusal.NOT_APPROVED
    if standing and isinstance(order, Cancel):
        return SteeringRefusal.STANDING
    if state is RetryOperationState.COMPLETED:
        return SteeringRefusal.COMPLETED
    if isinstance(order, Cancel):
        return None
    ended = cancel_asked or state is RetryOperationState.CANCELLED
    return SteeringRefusal.CANCELLED if ended else None


def is_done(
    order: Order, state: RetryOperationState, *, cancel_asked: bool, rate: int | None
) -> bool:
    """Say whether the order is carried out already, so that nothing has to change."""
    match order:
        case Pause():
            return state is RetryOperationState.PAUSED
        case Resume():
            return state is not RetryOperationState.PAUSED
        case Cancel():
            return cancel_asked or state is RetryOperationState.CANCELLED
        case SetRate(wanted):
            return rate == wanted
        case _ as never:
            assert_never(never)


LONGEST = 60_000
"""Characters of a token at most; nearly all have less than 200."""

MOST_NUMBERS = 10_000
"""Numbers that a plan can hold; with more there, it cannot say exactly what was counted."""

RETRY = "retry"
RETRY_AGAIN = "retry again"
READ_AGAIN = "read again"
RELEASE = "release"
"""Acts of which a plan can be, beside those of message_actions."""

OF_ANOTHER = "The plan is of another act, or of another selection"
INEXACT = (
    f"The plan cannot say exactly which messages were counted: more than {MOST_NUMBERS:,} of them "
    "would have to be named"
)

_DIGEST = re.compile(r"[0-9a-f]{64}")
_LARGEST = 2**63
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a preview counted.

    `subject` is the hash of the act and of its selection. All that came to match up to the number
    `counted_to` was seen, and nothing later: failures, archives, recorded sends and failed imports
    take their numbers from one counter. `at` is the time of the preview, for ages. `cut_off` is the
    failure number of the last message that was counted, which a limit makes lower than
    `counted_to`. `total` is how many were counted.

    `numbers` are failure numbers: of a retry those below the cut-off that another retry had
    claimed, and that were not counted; of a stream those that are to be released. None: too many.
    """

    subject: str
    counted_to: int
    cut_off: int
    total: int
    at: datetime
    numbers: tuple[int, ...] | None = ()

    @property
    def token(self) -> str:
        """The plan as an opaque text, for an address or JSON."""
        at = (self.at - _EPOCH) // _MICROSECOND
        parts = f"{self.subject}.{self.counted_to}.{self.cut_off}.{self.total}.{at}."
        packed = b"-" if self.numbers is None else _pack(self.numbers)
        return urlsafe_b64encode(parts.encode() + packed).decode().rstrip("=")


def read_plan(token: str) -> Plan | None:
    """Return the plan of a token; None if it is no token."""
    if len(token) > LONGEST:
        return None
    try:
        padded = token + "=" * (-len(token) % 4)
        subject, *fields, packed = urlsafe_b64decode(padded.encode()).split(b".", 5)
        counted_to, cut_off, total, at = (int(each) for each in fields)
        numbers = None if packed == b"-" else _unpack(packed)
        digest, when = subject.decode(), _EPOCH + at * _MICROSECOND
    except (ValueError, OverflowError, zlib.error):
        return None
    known = (counted_to, cut_off, total, at, *(numbers or ()))
    if not _DIGEST.fullmatch(digest) or not all(0 <= each < _LARGEST for each in known):
        return None
    return Plan(
        subject=digest,
        counted_to=counted_to,
        cut_off=cut_off,
        total=total,
        at=when,
        numbers=numbers,
    )


def hash_subject(act: str, selection: Selection, *more: str) -> str:
    """Return the hash of an act and its selection: equal for equal ones, in any order of their ids.

    `more` is what else says what was asked for, such as an age, which is another time each moment.
    """
    ids = None if selection.ids is None else sorted(set(selection.ids))
    parts: dict[str, object] = dict(chosen_parts(selection))
    if selection.pending:
        parts["pending"] = selection.sent_to or True
    if selection.modified is not None:
        parts["modified"] = [each.isoformat() for each in selection.modified]
    return _hash({"act": act, "ids": ids, "parts": parts, "more": more})


def hash_retry(request: RetryRequest) -> str:
    """Return the hash of a retry and its selection; of one with a patch also of the patch.

    A plan says what the patch makes of the messages: with another one it is the plan of another.
    """
    patch = request.terms.patch
    more = () if patch is None else (hash_patch(patch),)
    return hash_subject(RETRY, request.selection, *more)


def hash_words(act: str, *words: str) -> str:
    """Return the hash of an act on something that is no selection of messages."""
    return _hash({"act": act, "words": words})


def _hash(subject: dict[str, object]) -> str:
    return sha256(json.dumps(subject, sort_keys=True).encode()).hexdigest()


def as_counted(selection: Selection, plan: Plan) -> Selection:
    """Return a selection without what came to match it after the preview; named ids as they are."""
    if selection.ids is not None:
        return selection
    return replace(selection, counted_to=plan.counted_to)


def within(request: RetryRequest, plan: Plan) -> RetryRequest:
    """Bound a request by an exact plan: it takes what was counted, and nothing else.

    Of one that counted nothing the cut-off is bound enough: a limit is at least 1.
    """
    limit = min(request.terms.limit or plan.total, plan.total) or request.terms.limit
    selection = as_counted(request.selection, plan)
    if selection.ids is None:
        selection = replace(selection, passed_over=plan.numbers or ())
    terms = replace(request.terms, limit=limit)
    return replace(request, selection=selection, cut_off=plan.cut_off, terms=terms)


def hold_numbers(numbers: Sequence[int]) -> tuple[int, ...] | None:
    """Return the numbers as a plan holds them, ascending; None if there are too many."""
    return tuple(sorted(numbers)) if len(numbers) <= MOST_NUMBERS else None


def _pack(numbers: Iterable[int]) -> bytes:
    steps = (after - before for before, after in pairwise((0, *numbers)))
    text = " ".join(map(str, steps))
    return zlib.compress(text.encode(), 9) if text else b""


def _unpack(packed: bytes) -> tuple[int, ...]:
    """Unpack numbers; no more bytes than an honest token has. Raises ValueError, zlib.error."""
    if not packed:
        return ()
    reader = zlib.decompressobj()
    text = reader.decompress(packed, MOST_NUMBERS * 20)
    if not reader.eof:
        raise ValueError("it is longer than any plan")
    numbers = tuple(accumulate(int(each) for each in text.split()))
    if len(numbers) > MOST_NUMBERS:
        raise ValueError("it has more numbers than any plan")
    return numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedAgain:
    """The operations created to retry pending retries again, and the number of their messages."""

    operation_ids: tuple[str, ...]
    total: int
    is_asking: bool = False

"""Folds a received batch in memory: which message each failure belongs to, and what it changes.

A false split is seen by a person: the message is there twice. A false merge loses work in silence:
only the newest of two messages is ever sent back. So whatever does not agree is another message.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from retrier.domain.failed_message import (
    Confirmation,
    FailedImport,
    FailedMessageStatus,
    Failure,
    LastWord,
    Resolution,
    SenderFacts,
)
from retrier.domain.headers import is_among
from retrier.domain.identity import body_hash, canonical, with_all, with_body
from retrier.domain.recording import (
    Attempt,
    Before,
    Known,
    MessageChange,
    Receipt,
    Standing,
    StoredAttempt,
    StoredMessage,
    Verdict,
    confirmation_resolves,
    count_failure,
    judge_failure,
    last_word,
)
from retrier.domain.sender_facts import digest, is_field
from retrier.domain.text import clean
from retrier.domain.values import dataclass


class Whose(Enum):
    """What a failure is to a stored message whose id it has, or whose stamps it carries."""

    OUTCOME = "the outcome of a retry"
    AGAIN = "the same message again"
    ANOTHER = "another message"


class RetryNamed(Enum):
    """Which retry a failure names, as seen from a stored message.

    IN_FORCE  that of its claim: its outcome is awaited.
    OLDER     one that was issued for it and has its outcome already, or that the failure says so
              of and nobody remembers: a database may have been restored from a backup.
    ITS_ORIGIN  not one of its own, but that under which its own first failure came.
    OF_AN_EDIT  that under which an edited version of it went out: another message.
    FOREIGN   none of these: that of another message.
    """

    IN_FORCE = "in force"
    OLDER = "older"
    ITS_ORIGIN = "its origin"
    NONE = "none"
    OF_AN_EDIT = "of an edit"
    FOREIGN = "foreign"


class Comparison(Enum):
    """How the facts of the sender compare.

    ADDED means that all that was stored is there with its value, and something more. UNSAID means
    the same of the headers, but fields of AMQP are missing: whoever parks a message by hand copies
    its headers, and often nothing else.
    """

    EQUAL = "equal"
    ADDED = "added"
    UNSAID = "unsaid"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """How a failure compares with a stored message: all that decides whose failure it is."""

    retry: RetryNamed
    same_id: bool
    same_place: bool
    same_body: bool
    said: Comparison


def whose(likeness: Likeness) -> Whose:
    """Decide whose failure it is.

    The message id is no part of an outcome: middleware renews it. The place is no part of the
    first outcome: a retry may be sent to another queue, or its consumer forwards it. A second
    failure under one retry is its double only at the same place.
    """
    kept = likeness.same_body and likeness.said is not Comparison.CHANGED
    match likeness.retry:
        case RetryNamed.IN_FORCE:
            return Whose.OUTCOME if kept else Whose.ANOTHER
        case RetryNamed.OLDER:
            return Whose.OUTCOME if kept and likeness.same_place else Whose.ANOTHER
        case RetryNamed.NONE | RetryNamed.ITS_ORIGIN:
            equal = likeness.same_body and likeness.said is Comparison.EQUAL
            same = likeness.same_id and likeness.same_place and equal
            return Whose.AGAIN if same else Whose.ANOTHER
        case RetryNamed.OF_AN_EDIT | RetryNamed.FOREIGN:
            return Whose.ANOTHER


def compare(failure: Failure, stored: StoredMessage) -> Likeness:
    """Compare a failure with a stored message.

    A double of an older retry has what that retry was sent with, which may be less than what the
    newest failure has: it is compared with earlier failures as well. Its place is that of the first
    failure under the same retry, if there is one, else also where that retry may have been sent.
    """
    retry = retry_named(failure, stored)
    before = [stored.newest] if retry is RetryNamed.IN_FORCE else [stored.newest, stored.first]
    outcome = stored.outcomes.get(failure.retry_id or "")
    places = before if outcome is None else [outcome]
    sent_there = retry is RetryNamed.OLDER and failure.details.queue in stored.sent_to
    dropped = stored.dropped.get(failure.retry_id or "", ())
    said = {_compare_facts(failure, each, dropped) for each in {*before, *places}}
    return Likeness(
        retry=retry,
        same_id=stored.message_id == message_id_of(failure),
        same_place=any(is_same_place(failure, each, retry) for each in places)
        or (outcome is None and sent_there),
        same_body=has_same_body(failure, stored),
        said=next(each for each in Comparison if each in said),
    )


def belongs(failure: Failure, stored: StoredMessage) -> bool:
    """Say whether it is a failure of the stored message.

    A retry in force that was patched was sent as the patch has made it, and not as it is stored. Of
    one that is over it may be either: what is stored may have come back from it.
    """
    patched = _as_sent(failure, stored) if stored.sent else None
    if patched is not None and whose(compare(*patched)) is not Whose.ANOTHER:
        return True
    if patched is not None and retry_named(failure, stored) is RetryNamed.IN_FORCE:
        return False
    return whose(compare(failure, stored)) is not Whose.ANOTHER


def _as_sent(failure: Failure, stored: StoredMessage) -> tuple[Failure, StoredMessage] | None:
    """Return both as the retry that the failure names was sent, if that was patched.

    Of an error envelope it is what stands in it: that was sent.
    """
    sent = stored.sent.get(failure.retry_id or "")
    came = failure.sender.inside(failure.raw, failure.body, failure.dialect) if sent else None
    if sent is None or came is None:
        return None
    newest = replace(stored.newest, raw=sent[0])
    return (
        replace(failure, raw=came[0], body=came[1], body_hash=body_hash(came[1])),
        replace(stored, first=newest, newest=newest, body=sent[1], body_hash=body_hash(sent[1])),
    )


def retry_named(failure: Failure, stored: StoredMessage) -> RetryNamed:
    """Say which retry the failure names, as seen from the stored message."""
    retry_id = failure.retry_id
    if retry_id is None:
        return RetryNamed.NONE
    if retry_id in stored.edited_under:
        return RetryNamed.OF_AN_EDIT
    if retry_id == stored.known.claim:
        return RetryNamed.IN_FORCE
    if retry_id == stored.last_retry_id or retry_id in stored.issued:
        return RetryNamed.OLDER
    if retry_id == stored.first.retry_id:
        return RetryNamed.ITS_ORIGIN
    stamped = failure.stamped_id == stored.unique_message_id
    return RetryNamed.OLDER if stamped else RetryNamed.FOREIGN


def is_same_place(failure: Failure, attempt: StoredAttempt, retry: RetryNamed) -> bool:
    """Say whether it failed on the same queue, in the same endpoint.

    What names a retry of the message is there once on that queue, whoever takes it: the queue alone
    says it. The application may have another name than when the message was stored (decision 0068).
    """
    details = failure.details
    same_name = retry is RetryNamed.OLDER or attempt.endpoint == details.endpoint
    return attempt.queue == details.queue and same_name


def has_same_body(failure: Failure, stored: StoredMessage) -> bool:
    """Say whether the body is the same, apart from what its library changes when it fails."""
    if stored.body_hash == failure.body_hash:
        return True
    if stored.body is None:
        return False
    task = failure.sender.task(failure.raw, failure.body)
    return task is not None and task == failure.sender.task(stored.newest.raw, stored.body)


def may_be_copy(failure: Failure, stored: StoredMessage) -> bool:
    """Say whether another message may all the same be this one: a person should look at both."""
    likeness = compare(failure, stored)
    same = likeness.same_id and likeness.same_place and likeness.same_body
    kind = failure.cause.message_type == stored.newest.message_type
    return same and kind and likeness.retry is RetryNamed.NONE


def resolves(confirmation: Confirmation, stored: StoredMessage) -> bool:
    """Say whether it resolves the message; with content only one that waits for an outcome.

    Anybody can write the header: the content would be lost, and a failure hidden (decision 0020).
    One that has failed elsewhere meanwhile is not resolved: its consumer may have sent it there,
    and confirms what it had been sent itself.
    """
    known = stored.known
    with_content = confirmation.if_idle is not None
    if with_content and not known.waits_for_outcome:
        return False
    elsewhere = stored.newest.queue != stored.first.queue
    if elsewhere and known.status is FailedMessageStatus.UNRESOLVED:
        return False
    return confirmation_resolves(known, succeeded_at=confirmation.succeeded_at)


def is_confirmed_by(confirmation: Confirmation, stored: StoredMessage) -> bool:
    """Say whether a confirmation with the same time has resolved the message before."""
    confirmed = stored.known.resolution is Resolution.CONFIRMED
    return confirmed and stored.known.confirmed_at == confirmation.succeeded_at


def message_id_of(failure: Failure) -> str | None:
    """Return the message id as its column holds it."""
    return clean(failure.message_id) if failure.message_id else None


def _compare_facts(failure: Failure, stored: StoredAttempt, dropped: Sequence[str]) -> Comparison:
    """Compare what the sender said, without the headers that the retry went without."""
    if failure.raw == stored.raw:
        return Comparison.EQUAL
    now, before = (
        _without(dropped, failure.sender.facts(raw)) for raw in (failure.raw, stored.raw)
    )
    return _compare(now, before)


def _without(dropped: Sequence[str], facts: SenderFacts | None) -> SenderFacts | None:
    if not dropped or facts is None:
        return facts
    return {name: value for name, value in facts.items() if not is_among(name, dropped)}


def _compare(now: SenderFacts | None, before: SenderFacts | None) -> Comparison:
    """Compare facts; what cannot be read may have changed."""
    if now is None or before is None:
        return Comparison.CHANGED
    if now == before:
        return Comparison.EQUAL
    if now.items() >= before.items():
        return Comparison.ADDED
    lost = before.keys() - now.keys()
    kept = {name: value for name, value in before.items() if name not in lost}
    only_fields = all(is_field(name) for name in lost)
    return Comparison.UNSAID if only_fields and now.items() >= kept.items() else Comparison.CHANGED


def candidate_ids(failure: Failure) -> tuple[str, ...]:
    """Return every unique message id that the failure may get."""
    return (*named_ids(failure), *ids_apart(failure))


def named_ids(failure: Failure) -> tuple[str, ...]:
    """Return the ids that do not depend on its content: the stamped one and the computed one."""
    return tuple([each for each in (failure.stamped_id, failure.computed_id) if each])


def ids_apart(failure: Failure) -> tuple[str, ...]:
    """Return the ids it gets if another message has the computed one: with the body, with all."""
    base = failure.computed_id
    if base is None:
        return ()
    said = digest(failure.sender.facts(failure.raw) or {})
    place = (failure.details.queue, failure.details.endpoint or "", failure.retry_id or "")
    return (
        with_body(base, failure.body_hash),
        with_all(base, failure.message_id or "", failure.body_hash, said, *place),
    )


class _Identity(NamedTuple):
    """The unique message id; None for a new message without any id. And whose stamps it carries."""

    unique_id: str | None
    origin: StoredMessage | None = None


def fold(
    failures: Iterable[Failure],
    confirmations: Iterable[Confirmation],
    before: Before,
    new_id: Callable[[], str],
) -> Receipt:
    """Fold a batch in order, failures first: a failure and its confirmation leave it resolved."""
    folding = _Folding(before, new_id)
    for failure in failures:
        folding.add_failure(failure)
    for confirmation in confirmations:
        folding.add_confirmation(confirmation)
    return folding.receipt()


class _Folding:
    """The state of one fold: the messages as they will be stored, and the changes so far."""

    def __init__(self, before: Before, new_id: Callable[[], str]) -> None:
        self._stored = dict(before.stored)
        self._fresh: dict[str, Attempt] = {}
        """The first failures of messages that are new: nearly all have no second one here."""
        self._seen = before.seen
        self._elsewhere = before.elsewhere
        self._namesakes = before.namesakes
        self._versions = before.versions
        self._new_id = new_id
        self._attempts: list[Attempt] = []
        self._changes: dict[str, MessageChange] = {}
        self._imports: list[FailedImport] = []
        self._new = self._redelivered = self._confirmations = 0

    def receipt(self) -> Receipt:
        return Receipt(
            attempts=tuple(self._attempts),
            changes=tuple(self._changes.values()),
            imports=tuple(self._imports),
            new=self._new,
            repeated=len(self._attempts) - self._new,
            redelivered=self._redelivered,
            confirmations=self._confirmations,
        )

    def add_failure(self, failure: Failure) -> None:
        # Only a redelivery can be stored already: equal bytes without that flag are a new failure.
        copies = self._seen.get(failure.fingerprint) if failure.redelivered else None
        if copies and not copies.isdisjoint(candidate_ids(failure)):
            self._redelivered += 1
            return
        identity = self._identify(failure)
        unique_id = identity.unique_id or self._new_id()
        stored = self._find(unique_id)
        origin = identity.origin if stored is None else None
        failures = _inherited(origin, failure) if stored is None else _count(stored, failure)
        attempt = Attempt(
            unique_message_id=unique_id,
            failure=failure,
            maybe_copy_of=self._may_be_copy_of(failure, identity, copies or ())
            if stored is None
            else _stays_copy_of(stored),
            derived_from=origin.unique_message_id if origin else None,
            edit_of=self._edit_of(failure) if stored is None and self._versions else None,
            failures=failures,
            standing=_stood_before(stored or origin, failure, is_other=stored is None)
            if failures is not None
            else None,
        )
        self._attempts.append(attempt)
        if stored is None:
            self._add_message(attempt)
        else:
            self._add_attempt(stored, attempt)

    def _edit_of(self, failure: Failure) -> str | None:
        """Return the message of which a new one is an edited version.

        A consumer may copy the retry id to what it sends itself: that has neither id nor body.
        """
        version = self._versions.get(canonical(failure.retry_id or ""))
        if version is None:
            return None
        same = failure.message_id == version.message_id or failure.body_hash == version.body_hash
        return version.of if same else None

    def _may_be_copy_of(
        self, failure: Failure, identity: _Identity, copies: Collection[str]
    ) -> str | None:
        """Return a message that a new one may be after all: a person should look at both."""
        if identity.unique_id is None:
            return min(copies) if copies else self._elsewhere.get(failure.fingerprint)
        if identity.unique_id == failure.computed_id:
            alike = self._namesakes.get(failure.fingerprint, ())
            return next((each for each in alike if each != identity.unique_id), None)
        if failure.computed_id is None:
            return None
        first = self._find(failure.computed_id)
        return first.unique_message_id if first and may_be_copy(failure, first) else None

    def add_confirmation(self, confirmation: Confirmation) -> None:
        stored = self._find(confirmation.unique_message_id)
        if stored is None:
            self._imports.append(confirmation.if_unknown)
            return
        if not resolves(confirmation, stored):
            self._add_idle(confirmation, stored)
            return
        self._confirmations += 1
        change = self._change(stored.unique_message_id)
        self._put(replace(change, confirmation=confirmation, claim_ends=True))
        if stored.known.claim is not None:
            stored = replace(stored, issued=stored.issued | {stored.known.claim})
        self._remember(
            stored,
            status=FailedMessageStatus.RESOLVED,
            claim=None,
            resolution=Resolution.CONFIRMED,
            confirmed_at=confirmation.succeeded_at,
        )

    def _add_idle(self, confirmation: Confirmation, stored: StoredMessage) -> None:
        """Take a confirmation that changes nothing: store its `if_idle`, or only count it."""
        came_again = confirmation.redelivered and is_confirmed_by(confirmation, stored)
        match confirmation.if_idle:
            case Failure() as failure if not came_again:
                self.add_failure(failure)
            case FailedImport() as kept if not came_again:
                self._imports.append(kept)
            case _:
                self._confirmations += 1

    def _identify(self, failure: Failure) -> _Identity:
        """Find the message that a failure is of, or the id of a new one.

        Middleware copies headers to new messages and publishers reuse message ids. So an id is
        used only if the failure belongs to the stored message that has it.
        """
        origin = None
        if failure.stamped_id:
            stored = self._find(failure.stamped_id)
            if stored is None or belongs(failure, stored):
                return _Identity(failure.stamped_id)
            origin = stored
        if failure.computed_id is None:
            return _Identity(None, origin)
        stored = self._find(failure.computed_id)
        if stored is None or belongs(failure, stored):
            return _Identity(failure.computed_id, origin)
        body_id, last = ids_apart(failure)
        stored = self._find(body_id)
        free = stored is None or belongs(failure, stored)
        return _Identity(body_id if free else last, origin)

    def _add_message(self, attempt: Attempt) -> None:
        self._new += 1
        unique_id = attempt.unique_message_id
        self._put(
            MessageChange(
                unique_message_id=unique_id,
                is_new=True,
                attempts_added=1,
                first_failure=attempt.shown_time,
                details=attempt,
            )
        )
        self._fresh[unique_id] = attempt

    def _find(self, unique_id: str) -> StoredMessage | None:
        """Return the message with that id, as it is stored, or as this batch has made it."""
        found = self._stored.get(unique_id)
        if found is None and unique_id in self._fresh:
            found = self._stored[unique_id] = _as_message(self._fresh[unique_id])
        return found

    def _add_attempt(self, stored: StoredMessage, attempt: Attempt) -> None:
        failure = attempt.failure
        change = _with_attempt(self._change(stored.unique_message_id), attempt)
        if attempt.failures is None:
            latest = _later(stored.known.last_failure, failure.details.time_of_failure)
            self._put(replace(change, last_failure=latest))
            self._remember(stored, last_failure=latest)
            return
        self._put(replace(change, details=attempt, confirmation=None, claim_ends=True))
        self._stored[stored.unique_message_id] = replace(
            stored,
            known=_freshly_failed(failure, attempt.word),
            message_id=message_id_of(failure),
            maybe_copy_of=attempt.maybe_copy_of,
            body_hash=failure.body_hash,
            failure_count=attempt.failures,
            issued=stored.issued | _counted(failure, stored.known.claim),
            counted=stored.counted | _counted(failure, stored.known.claim),
            newest=as_stored(failure),
            outcomes=_outcome(failure) | dict(stored.outcomes),
            body=failure.body,
        )

    def _change(self, unique_id: str) -> MessageChange:
        return self._changes.get(unique_id) or MessageChange(
            unique_message_id=unique_id, is_new=False
        )

    def _put(self, change: MessageChange) -> None:
        self._changes[change.unique_message_id] = change

    def _remember(self, stored: StoredMessage, **known: object) -> None:
        self._stored[stored.unique_message_id] = replace(
            stored,
            known=replace(stored.known, **known),  # type: ignore[arg-type] # fields of Known
        )


def _stays_copy_of(stored: StoredMessage) -> str | None:
    """Return what a message that fails again may be a copy of: a person who retried it has decided."""
    issued = stored.known.status is FailedMessageStatus.RETRY_ISSUED
    return None if issued else stored.maybe_copy_of


def _as_message(attempt: Attempt) -> StoredMessage:
    """Return a message that is new in this batch as it will be stored."""
    failure, shown = attempt.failure, as_stored(attempt.failure)
    return StoredMessage(
        unique_message_id=attempt.unique_message_id,
        message_id=message_id_of(failure),
        maybe_copy_of=attempt.maybe_copy_of,
        body_hash=failure.body_hash,
        last_retry_id=None,
        known=_freshly_failed(failure, attempt.word),
        failure_count=attempt.failures or 1,
        counted=_counted(failure),
        first=shown,
        newest=shown,
        body=failure.body,
    )


def _outcome(failure: Failure) -> dict[str, StoredAttempt]:
    """Return what a failure says of the retry that it names, by its id."""
    return {} if failure.retry_id is None else {failure.retry_id: as_stored(failure)}


def _inherited(origin: StoredMessage | None, failure: Failure) -> int:
    """Return the failure count of a new message: that of the retry under which it came, and one.

    A consumer that changes what it was sent, each time, would else be retried without end.
    """
    if origin is None or not _came_under_retry(origin, failure):
        return 1
    return count_failure(origin.failure_count, counted=failure.retry_id in origin.counted)


def _came_under_retry(origin: StoredMessage, failure: Failure) -> bool:
    """Say whether another message, which names this one, came under a retry of it."""
    return failure.retry_id is not None or origin.known.waits_for_outcome


def _stood_before(
    stored: StoredMessage | None, failure: Failure, *, is_other: bool
) -> Standing | None:
    """Return how a message stood that fails again, or under whose retry an other one has come."""
    if stored is None:
        return None
    known, word = stored.known, last_word(stored.known)
    if not is_other:
        is_copy = failure.retry_id in stored.counted
        return Standing(status=known.status, word=word, is_copy=is_copy)
    if word is None or not _came_under_retry(stored, failure):
        return None
    return Standing(status=known.status, word=word, of=stored.unique_message_id)


def as_stored(failure: Failure) -> StoredAttempt:
    """Return a failure as it is compared with later ones."""
    return StoredAttempt(
        raw=failure.raw,
        queue=failure.details.queue,
        destination=failure.details.destination,
        endpoint=failure.details.endpoint,
        message_type=failure.details.message_type,
        retry_id=failure.retry_id,
    )


def _count(stored: StoredMessage, failure: Failure) -> int | None:
    """Return the failure count of the message with this failure; None if it changes nothing."""
    failed_at, retry_id = failure.details.time_of_failure, failure.retry_id
    verdict = judge_failure(stored.known, retry_id=retry_id, failed_at=failed_at)
    if verdict is Verdict.ATTEMPT_ONLY:
        return None
    return count_failure(stored.failure_count, counted=retry_id in stored.counted)


def _counted(failure: Failure, claim: str | None = None) -> frozenset[str]:
    """Return the retries that a failure counts: its own, and the claim that it ends."""
    if failure.retry_id is None and claim is None:
        return frozenset()  # made once by Python: nearly all failures are new
    return frozenset(each for each in (failure.retry_id, claim) if each is not None)


def _with_attempt(change: MessageChange, attempt: Attempt) -> MessageChange:
    earliest = min(change.first_failure or attempt.shown_time, attempt.shown_time)
    return replace(change, attempts_added=change.attempts_added + 1, first_failure=earliest)


def _later(last_failure: datetime | None, failed_at: datetime | None) -> datetime | None:
    """Return the later time; None if the last failure has none."""
    return last_failure and max(last_failure, failed_at or last_failure)


def _freshly_failed(failure: Failure, word: LastWord | None) -> Known:
    return Known(
        status=FailedMessageStatus.UNRESOLVED,
        claim=None,
        last_failure=failure.details.time_of_failure,
        resolution=None,
        confirmed_at=None,
        word=word,
    )

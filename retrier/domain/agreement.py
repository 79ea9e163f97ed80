"""Whose failure it is: the outcome of a retry, the same message again, or another message.

A false split is seen by a person: the message is there twice. A false merge loses work in silence:
only the newest of two messages is ever sent back. So whatever does not agree is another message.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from retrier.domain.failed_message import (
    Confirmation,
    FailedMessageStatus,
    Failure,
    Resolution,
    SenderFacts,
)
from retrier.domain.header_patterns import is_among
from retrier.domain.new_failure import confirmation_resolves
from retrier.domain.receipt import StoredAttempt, StoredMessage
from retrier.domain.sender_facts import is_field
from retrier.domain.text import clean


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
    FOREIGN   none of these: that of another message.
    """

    IN_FORCE = "in force"
    OLDER = "older"
    ITS_ORIGIN = "its origin"
    NONE = "none"
    FOREIGN = "foreign"


class Said(Enum):
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
    said: Said


def whose(likeness: Likeness) -> Whose:
    """Decide whose failure it is.

    The message id is no part of an outcome: middleware renews it. The place is no part of the
    first outcome: a retry may be sent to another queue, or its consumer forwards it. A second
    failure under one retry is its double only at the same place.
    """
    kept = likeness.same_body and likeness.said is not Said.CHANGED
    match likeness.retry:
        case RetryNamed.IN_FORCE:
            return Whose.OUTCOME if kept else Whose.ANOTHER
        case RetryNamed.OLDER:
            return Whose.OUTCOME if kept and likeness.same_place else Whose.ANOTHER
        case RetryNamed.NONE | RetryNamed.ITS_ORIGIN:
            equal = likeness.same_body and likeness.said is Said.EQUAL
            same = likeness.same_id and likeness.same_place and equal
            return Whose.AGAIN if same else Whose.ANOTHER
        case RetryNamed.FOREIGN:
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
        said=next(each for each in Said if each in said),
    )


def belongs(failure: Failure, stored: StoredMessage) -> bool:
    """Say whether it is a failure of the stored message."""
    return whose(compare(failure, stored)) is not Whose.ANOTHER


def retry_named(failure: Failure, stored: StoredMessage) -> RetryNamed:
    """Say which retry the failure names, as seen from the stored message."""
    retry_id = failure.retry_id
    if retry_id is None:
        return RetryNamed.NONE
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


def _compare_facts(failure: Failure, stored: StoredAttempt, dropped: Sequence[str]) -> Said:
    """Compare what the sender said, without the headers that the retry went without."""
    if failure.raw == stored.raw:
        return Said.EQUAL
    now, before = (
        _without(dropped, failure.sender.facts(raw)) for raw in (failure.raw, stored.raw)
    )
    return _compare(now, before)


def _without(dropped: Sequence[str], facts: SenderFacts | None) -> SenderFacts | None:
    if not dropped or facts is None:
        return facts
    return {name: value for name, value in facts.items() if not is_among(name, dropped)}


def _compare(now: SenderFacts | None, before: SenderFacts | None) -> Said:
    """Compare facts; what cannot be read may have changed."""
    if now is None or before is None:
        return Said.CHANGED
    if now == before:
        return Said.EQUAL
    if now.items() >= before.items():
        return Said.ADDED
    lost = before.keys() - now.keys()
    kept = {name: value for name, value in before.items() if name not in lost}
    only_fields = all(is_field(name) for name in lost)
    return Said.UNSAID if only_fields and now.items() >= kept.items() else Said.CHANGED

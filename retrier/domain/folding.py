"""Folds a received batch in memory: which message each failure belongs to, and what it changes."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime

from retrier.domain.failed_message import (
    Confirmation,
    FailedImport,
    FailedMessageStatus,
    Failure,
    Resolution,
)
from retrier.domain.identity import with_body
from retrier.domain.new_failure import Known, Verdict, confirmation_resolves, judge_failure
from retrier.domain.receipt import Attempt, Before, MessageChange, Receipt, StoredMessage
from retrier.domain.text import clean


def candidate_ids(failure: Failure) -> tuple[str, ...]:
    """Return every unique message id that the failure may get."""
    last = id_with_body(failure)
    return (*named_ids(failure), last) if last else named_ids(failure)


def named_ids(failure: Failure) -> tuple[str, ...]:
    """Return the ids that do not depend on its body: the stamped one and the computed one."""
    return tuple([each for each in (failure.stamped_id, failure.computed_id) if each])


def id_with_body(failure: Failure) -> str | None:
    """Return the id it gets if a message with another body has the computed id already."""
    return failure.computed_id and with_body(failure.computed_id, failure.body_hash)


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
        self._seen = before.seen
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
        unique_id = self._identify(failure)
        attempt = Attempt(
            unique_message_id=unique_id or self._new_id(),
            failure=failure,
            maybe_copy_of=min(copies) if copies and unique_id is None else None,
        )
        self._attempts.append(attempt)
        stored = self._stored.get(attempt.unique_message_id)
        if stored is None:
            self._add_message(attempt)
        else:
            self._add_attempt(stored, attempt)

    def add_confirmation(self, confirmation: Confirmation) -> None:
        stored = self._stored.get(confirmation.unique_message_id)
        if stored is None:
            self._imports.append(confirmation.if_unknown)
            return
        if not _resolves(confirmation, stored):
            self._add_idle(confirmation, stored)
            return
        self._confirmations += 1
        change = self._change(stored.unique_message_id)
        self._put(replace(change, confirmation=confirmation, claim_ends=True))
        self._remember(
            stored,
            status=FailedMessageStatus.RESOLVED,
            claim=None,
            resolution=Resolution.CONFIRMED,
            confirmed_at=confirmation.succeeded_at,
        )

    def _add_idle(self, confirmation: Confirmation, stored: StoredMessage) -> None:
        """Take a confirmation that changes nothing: store its `if_idle`, or only count it."""
        came_again = confirmation.redelivered and _is_confirmed_by(confirmation, stored)
        match confirmation.if_idle:
            case Failure() as failure if not came_again:
                self.add_failure(failure)
            case FailedImport() as kept if not came_again:
                self._imports.append(kept)
            case _:
                self._confirmations += 1

    def _identify(self, failure: Failure) -> str | None:
        """Return the unique message id; None for a failure without any id.

        Middleware copies headers to new messages and publishers reuse message ids. So an id is
        used only if the failure agrees with the stored message that has it.
        """
        if failure.stamped_id and self._may_be(failure.stamped_id, failure):
            return failure.stamped_id
        if failure.computed_id is None or self._may_be(failure.computed_id, failure):
            return failure.computed_id
        return with_body(failure.computed_id, failure.body_hash)

    def _may_be(self, unique_id: str, failure: Failure) -> bool:
        stored = self._stored.get(unique_id)
        return stored is None or _agrees(failure, stored)

    def _add_message(self, attempt: Attempt) -> None:
        self._new += 1
        failure = attempt.failure
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
        self._stored[unique_id] = StoredMessage(
            unique_message_id=unique_id,
            message_id=_message_id(failure),
            body_hash=failure.body_hash,
            last_retry_id=None,
            known=_freshly_failed(failure),
        )

    def _add_attempt(self, stored: StoredMessage, attempt: Attempt) -> None:
        failure = attempt.failure
        failed_at = failure.details.time_of_failure
        change = _with_attempt(self._change(stored.unique_message_id), attempt)
        verdict = judge_failure(stored.known, retry_id=failure.retry_id, failed_at=failed_at)
        match verdict:
            case Verdict.ATTEMPT_ONLY:
                latest = _later(stored.known.last_failure, failed_at)
                self._put(replace(change, last_failure=latest))
                self._remember(stored, last_failure=latest)
            case Verdict.BECOMES_UNRESOLVED:
                self._put(replace(change, details=attempt, confirmation=None, claim_ends=True))
                self._stored[stored.unique_message_id] = replace(
                    stored, known=_freshly_failed(failure), body_hash=failure.body_hash
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


def _agrees(failure: Failure, stored: StoredMessage) -> bool:
    """Say whether a failure with the id of a stored message can be a failure of that message.

    With another body the retry id must match: that of the claim in force, or of the last retry if
    the failure has a message id, too. A consumer may copy one message's headers to all it sends.
    """
    if stored.message_id != _message_id(failure):
        return False
    if stored.body_hash == failure.body_hash:
        return True
    if failure.retry_id is None:
        return False
    known = failure.retry_id == stored.last_retry_id and failure.message_id is not None
    return known or failure.retry_id == stored.known.claim


def _resolves(confirmation: Confirmation, stored: StoredMessage) -> bool:
    """Say whether it resolves the message; with content only one that waits for an outcome.

    Anybody can write the header: the content would be lost, and a failure hidden (decision 0020).
    """
    with_content = confirmation.if_idle is not None
    if with_content and not stored.known.waits_for_outcome:
        return False
    return confirmation_resolves(stored.known, succeeded_at=confirmation.succeeded_at)


def _is_confirmed_by(confirmation: Confirmation, stored: StoredMessage) -> bool:
    """Say whether a confirmation with the same time has resolved the message before."""
    confirmed = stored.known.resolution is Resolution.CONFIRMED
    return confirmed and stored.known.confirmed_at == confirmation.succeeded_at


def _message_id(failure: Failure) -> str | None:
    """Return the message id as its column holds it."""
    return clean(failure.message_id) if failure.message_id else None


def _with_attempt(change: MessageChange, attempt: Attempt) -> MessageChange:
    earliest = min(change.first_failure or attempt.shown_time, attempt.shown_time)
    return replace(change, attempts_added=change.attempts_added + 1, first_failure=earliest)


def _later(last_failure: datetime | None, failed_at: datetime | None) -> datetime | None:
    """Return the later time; None if the last failure has none."""
    return last_failure and max(last_failure, failed_at or last_failure)


def _freshly_failed(failure: Failure) -> Known:
    return Known(
        status=FailedMessageStatus.UNRESOLVED,
        claim=None,
        last_failure=failure.details.time_of_failure,
        resolution=None,
        confirmed_at=None,
    )

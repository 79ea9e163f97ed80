"""What one received batch of failures and confirmations changes: folded in memory, stored at once."""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from retrier.domain.failed_message import (
    Confirmation,
    FailedMessageStatus,
    Failure,
    Resolution,
)
from retrier.domain.identity import with_body
from retrier.domain.judgement import Known, Verdict, confirmation_resolves, judge_failure


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """What the fold needs of a failed message that has a row."""

    unique_message_id: str
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageChange:
    """What becomes of one message: all of the batch's attempts of it folded into one.

    `details` replaces the stored details and makes the message unresolved; `confirmation` makes
    it resolved. `claim_ends` says that whatever claim is in force goes.
    """

    unique_message_id: str
    is_new: bool
    attempts_added: int = 0
    details: Attempt | None = None
    confirmation: Confirmation | None = None
    claim_ends: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """All that one received batch changes, in order of arrival, and how the ledger counts it."""

    attempts: tuple[Attempt, ...]
    changes: tuple[MessageChange, ...]
    new: int
    repeated: int
    redelivered: int
    confirmations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What the store knew before the batch.

    `stored` is keyed by unique message id; `seen` gives, for the fingerprint of a redelivered
    failure, the messages that have an attempt with it.
    """

    stored: Mapping[str, StoredMessage]
    seen: Mapping[str, AbstractSet[str]] = field(default_factory=dict)


def candidate_ids(failure: Failure) -> tuple[str, ...]:
    """Return every unique message id the failure may turn out to have."""
    ids = [failure.stamped_id] if failure.stamped_id else []
    if failure.computed_id:
        ids += [failure.computed_id, with_body(failure.computed_id, failure.body_hash)]
    return tuple(ids)


def fold(
    failures: Iterable[Failure],
    confirmations: Iterable[Confirmation],
    before: Before,
    new_id: Callable[[], str],
) -> Receipt:
    """Fold a received batch, in order, failures first: a failure and its later success resolve."""
    folding = _Folding(before, new_id)
    for failure in failures:
        folding.add_failure(failure)
    for confirmation in confirmations:
        folding.add_confirmation(confirmation)
    return folding.receipt()


class _Folding:
    """The state of one fold: the stored messages as they will be, and the changes so far."""

    def __init__(self, before: Before, new_id: Callable[[], str]) -> None:
        self._stored = dict(before.stored)
        self._seen = before.seen
        self._new_id = new_id
        self._attempts: list[Attempt] = []
        self._changes: dict[str, MessageChange] = {}
        self._new = self._redelivered = self._confirmations = 0

    def receipt(self) -> Receipt:
        return Receipt(
            attempts=tuple(self._attempts),
            changes=tuple(self._changes.values()),
            new=self._new,
            repeated=len(self._attempts) - self._new,
            redelivered=self._redelivered,
            confirmations=self._confirmations,
        )

    def add_failure(self, failure: Failure) -> None:
        unique_id = self._identify(failure)
        copies = self._seen.get(failure.fingerprint, frozenset())
        if unique_id in copies:
            self._redelivered += 1
            return
        without_id = unique_id is None
        maybe_copy_of = min(copies) if without_id and copies else None
        attempt = Attempt(
            unique_message_id=unique_id or self._new_id(),
            failure=failure,
            maybe_copy_of=maybe_copy_of,
        )
        self._attempts.append(attempt)
        stored = self._stored.get(attempt.unique_message_id)
        if stored is None:
            self._add_message(attempt)
        else:
            self._add_attempt(stored, attempt)

    def add_confirmation(self, confirmation: Confirmation) -> None:
        self._confirmations += 1
        stored = self._stored.get(confirmation.unique_message_id)
        if stored is None or not confirmation_resolves(
            stored.known, succeeded_at=confirmation.succeeded_at
        ):
            return
        change = self._change(stored.unique_message_id)
        self._put(replace(change, confirmation=confirmation, claim_ends=True))
        self._remember(
            stored,
            status=FailedMessageStatus.RESOLVED,
            claim=None,
            resolution=Resolution.CONFIRMED,
            confirmed_at=confirmation.succeeded_at,
        )

    def _identify(self, failure: Failure) -> str | None:
        """Return the unique message id; None for a message that has none to go by.

        Middleware copies headers to new messages, so a stamped id is believed only where it
        agrees with the row. Publishers reuse message ids, so an equal id with another body is
        another message, unless the retry id says otherwise.
        """
        if failure.stamped_id and self._agrees(failure.stamped_id, failure):
            return failure.stamped_id
        if failure.computed_id is None:
            return None
        stored = self._stored.get(failure.computed_id)
        if stored is None or stored.body_hash == failure.body_hash:
            return failure.computed_id
        ours = failure.retry_id is not None and failure.retry_id in (
            stored.known.claim,
            stored.last_retry_id,
        )
        return failure.computed_id if ours else with_body(failure.computed_id, failure.body_hash)

    def _agrees(self, stamped_id: str, failure: Failure) -> bool:
        stored = self._stored.get(stamped_id)
        return stored is None or stored.message_id == failure.message_id

    def _add_message(self, attempt: Attempt) -> None:
        self._new += 1
        failure = attempt.failure
        unique_id = attempt.unique_message_id
        self._put(
            MessageChange(
                unique_message_id=unique_id, is_new=True, attempts_added=1, details=attempt
            )
        )
        self._stored[unique_id] = StoredMessage(
            unique_message_id=unique_id,
            message_id=failure.message_id,
            body_hash=failure.body_hash,
            last_retry_id=None,
            known=_freshly_failed(failure),
        )

    def _add_attempt(self, stored: StoredMessage, attempt: Attempt) -> None:
        failure = attempt.failure
        change = self._change(stored.unique_message_id)
        change = replace(change, attempts_added=change.attempts_added + 1)
        verdict = judge_failure(
            stored.known, retry_id=failure.retry_id, failed_at=failure.details.time_of_failure
        )
        match verdict:
            case Verdict.ATTEMPT_ONLY:
                self._put(change)
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
            known=replace(stored.known, **known),  # type: ignore[arg-type] # names are Known's own
        )


def _freshly_failed(failure: Failure) -> Known:
    return Known(
        status=FailedMessageStatus.UNRESOLVED,
        claim=None,
        last_failure=failure.details.time_of_failure,
        resolution=None,
        confirmed_at=None,
    )

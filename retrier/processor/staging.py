"""Staging: a batch's copies go into the staging queue under a new staging id."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import uuid4

from retrier.domain.copies import Stamps, make_end_marker, make_staged, why_not_sendable
from retrier.domain.retry_batch import ClaimedMessage, Ejected, RetryBatch, StagedCopies
from retrier.domain.wire import (
    ChannelClosed,
    Confirmed,
    Outcome,
    Outgoing,
    Refused,
    Returned,
    Unknown,
    UnreadableProperties,
)
from retrier.errors import BrokerUnavailable, QueueSilent
from retrier.processor.crash_points import CrashPoint
from retrier.processor.surroundings import Surroundings
from retrier.processor.watcher import Stage
from retrier.store.verbs.installing import record_staging_ids
from retrier.store.verbs.staging import back_off_batch, begin_forwarding, load_claimed

_WAITS = (0.5, 1, 2, 5, 10)
"""Seconds a batch waits after each failure of the broker in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    message: ClaimedMessage
    outgoing: Outgoing


@dataclass(slots=True)
class _Attempt:
    """One staging attempt while it runs."""

    staged: list[int] = field(default_factory=list)
    ejected: list[Ejected] = field(default_factory=list)

    def eject(self, message: ClaimedMessage, reason: str) -> None:
        number, unique_id = message.number, message.unique_message_id
        self.ejected.append(Ejected(number=number, unique_message_id=unique_id, reason=reason))


class Staging:
    """Stages one batch at a time; tells which one it moved into Forwarding."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._failures = 0
        self.staged_batch_id: str | None = None
        """The batch this process staged last: it is forwarded in counting mode."""

    def run_once(self, batch: RetryBatch) -> None:
        """Stage this batch. A broker that is down ejects nobody."""
        around = self._around
        began = around.clock.monotonic()
        try:
            self._stage(batch)
        except BrokerUnavailable as error:
            if isinstance(error, QueueSilent):
                self._failures = 0  # the broker is back, and the queue is about to be
            self._back_off(batch, str(error))
            raise
        self._failures = 0
        if batch.stage_attempts == 0:
            # Staged anew because nothing came back, it is no nearer to its end than before.
            around.progress.made()
        around.watcher.passed(Stage.STAGING, around.clock.monotonic() - began)

    def forget(self) -> None:
        """Forget which batch was staged here: after an error it is forwarded non-counting."""
        self.staged_batch_id = None

    def _stage(self, batch: RetryBatch) -> None:
        around = self._around
        staging_id = str(uuid4())
        publisher = around.broker.publisher
        around.crash_point(CrashPoint.STAGING_CONNECTED)
        around.lease.ensure_fresh()
        # With no batch in Forwarding nothing in it is wanted: leftovers of attempts that never
        # committed, which must not pile up against a length limit.
        around.broker.queues.purge(around.retries.staging_queue)
        around.crash_point(CrashPoint.STAGING_PURGED)
        attempt = _Attempt()
        copies: list[_Copy] = []
        claimed = load_claimed(around.db, batch.batch_id)
        around.lease.ensure_fresh()
        # The probes' as well: they must be known for as long as any of them can lie somewhere.
        ids = [staging_id, around.retries.session_id]
        record_staging_ids(around.db, around.lease.fence, ids)
        around.crash_point(CrashPoint.STAGING_ID_RECORDED)
        # Not in windows, as in forwarding: what lies in the staging queue before the commit does
        # no harm, so nothing has to be waited for in between.
        outgoing = self._make_copies(claimed, staging_id, attempt, copies)
        outcomes = publisher.publish(outgoing, around.lease.check)
        self._settle(copies, outcomes, attempt)
        around.crash_point(CrashPoint.STAGING_PUBLISHED)
        self._commit(batch, staging_id, attempt)

    def _commit(self, batch: RetryBatch, staging_id: str, attempt: _Attempt) -> None:
        around = self._around
        copies = StagedCopies(
            staging_id=staging_id,
            numbers=tuple(attempt.staged),
            ejected=tuple(attempt.ejected),
        )
        count = begin_forwarding(around.db, around.lease.fence, batch, copies)
        self.staged_batch_id = batch.batch_id
        around.crash_point(CrashPoint.STAGING_COMMITTED)
        around.watcher.ejected(copies.ejected)
        around.say(
            "batch.staged",
            batch_id=batch.batch_id,
            operation_id=batch.operation_id,
            staging_id=staging_id,
            size=count,
        )
        self._say_ejected(batch, attempt)

    def _say_ejected(self, batch: RetryBatch, attempt: _Attempt) -> None:
        """Tell of what was ejected in one line for each reason, with one message for example."""
        counts = Counter(item.reason for item in attempt.ejected)
        examples = {item.reason: item for item in reversed(attempt.ejected)}
        for reason, count in counts.items():
            self._around.say(
                "message.ejected",
                unique_message_id=examples[reason].unique_message_id,
                count=count,
                batch_id=batch.batch_id,
                operation_id=batch.operation_id,
                reason=reason,
            )

    def _make_copies(
        self,
        claimed: Sequence[ClaimedMessage],
        staging_id: str,
        attempt: _Attempt,
        copies: list[_Copy],
    ) -> Iterator[Outgoing]:
        """Yield the copies and note them; one that cannot be made never reaches the broker."""
        stamps = self._make_stamps(staging_id)
        for message in claimed:
            copy = self._make_copy(message, stamps)
            if isinstance(copy, str):
                attempt.eject(message, copy)
                continue
            copies.append(copy)
            yield copy.outgoing
            if len(copies) % self._around.retries.window == 0:
                self._around.crash_point(CrashPoint.STAGING_SENT)

    def _make_copy(self, message: ClaimedMessage, stamps: Stamps) -> _Copy | str:
        """Return the copy, or the reason why there can be none."""
        retries = self._around.retries
        transport = self._around.broker.transport
        reason = why_not_sendable(message.destination, retries.closed_to_retries)
        if reason is not None:
            return reason
        ingested = retries.error_queues
        # A queue that is ingested no more would keep the confirmation to itself.
        known = message.error_queue in ingested or not ingested
        acknowledgements = message.error_queue if known else ingested[0]
        try:
            raw = make_staged(transport.codec, message, stamps, acknowledgements)
        except UnreadableProperties as error:
            return f"its stored properties cannot be read: {error}"
        outgoing = Outgoing(queue=retries.staging_queue, raw=raw, body=b"")
        return _Copy(message=message, outgoing=outgoing)

    def _make_stamps(self, staging_id: str) -> Stamps:
        around = self._around
        return Stamps(
            staging_id=staging_id,
            installation_id=around.retries.installation_id,
            own_user=around.broker.transport.user,
        )

    def _settle(
        self, window: Sequence[_Copy], outcomes: Sequence[Outcome], attempt: _Attempt
    ) -> None:
        """Sort the window's outcomes; what shares a window with a refusal is sent one by one."""
        doubtful = [
            copy
            for copy, outcome in zip(window, outcomes, strict=True)
            if not self._is_staged(copy, outcome, attempt)
        ]
        for copy in doubtful:
            reason = self._send_alone(copy, attempt)
            if reason is not None:
                self._prove_that_others_pass(reason)
                attempt.eject(copy.message, reason)

    def _is_staged(self, copy: _Copy, outcome: Outcome, attempt: _Attempt) -> bool:
        match outcome:
            case Confirmed():
                attempt.staged.append(copy.message.number)
                return True
            case Refused() | ChannelClosed():
                return False
            case Returned(reason):
                raise BrokerUnavailable(f"the staging queue is gone: {reason}")
            case Unknown(reason):
                raise BrokerUnavailable(reason)

    def _send_alone(self, copy: _Copy, attempt: _Attempt) -> str | None:
        """Send one copy by itself; return the broker's words if it is the guilty one."""
        around = self._around
        around.lease.ensure_fresh()
        (outcome,) = around.broker.publisher.publish([copy.outgoing], around.lease.check)
        around.crash_point(CrashPoint.STAGING_SENT_ALONE)
        if self._is_staged(copy, outcome, attempt):
            return None
        return outcome.reason if isinstance(outcome, Refused | ChannelClosed) else None

    def _prove_that_others_pass(self, reason: str) -> None:
        """Send a copy that nobody asks for: if the queue refuses that too, no message is to blame.

        A queue at its length limit, or one we may not publish to, ejects nobody. Raises
        BrokerUnavailable.
        """
        around = self._around
        codec = around.broker.transport.codec
        stamps = self._make_stamps(around.retries.session_id)
        raw = make_end_marker(codec, stamps, nonce="probe")
        probe = Outgoing(queue=around.retries.staging_queue, raw=raw, body=b"")
        around.lease.ensure_fresh()
        (outcome,) = around.broker.publisher.publish([probe], around.lease.check)
        around.crash_point(CrashPoint.STAGING_SENT_ALONE)
        if not isinstance(outcome, Confirmed):
            raise BrokerUnavailable(f"the staging queue takes no copies: {reason}")

    def _back_off(self, batch: RetryBatch, reason: str) -> None:
        around = self._around
        wait = _WAITS[min(self._failures, len(_WAITS) - 1)]
        self._failures += 1
        back_off_batch(
            around.db,
            around.lease.fence,
            batch.batch_id,
            wait=timedelta(seconds=wait),
            reason=reason,
        )
        around.crash_point(CrashPoint.STAGING_BACKED_OFF)

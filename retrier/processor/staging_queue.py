"""The staging queue: deleted when needed; copies for it, and the messages to send that copies name."""

from dataclasses import replace
from uuid import uuid4

from retrier.domain.copies import (
    SendingTerms,
    StagedCopy,
    Stamps,
    make_end_marker,
    make_forwarded,
    make_probe,
    make_staged,
    why_not_sendable,
    without_envelope,
)
from retrier.domain.patches import PatchRefused, WrongPatch, patch_message, read_patch
from retrier.domain.retry_batch import ClaimedMessage, Ejected, StoredOriginal
from retrier.domain.values import dataclass
from retrier.domain.wire import Outgoing, UnreadableProperties
from retrier.errors import (
    BrokerUnavailable,
    DatabaseUnavailable,
    QueueSilent,
    StagingQueueUnusable,
)
from retrier.events.event import Emit
from retrier.events.processor import StagingIdsRecorded, StagingQueueDeleted, StagingQueueRenewed
from retrier.processor.lease import Lease
from retrier.processor.stage_context import RetryParameters, StageContext
from retrier.store.engine.database import Database
from retrier.store.upkeep import record_staging_ids
from retrier.transport.seam import Transport

MOST_RENEWALS = 3
PERIOD = 3600.0


@dataclass(frozen=True, slots=True)
class Renewals:
    """When the staging queue was deleted because it did not answer, in monotonic seconds.

    At most three times an hour: on a slow disk the new queue is as silent as the old one, and
    deleting and filling queues makes the disk slower still (decision 0018).
    """

    times: tuple[float, ...] = ()

    def add(self, now: float) -> "Renewals | None":
        """Return these and one more; None if the last hour had MOST_RENEWALS already."""
        recent = tuple(time for time in self.times if now - time < PERIOD)
        return replace(self, times=(*recent, now)) if len(recent) < MOST_RENEWALS else None

    def without_last(self) -> "Renewals":
        """Return these without the last one: that deletion failed."""
        return replace(self, times=self.times[:-1])


class StagingQueue:
    """Deletes the staging queue. No message is lost: copies are made again from the database."""

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self._renewals = Renewals()
        self._silent: QueueSilent | None = None

    def note(self, silent: QueueSilent) -> None:
        """Have it deleted at the next turn, which starts as after a lost connection.

        Raises StagingQueueUnusable when it was deleted too often within an hour.
        """
        renewals = self._renewals.add(self._context.clock.monotonic())
        if renewals is None:
            raise StagingQueueUnusable(
                f"{silent}. It was deleted and declared anew {MOST_RENEWALS} times within an hour, "
                "which is not done again for now: is the broker's disk slow, or a node of it away?"
            ) from silent
        self._renewals, self._silent = renewals, silent

    def forget(self) -> None:
        """Forget that it was silent: the lease may be another's, who finds out by itself."""
        self._silent = None

    def renew(self) -> None:
        """Delete a silent queue. Raises LeaseLost, DatabaseUnavailable, BrokerUnavailable."""
        silent, self._silent = self._silent, None
        if silent is None:
            return
        self._context.emit(StagingQueueRenewed(reason=str(silent)))
        try:
            self.delete()
        except QueueSilent:
            raise
        except (BrokerUnavailable, DatabaseUnavailable):
            # Not counted: nothing was deleted, and a node that restarts often must not use up
            # the deletions that would repair its queue.
            self._renewals = self._renewals.without_last()
            raise

    def end_other_consumers(self) -> None:
        """Delete it where a frozen or cut-off predecessor may hold all copies (0007, 0012).

        Where a queue does not belong to one consumer, nobody can hold what is staged from now on,
        and SQS makes no queue of a name that was deleted within the last minute.
        """
        if self._context.broker.transport.capabilities.single_consumer:
            self.delete()

    def delete(self) -> None:
        """Delete it and drop our connections; copies that any consumer holds are gone, too.

        The pause is needed: a quorum queue declared again at once kept the dead consumer
        registered and handed it all new copies. Raises what `renew` raises.
        """
        context = self._context
        context.lease.ensure_fresh()
        context.broker.drop()
        context.broker.queues.delete(context.retries.staging_queue)
        context.emit(StagingQueueDeleted(queue=context.retries.staging_queue))
        context.stop.wait(context.retries.redeclare_pause.total_seconds())


NOT_PATCHED = "it was not sent, as the patch cannot be applied to it"
_LOST = "its body is not in the database any more: somebody has deleted it"


def make_copy(
    context: StageContext, message: ClaimedMessage, staging_id: str
) -> Outgoing | Ejected:
    """Return the copy for the staging queue; Ejected if no retry may go to the destination."""
    reason = why_not_sendable(message.destination, context.retries.closed_to_retries)
    if reason is not None:
        unknown = not message.destination
        return replace(_eject(message, reason), hopeless=not unknown, unknown=unknown)
    raw = make_staged(context.broker.transport.codec, message, _stamps(context, staging_id))
    # A second copy of one number is acknowledged unsent.
    return Outgoing(queue=context.retries.staging_queue, raw=raw, body=b"", repeatable=True)


def make_marker(context: StageContext, staging_id: str) -> tuple[str, Outgoing]:
    """Return the nonce of a new end marker, and the marker."""
    nonce = str(uuid4())
    codec = context.broker.transport.codec
    raw = make_end_marker(codec, _stamps(context, staging_id), nonce)
    marker = Outgoing(queue=context.retries.staging_queue, raw=raw, body=b"", repeatable=True)
    return nonce, marker


def make_retry(
    context: StageContext, copy: StagedCopy, original: StoredOriginal | None
) -> Outgoing | Ejected:
    """Return the message as it failed, edited for the retry; Ejected if it cannot be sent.

    Patched, if its operation has a patch: the same bytes each time.
    """
    if original is None:
        return _eject(copy, _LOST)
    transport = context.broker.transport
    try:
        original = without_envelope(transport.codec, original)
        if original.patch is not None:
            patched = patch_message(transport.codec, original, read_patch(original.patch))
            if isinstance(patched, PatchRefused):
                return _eject(copy, f"{NOT_PATCHED}: {patched}")
            original = patched
        raw = make_forwarded(
            transport.codec,
            original,
            copy,
            SendingTerms(
                acknowledgement_queue=context.retries.acknowledgement_queue(original.error_queue),
                own_user=transport.user,
                keep_transient=context.retries.keep_transient,
                leave_out=context.retries.drop_headers.get(original.error_queue, ()),
            ),
        )
    except UnreadableProperties as error:
        return _eject(copy, f"its stored properties cannot be read: {error}")
    except WrongPatch as error:
        return _eject(copy, f"the patch {error.where} {error}")
    return Outgoing(queue=copy.target, raw=raw, body=original.body)


def get_probe_ready(
    db: Database, lease: Lease, transport: Transport, retries: RetryParameters, emit: Emit
) -> Outgoing:
    """Return the probe: a copy without a message, which shows that the queue takes our copies.

    Its staging id is the session's id, and is recorded first. All probes of a session share it:
    a broker that breaks each connection must not fill the table. Raises LeaseLost,
    DatabaseUnavailable.
    """
    record_staging_ids(db, lease.fence, [retries.session_id])
    emit(StagingIdsRecorded(staging_ids=(retries.session_id,)))
    stamps = Stamps(staging_id=retries.session_id, installation_id=retries.installation_id)
    return make_probe(transport.codec, stamps, retries.staging_queue)


def _stamps(context: StageContext, staging_id: str) -> Stamps:
    return Stamps(staging_id=staging_id, installation_id=context.retries.installation_id)


def _eject(message: ClaimedMessage | StagedCopy, reason: str) -> Ejected:
    return Ejected(
        number=message.number, unique_message_id=message.unique_message_id, reason=reason
    )

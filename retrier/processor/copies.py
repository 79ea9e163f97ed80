"""Copies for the staging queue and off it, and what is sent back for them; markers and probes."""

from dataclasses import replace
from uuid import uuid4

from retrier.domain.copies import (
    StagedCopy,
    Stamps,
    make_end_marker,
    make_forwarded,
    make_probe,
    make_staged,
    read_staged,
    why_not_sendable,
)
from retrier.domain.retry_batch import ClaimedMessage, Ejected, StoredOriginal
from retrier.domain.wire import Outgoing, UnreadableProperties
from retrier.errors import StagingQueueUnusable
from retrier.events.event import Emit
from retrier.events.preparation import StagingIdsRecorded
from retrier.processor.forwarding_run import ForwardingRun
from retrier.processor.lease import Lease
from retrier.processor.stage_context import RetryParameters, StageContext
from retrier.store.engine.database import Database
from retrier.store.verbs.installations import record_staging_ids
from retrier.transport.seam import Transport

_LOST = "its body is not in the database any more: somebody has deleted it"


def make_copy(
    context: StageContext, message: ClaimedMessage, staging_id: str
) -> Outgoing | Ejected:
    """Return the copy for the staging queue, or why no retry may be sent to the destination."""
    reason = why_not_sendable(message.destination, context.retries.closed_to_retries)
    if reason is not None:
        return _eject(message, reason)
    raw = make_staged(context.broker.transport.codec, message, _stamps(context, staging_id))
    return Outgoing(queue=context.retries.staging_queue, raw=raw, body=b"")


def make_marker(context: StageContext, staging_id: str) -> tuple[str, Outgoing]:
    """Return an end marker, and the nonce it is known by."""
    nonce = str(uuid4())
    codec = context.broker.transport.codec
    raw = make_end_marker(codec, _stamps(context, staging_id), nonce)
    return nonce, Outgoing(queue=context.retries.staging_queue, raw=raw, body=b"")


def make_retry(
    context: StageContext, copy: StagedCopy, original: StoredOriginal | None
) -> Outgoing | Ejected:
    """Return the message as it failed, on its way back; or why there is nothing to send."""
    if original is None:
        return _eject(copy, _LOST)
    transport = context.broker.transport
    try:
        raw = make_forwarded(
            transport.codec,
            original,
            copy,
            acknowledgement_queue=context.retries.acknowledgement_queue(original.error_queue),
            own_user=transport.user,
        )
    except UnreadableProperties as error:
        return _eject(copy, f"its stored properties cannot be read: {error}")
    return Outgoing(queue=copy.target, raw=raw, body=original.body)


def get_probe_ready(
    db: Database, lease: Lease, transport: Transport, retries: RetryParameters, emit: Emit
) -> Outgoing:
    """Return the copy that nobody asks for: it proves that the staging queue takes our copies.

    Its staging id, the session's id, is recorded first. One id for all probes of a session: a
    broker that breaks each connection must not fill the table. Raises LeaseLost,
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


_GATHERING = 0.005
"""Seconds to wait for the next of the copies that are known to come."""


def receive(context: StageContext, run: ForwardingRun, wait: float) -> tuple[ForwardingRun, int]:
    """Receive what is there, at most a window; wait so long for the first copy.

    Returns the run with what is wanted of it, and how many copies of another installation were
    put back. Raises BrokerUnavailable, StagingQueueUnusable.
    """
    room = context.retries.window - len(run.inbox)
    if room <= 0:
        return run, 0
    consumer = context.broker.consumer(context.retries.prefetch)
    deliveries = consumer.receive(room, wait)
    # The first copies come one by one: a window of them would cost as much as a full one.
    while deliveries and len(deliveries) < min(room, run.outstanding):
        more = consumer.receive(room - len(deliveries), _GATHERING)
        if not more:
            break
        deliveries += more
    codec, ours = context.broker.transport.codec, (None, context.retries.installation_id)
    arrived = [(delivery, read_staged(codec, delivery.raw)) for delivery in deliveries]
    foreign = [each for each, copy in arrived if copy and copy.installation_id not in ours]
    if foreign:
        consumer.put_back(foreign)
    sorted_run = run.sort(each for each in arrived if each[0] not in foreign)
    # Where there is order, what nobody asked for is no sign that more will come: somebody
    # who keeps putting things there would keep the batch open for ever.
    ordered = context.broker.transport.capabilities.ordered
    if sorted_run.arrived > run.arrived or (deliveries and not ordered):
        sorted_run = replace(sorted_run, quiet_since=context.clock.monotonic())
    return sorted_run, len(foreign)


def refuse_foreign(count: int) -> StagingQueueUnusable:
    """Return the error for copies of another installation."""
    return StagingQueueUnusable(
        f"{count} copies of another Retrier installation are in the staging queue: two "
        "installations share a broker and an instance name. They were put back. Give one of "
        "them another `instance`."
    )

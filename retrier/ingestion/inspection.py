"""Whether messages may be taken off an error queue: looked at before it is consumed, and by check.

Nothing is handed out by it. A delivery would count against a delivery limit.
"""

from dataclasses import dataclass

from retrier.errors import ErrorQueueMissing, ErrorQueueUnusable
from retrier.ingestion.arrival import QueueMapping
from retrier.transport.seam import (
    USUAL_DELIVERY_LIMIT,
    DeliveryLimit,
    QueueLook,
    Queues,
    Transport,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usable:
    """It may be ingested. `unseen`: the broker does not reveal whether it dead-letters."""

    look: QueueLook
    doubt: str | None  # what a person should look at, if anything
    unseen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """It does not exist."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """Nothing of it is ingested before a person has changed something."""

    reason: str


Inspection = Usable | Missing | Unusable


def admit(
    transport: Transport, mapping: QueueMapping, *, declare_missing: bool, judging: bool
) -> str | None:
    """Return what is doubtful about an error queue, if anything, or raise ErrorQueueUnusable.

    `judging` as for `inspect`. A missing queue is declared, if that is wanted. Raises
    ErrorQueueMissing, BrokerUnavailable.
    """
    queues = transport.queues()
    try:
        if declare_missing:
            queues.declare_error_queue(mapping.queue)
        found = inspect(queues, mapping, judging=judging)
    finally:
        queues.close()
    match found:
        case Usable(doubt=doubt):
            return doubt
        case Missing(reason=reason):
            raise ErrorQueueMissing(reason)
        case Unusable(reason=reason):
            raise ErrorQueueUnusable(reason)


def inspect(queues: Queues, mapping: QueueMapping, *, judging: bool = True) -> Inspection:
    """Look at an error queue. Without `judging` a work queue is taken as it is.

    Raises BrokerUnavailable.
    """
    queue = mapping.queue
    look = queues.look(queue)
    if look is None:
        advice = "declare it, or set ingestion.declare_missing"
        return Missing(reason=f"the error queue {queue} does not exist: {advice}")
    reason = queues.why_not_ingestible(queue)
    if reason is not None:
        return Unusable(reason=reason)
    if not judging or mapping.take_from_work_queue:
        return Usable(look=look, doubt=None)
    return _judge(queue, look, dead_letters=queues.dead_letters(queue))


def _judge(queue: str, look: QueueLook, *, dead_letters: bool | None) -> Inspection:
    """Refuse a queue only where both signs of a work queue are seen; one is a warning.

    Consumers have no names here: those of our own other instances are counted as well. To refuse
    one instance too many loses nothing, and names the way out (decision 0036).
    """
    others = "1 consumer" if look.consumers == 1 else f"{look.consumers} consumers"
    match dead_letters, look.consumers > 0:
        case True, True:
            return Unusable(
                reason=f"{queue} has a dead-letter exchange and {others}: it looks like a work "
                "queue. Retrier would take its messages. If it should, or if the consumers are "
                "other instances of Retrier, set take_from_work_queue: true at its entry of "
                "ingestion.error_queues"
            )
        case True, False:
            doubt: str | None = (
                f"{queue} has a dead-letter exchange of its own, as work queues have: "
                "Retrier takes every message that arrives there"
            )
        case _, True:
            doubt = (
                f"{queue} has {others} already: unless they are other instances of Retrier, they "
                "and Retrier take messages from each other"
            )
        case _:
            doubt = None
    return Usable(look=look, doubt=doubt, unseen=dead_letters is None)


def tell_delivery_limit(limit: DeliveryLimit, *, dead_letters: bool | None) -> str:
    """Return what happens on an error queue with a delivery limit, and where nobody sees it.

    A window comes back at each crash and each lost connection, and the database may be away.
    """
    if limit.most is None:
        told, often = "it may have a delivery limit", "too often"
    else:
        told = f"its delivery limit is {limit.most}"
        often = f"more than {max(limit.most, 0)} times"
        if limit.most < USUAL_DELIVERY_LIMIT:
            told += f", below the {USUAL_DELIVERY_LIMIT} that is usual"
    match dead_letters:
        case True:
            becomes = "goes to its dead-letter exchange"
        case False:
            becomes = "is dropped, because its arguments name no dead-letter exchange"
        case _:
            becomes = "is dropped, unless it has a dead-letter exchange"
    return f"{told}: what comes back {often} {becomes}"

"""Whether the error queues were read past a moment: only then silence means that nothing failed."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import groupby

from retrier.domain.values import dataclass

HEARD = timedelta(seconds=15)
"""A process that was heard of in this time is there; each writes every second while it is asked."""
GONE = timedelta(minutes=3)
"""After this time the broker has given back what a process had in hand that answers no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRead:
    """How far one process has read one error queue, by the clock of the database.

    At `level_at` nothing was on the queue, and the process had stored all that it was handed
    before. `ready` is how many messages were on it when it looked last. A process that `stopped`
    in good order has stored or given back what it had.
    """

    queue: str
    host: str
    seen_at: datetime
    level_at: datetime | None = None
    ready: int | None = None
    stopped: bool = False


def why_unread(reads: Iterable[QueueRead], moment: datetime, now: datetime) -> str | None:
    """Say why something from before `moment` may be unread on an error queue; None if all is read.

    Each queue must have a reader that was level at or after `moment`. No reader may be silent that
    may still have something in hand.
    """
    known = sorted(reads, key=lambda each: each.queue)
    if not known:
        return "no process that reads error queues has been heard of"
    for queue, of_queue in groupby(known, key=lambda each: each.queue):
        why = _why_queue(queue, list(of_queue), moment, now)
        if why is not None:
            return why
    return None


def _why_queue(
    queue: str, reads: Sequence[QueueRead], moment: datetime, now: datetime
) -> str | None:
    there = [each for each in reads if not each.stopped and now - each.seen_at <= HEARD]
    silent = [each for each in reads if not each.stopped and HEARD < now - each.seen_at <= GONE]
    if silent:
        last = max(silent, key=lambda each: each.seen_at)
        return f"{last.host}, which reads {queue}, has said nothing since {_time(last.seen_at)}"
    if not there:
        last = max(reads, key=lambda each: each.seen_at)
        return f"nobody has read {queue} since {_time(last.seen_at)}"
    # What a process that went had in hand was given back: it must be read, too.
    behind = max([moment, *(each.seen_at for each in reads if each not in there)])
    unlevel = [each for each in there if each.level_at is None or each.level_at < behind]
    if not unlevel:
        return None
    ready = max((each.ready or 0 for each in unlevel), default=0)
    are = "message is" if ready == 1 else "messages are"
    before = f": {ready:,} {are} on it" if ready else ""
    return f"{queue} is not read to its end yet{before}"


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}Z"

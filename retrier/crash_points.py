"""Every place at which a test may kill the process, and what has just happened there."""

from collections.abc import Callable
from enum import StrEnum

Reach = Callable[[str], None]
"""Called with the name of each crash point as it is reached."""


class IngestionPoint(StrEnum):
    """Failures and confirmations arrive the same way, and so come to the same points.

    OPENED         a write to the database has succeeded, and the error queue is there.
    BEFORE_RECORD  a batch is received, nothing of it is stored.
    RECORDED_ALONE one message of a batch that the database refused as a whole is stored.
    AFTER_RECORD   the batch is stored, nothing of it is acknowledged.
    AFTER_ACK      the batch is acknowledged.
    """

    OPENED = "ingestion.opened"
    BEFORE_RECORD = "ingestion.before_record"
    RECORDED_ALONE = "ingestion.recorded_alone"
    AFTER_RECORD = "ingestion.after_record"
    AFTER_ACK = "ingestion.after_ack"


class RequestPoint(StrEnum):
    """What a person asks for: a retry, a way out, a redirect. Once for each transaction of it.

    BEFORE_RECORD the request is read, nothing of it is done.
    AFTER_RECORD  one transaction of it is committed; the client has no answer yet.
    """

    BEFORE_RECORD = "request.before_record"
    AFTER_RECORD = "request.after_record"


class LeasePoint(StrEnum):
    """The right to be the processor.

    ACQUIRED this process is the processor, and has done nothing yet.
    RELEASED a stop has given the lease back; the process is about to end.
    """

    ACQUIRED = "lease.acquired"
    RELEASED = "lease.released"


def pass_by(_point: str) -> None:
    """Do nothing: only tests crash."""


class CrashPoint(StrEnum):
    """Named by stage and by the effect that came last.

    ADOPTION_MOVED           an orphan is in Staging, or deleted because it had no claims.
    MARKING_OPENED           a batch is in Marking and has no claims.
    MARKING_CLAIMED          it has its claims, and the operation's floor is moved.
    MARKING_MOVED            it is in Staging.
    STAGING_ID_RECORDED      a staging id is in the database, of an attempt or of this session's
                             probes; nothing has gone out under it.
    STAGING_CONNECTED        the staging queue is there, perhaps with a probe in it.
    STAGING_PURGED           the staging queue is empty; nothing of this attempt is in it.
    STAGING_SENT             some copies are on their way into the staging queue, others not yet.
    STAGING_PUBLISHED        all copies are in it; the batch is still in Staging.
    STAGING_SENT_ALONE       one copy that shared a window with a refused one was sent by itself.
    STAGING_BACKED_OFF       the batch waits, with the reason why the broker did not take it.
    STAGING_COMMITTED        the batch is in Forwarding and the pointer names it.
    FORWARDING_MARKED        the end marker is in the staging queue.
    FORWARDING_STAMPED       the window before is recorded, this one's claims are stamped.
    FORWARDING_ACKED         what was recorded or is unwanted is acknowledged.
    FORWARDING_PUBLISHED     the broker has settled a window; nothing of it is recorded.
    FORWARDING_SENT_ALONE    the broker has settled one message sent by itself.
    FORWARDING_RECORDED      what was settled is recorded, with no window after it.
    FORWARDING_COMPLETED     the store was asked whether the batch is done; if so it is deleted.
    FORWARDING_QUEUE_DELETED a staging queue that is held, or does not answer, is deleted.
    FORWARDING_MOVED         what was not recorded is in a new batch in Staging.
    FORWARDING_BACKED_OFF    that batch waits: the staging queue has lost too much in a row.
    """

    ADOPTION_MOVED = "adoption.moved"
    MARKING_OPENED = "marking.opened"
    MARKING_CLAIMED = "marking.claimed"
    MARKING_MOVED = "marking.moved"
    STAGING_ID_RECORDED = "staging.id_recorded"
    STAGING_CONNECTED = "staging.connected"
    STAGING_PURGED = "staging.purged"
    STAGING_SENT = "staging.sent"
    STAGING_PUBLISHED = "staging.published"
    STAGING_SENT_ALONE = "staging.sent_alone"
    STAGING_BACKED_OFF = "staging.backed_off"
    STAGING_COMMITTED = "staging.committed"
    FORWARDING_MARKED = "forwarding.marked"
    FORWARDING_STAMPED = "forwarding.stamped"
    FORWARDING_ACKED = "forwarding.acked"
    FORWARDING_PUBLISHED = "forwarding.published"
    FORWARDING_SENT_ALONE = "forwarding.sent_alone"
    FORWARDING_RECORDED = "forwarding.recorded"
    FORWARDING_COMPLETED = "forwarding.completed"
    FORWARDING_QUEUE_DELETED = "forwarding.queue_deleted"
    FORWARDING_MOVED = "forwarding.moved"
    FORWARDING_BACKED_OFF = "forwarding.backed_off"

"""The places at which a test may kill the process, outside of the processor's stages."""

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

"""Archive operations: one request to archive, unarchive or resolve many messages, with a cursor."""

from enum import StrEnum


class ArchiveOperationState(StrEnum):
    """How far an archive operation is.

    WAITING    nothing of it is done yet.
    RUNNING    its first chunk is done.
    COMPLETED  no message is left that it could change.
    """

    WAITING = "waiting"
    RUNNING = "running"
    COMPLETED = "completed"

"""What the operator says of an error queue."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMapping:
    """An error queue, and how the messages on it are to be understood.

    `dialect` is read instead of the one that is recognised; `destination` is where retries go
    instead of where the message failed.
    """

    queue: str
    dialect: str | None = None
    destination: str | None = None

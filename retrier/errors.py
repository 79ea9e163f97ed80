"""The errors Retrier raises itself.

RetrierError
├── ConfigurationError      the settings are wrong; every problem is listed
├── BrokerUnavailable       the broker cannot be reached, or the connection broke
│   └── QueueSilent         the broker answers, but one of its queues does not
├── DatabaseUnavailable     the database cannot be reached, or the connection broke
│   └── AnswerTooSlow       the database takes too long for what it was asked
├── DataRefused             the database refuses a row for its data
├── ServiceUnavailable      the service cannot be reached, or cannot work
├── RequestRefused          the service says no
├── KeyReused               an idempotency key came again with another request
├── ErrorQueueUnusable      an error queue is of a type that cannot be ingested
├── StagingQueueUnusable    the staging queue is somebody else's
└── LeaseLost               another process has become the processor
"""

from collections.abc import Sequence


class RetrierError(Exception):
    """Whatever Retrier raises on purpose."""


class ConfigurationError(RetrierError):
    """The settings are wrong."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class BrokerUnavailable(RetrierError):
    """The broker cannot be reached, or the connection to it broke."""


class QueueSilent(BrokerUnavailable):
    """The broker is heard, but one of its queues leaves what was asked of it, or sent to it, open.

    Quorum queues without a leader do so, and a slow disk looks the same for a while.
    """

    def __init__(self, queue: str, words: str) -> None:
        super().__init__(f"the queue {queue!r} does not answer, though the broker does: {words}")
        self.queue = queue


class DatabaseUnavailable(RetrierError):
    """The database cannot be reached, or the connection to it broke."""


class AnswerTooSlow(DatabaseUnavailable):
    """The database takes too long for what it was asked: it is locked, or there is too much."""


class DataRefused(RetrierError):
    """The database refuses a row for its data."""


class ServiceUnavailable(RetrierError):
    """The service cannot be reached, or cannot work."""


class RequestRefused(RetrierError):
    """The service says no: there is no such thing, or it may not be."""


class KeyReused(RetrierError):
    """An idempotency key came again with another request: nothing was done for that one."""


class ErrorQueueUnusable(RetrierError):
    """Failed messages cannot be taken off this queue for good."""


class StagingQueueUnusable(RetrierError):
    """The staging queue holds what is not ours, or has arguments we cannot change."""


class LeaseLost(RetrierError):
    """Another process has become the processor: nothing may be published, acked or committed."""

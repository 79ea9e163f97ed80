"""The errors Retrier raises itself.

RetrierError
├── ConfigurationError      the settings are wrong; every problem is listed
├── BrokerUnavailable       the broker cannot be reached, or the connection broke
│   ├── AccessRefused       the broker is there, and does not let us in
│   ├── ConnectionLimit     the broker takes no more connections or channels
│   └── QueueSilent         the broker answers, but one of its queues does not
├── DatabaseUnavailable     the database cannot be reached, or the connection broke
│   ├── AnswerTooSlow       the database takes too long for a query
│   └── DatabaseRefused     the database answers, and refuses: a right or a table is missing
├── DataRefused             the database refuses a row because of its values
├── ServiceUnavailable      the service cannot be reached, or cannot work
├── RequestRefused          the service refuses the request
├── CopyRefused             a database may not be copied, or not to where it should go
├── TooManyFound            more messages are found by words than an act may take
├── AuditUnavailable        the audit cannot be written, so that an act must not be done
├── KeyReused               an idempotency key came again with another request
├── ErrorQueueUnusable      an error queue cannot be ingested, or should not be
│   └── ErrorQueueMissing   it does not exist, and we may not declare it
├── StagingQueueUnusable    the staging queue belongs to others, or fails again and again
└── LeaseLost               another process has become the processor
"""

from collections.abc import Sequence


class RetrierError(Exception):
    """The base of all errors that Retrier raises itself."""


class ConfigurationError(RetrierError):
    """The settings are wrong."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class BrokerUnavailable(RetrierError):
    """The broker cannot be reached, or the connection to it broke."""


class AccessRefused(BrokerUnavailable):
    """The broker is there, and does not let us in: user, password, virtual host or certificate.

    To try again helps only after somebody has changed something.
    """


class ConnectionLimit(BrokerUnavailable):
    """The broker takes no more connections or channels: of this user, host or node.

    A later try may succeed, when others have closed theirs.
    """


class QueueSilent(BrokerUnavailable):
    """The broker answers, but one of its queues answers neither a request nor a sent message.

    A quorum queue without a leader behaves so, and for a while so does one on a slow disk.
    """

    def __init__(self, queue: str, words: str) -> None:
        super().__init__(f"the queue {queue!r} does not answer, though the broker does: {words}")
        self.queue = queue


class DatabaseUnavailable(RetrierError):
    """The database cannot be reached, or the connection to it broke.

    Whatever reads or writes the database raises it. This is said here, and not at each function.
    """


class AnswerTooSlow(DatabaseUnavailable):
    """The database takes too long for a query: something is locked, or there is too much data."""


class DatabaseRefused(DatabaseUnavailable):
    """The database answers, and refuses: its user lacks a right, or a table is missing.

    To try again helps only after somebody has changed something.
    """


class TablesMissing(DatabaseRefused):
    """The database is there, and tables or columns of ours are not: nobody has made them yet.

    The process that upgrades the schema makes them in its first seconds.
    """


class DataRefused(RetrierError):
    """The database refuses a row because of its values."""


class ServiceUnavailable(RetrierError):
    """The service cannot be reached, or cannot work."""


class RequestRefused(RetrierError):
    """The service refuses the request: the thing is unknown, or its state does not allow it."""


class CopyRefused(RetrierError):
    """A database may not be copied: it is in use, or its target is not empty. Nothing is lost."""


class NotAllowed(RetrierError):
    """Who asks has no right to it, by role or by queue: nothing was done."""


class TooManyFound(RetrierError):
    """More messages are found by words than an act may take: nothing was done."""


class AuditUnavailable(RetrierError):
    """No line can be written about an act: nothing was done."""


class KeyReused(RetrierError):
    """An idempotency key came again with another request: nothing was done for the new request."""


class ErrorQueueUnusable(RetrierError):
    """Nothing is taken off the error queue: it is a stream, a work queue, or may not be read."""


class ErrorQueueMissing(ErrorQueueUnusable):
    """The error queue does not exist, and the settings do not allow us to declare it."""


class StagingQueueUnusable(RetrierError):
    """The staging queue holds messages of others, has wrong arguments, or fails too often."""


class LeaseLost(RetrierError):
    """Another process has become the processor: nothing may be published, acked or committed."""

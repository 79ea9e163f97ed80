"""All header names that Retrier reads or writes, and patterns of names that a retry leaves out.

ServiceControl's names are used where they exist, so that its consumers understand a retry. Our
own begin with `Retrier.`.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase

# Written by ServiceControl-aware middleware, read at ingestion (ServiceControl 6.x, MessageHeaders).
UNIQUE_MESSAGE_ID = "ServiceControl.Retry.UniqueMessageId"
RETRY_SUCCESSFUL = "ServiceControl.Retry.Successful"
ACKNOWLEDGEMENT_QUEUE = "ServiceControl.Retry.AcknowledgementQueue"

# On an edited version only, instead of the unique message id: of which failed message it is one.
EDIT_OF = "ServiceControl.EditOf"

# Stamped on the copies in the staging queue; the message that is sent back has none of them.
STAGING_ID = "ServiceControl.Retry.StagingId"
TARGET_ADDRESS = "ServiceControl.TargetEndpointAddress"
INSTALLATION_ID = "Retrier.InstallationId"
NUMBER = "Retrier.MessageNumber"
SIZE = "Retrier.Size"
END_MARKER = "Retrier.EndMarker"

# On the copy in the staging queue and on the message that is sent back. A retry that is sent twice
# has the same retry id both times.
RETRY_ID = "Retrier.RetryId"

# On the message that is sent back only, as the consumer wrote it when the message failed.
COMPLETED_STEPS = "Retrier.CompletedSteps"

# Stamped on the copy that goes to the log queue: under which id the failed message is stored. Not
# ServiceControl's header, for a failure may have one of its own, and the copy keeps it.
LOGGED_ID = "Retrier.UniqueMessageId"

# Stamped on a notice that a message is dead: the same id each time the notice is sent. A message with
# this header causes no notice: one that fails would else cause notices without end.
NOTICE_ID = "Retrier.NoticeId"

# Facts about a message that any sender may write; a retry keeps them.
MESSAGE_TYPE = "Retrier.MessageType"
ENDPOINT = "Retrier.Endpoint"
STREAM = "Retrier.Stream"
STREAM_POSITION = "Retrier.StreamPosition"

STAGING_ONLY = frozenset({STAGING_ID, TARGET_ADDRESS, INSTALLATION_ID, NUMBER, SIZE, END_MARKER})

# Written by workers, CAF's or our own: how often a worker crashed over the message, and why one gave
# it up; how often it took too long, and when it is tried again; how often it came back, and nobody
# knows whether it was started. A retry does not carry them: a worker would give it up at once.
WORKER_CRASHES = "x-caf-worker-retry"
WORKER_REJECTED = "x-caf-worker-rejected"
WORKER_TIMEOUTS = "x-caf-worker-timeouts"
WORKER_NOT_BEFORE = "x-caf-worker-not-before"
WORKER_RETURNS = "x-caf-worker-returns"
OF_WORKERS = frozenset(
    {WORKER_CRASHES, WORKER_REJECTED, WORKER_TIMEOUTS, WORKER_NOT_BEFORE, WORKER_RETURNS}
)

# Written by RabbitMQ, not by the sender: how often a quorum queue delivered the message.
BROKER_COUNTERS = frozenset({"x-delivery-count", "x-acquired-count"})

# RabbitMQ copies a message to the queues that these headers name. On a retry it would do so again.
FAN_OUT = frozenset({"CC", "BCC"})


OF_RABBITMQ = (
    *sorted(FAN_OUT | BROKER_COUNTERS),
    *("x-death", "x-first-death-*", "x-last-death-*"),
)
"""Patterns of what RabbitMQ writes or acts on. On SQS a sender's attribute may have such a name."""


_NEEDED = (
    UNIQUE_MESSAGE_ID,
    ACKNOWLEDGEMENT_QUEUE,
    RETRY_SUCCESSFUL,
    EDIT_OF,
    RETRY_ID,
    COMPLETED_STEPS,
    MESSAGE_TYPE,
    ENDPOINT,
    STREAM,
    NOTICE_ID,
)
"""What a retry says of itself, and what tells which message it is when it fails again."""


def is_among(name: str, patterns: Iterable[str]) -> bool:
    """Say whether a header's name fits one of the patterns."""
    small = name.casefold()
    return any(fnmatchcase(small, each.casefold()) for each in patterns)


def why_not_dropped(pattern: str) -> str | None:
    """Say why no retry may go without what fits the pattern; None when it may."""
    needed = next((each for each in _NEEDED if is_among(each, [pattern])), None)
    return None if needed is None else f"would leave out {needed}, which a retry needs"

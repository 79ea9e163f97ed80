"""All header names that Retrier reads or writes.

ServiceControl's names are used where they exist, so that its consumers understand a retry. Our
own begin with `Retrier.`.
"""

# Written by ServiceControl-aware middleware, read at ingestion (ServiceControl 6.x, MessageHeaders).
UNIQUE_MESSAGE_ID = "ServiceControl.Retry.UniqueMessageId"
RETRY_SUCCESSFUL = "ServiceControl.Retry.Successful"
ACKNOWLEDGEMENT_QUEUE = "ServiceControl.Retry.AcknowledgementQueue"

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

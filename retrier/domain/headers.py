"""Every header name Retrier reads or writes, once.

ServiceControl's names where they exist, so that its consumers understand a retry; ours begin
with `Retrier.`.
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

# Stamped on the copies and on the message that is sent back: all copies of one retry carry it.
RETRY_ID = "Retrier.RetryId"
COMPLETED_STEPS = "Retrier.CompletedSteps"

# Facts about a message that anyone may state; they stay on it.
MESSAGE_TYPE = "Retrier.MessageType"
ENDPOINT = "Retrier.Endpoint"
STREAM = "Retrier.Stream"

STAGING_ONLY = frozenset({STAGING_ID, TARGET_ADDRESS, INSTALLATION_ID, NUMBER, SIZE, END_MARKER})

# Written by RabbitMQ itself: how often a quorum queue handed the message out. Not the sender's.
BROKER_COUNTERS = frozenset({"x-delivery-count", "x-acquired-count"})

# Makes RabbitMQ fan copies out to other queues, also on a retry.
FAN_OUT = frozenset({"CC", "BCC"})

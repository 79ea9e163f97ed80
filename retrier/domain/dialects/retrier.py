"""Retrier's own dialect: plain headers that any client in any language can write."""

from collections.abc import Mapping

from retrier.domain.dialects.dialect import Unintelligible, count, field
from retrier.domain.failed_message import FailureDetails
from retrier.domain.headers import COMPLETED_STEPS, ENDPOINT, MESSAGE_TYPE, STREAM
from retrier.domain.identity import computed_id
from retrier.domain.times import from_epoch, parse_iso_time
from retrier.domain.wire import Properties

FAILED_QUEUE = "Retrier.FailedQueue"
TIME_OF_FAILURE = "Retrier.TimeOfFailure"
EXCEPTION = "Retrier.Exception."
REASON = "Retrier.Reason"
ATTEMPTS = "Retrier.Attempts"
HOST = "Retrier.Host"
PROCESS = "Retrier.Process"
NODE = "Retrier.Node"

STRIPPED = frozenset(
    {FAILED_QUEUE, TIME_OF_FAILURE, REASON, ATTEMPTS, HOST, PROCESS, NODE, COMPLETED_STEPS}
)
"""A retry keeps message type, endpoint and stream: they describe the message, not the failure.

The completed steps are written again on every retry, from the store.
"""


class RetrierDialect:
    """Failure headers written for Retrier."""

    name = "retrier"
    mark = FAILED_QUEUE
    reads_body = False

    def recognises(self, headers: Mapping[str, object]) -> bool:
        """Say whether the headers name the failed queue."""
        return self.mark in headers

    def read(
        self,
        properties: Properties,
        *,
        otherwise: str | None = None,
        body: bytes = b"",  # noqa: ARG002 - the headers say all of it
    ) -> FailureDetails | Unintelligible:
        """Read the headers; without `otherwise`, the failed queue must be there."""
        queue = properties.text(FAILED_QUEUE) or otherwise
        if queue is None:
            return Unintelligible(f"the header {FAILED_QUEUE} is missing or empty")
        return FailureDetails(
            queue=queue,
            destination=queue,
            endpoint=properties.text(ENDPOINT),
            message_type=properties.text(MESSAGE_TYPE) or field(properties, "type"),
            exception_type=properties.text(EXCEPTION + "Type"),
            exception_message=properties.text(EXCEPTION + "Message"),
            stack_trace=properties.text(EXCEPTION + "StackTrace"),
            failure_reason=properties.text(REASON),
            time_of_failure=parse_iso_time(properties.text(TIME_OF_FAILURE)),
            time_sent=from_epoch(properties.fields.get("timestamp")),
            attempts_reported=count(properties.headers.get(ATTEMPTS)),
            completed_steps=properties.text(COMPLETED_STEPS),
            stream_id=properties.text(STREAM),
            host=properties.text(HOST),
            process=properties.text(PROCESS),
            node=properties.text(NODE),
        )

    def message_id(self, properties: Properties) -> str | None:
        """Return AMQP's message id."""
        return field(properties, "message_id")

    def computed_id(self, message_id: str, endpoint: str) -> str:
        """Return the unique message id computed from message id and failing endpoint."""
        return computed_id(message_id, endpoint)

    def strips(self, header: str) -> bool:
        """Say whether the header describes the failure."""
        return header in STRIPPED or header.startswith(EXCEPTION)

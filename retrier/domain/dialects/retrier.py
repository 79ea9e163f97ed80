"""Retrier's own dialect: plain headers that any client in any language can write."""

from retrier.domain.dialects.dialect import (
    NOWHERE,
    Declared,
    FoundOn,
    Library,
    Unintelligible,
    amqp_field,
    count,
)
from retrier.domain.failed_message import FailureDetails
from retrier.domain.headers import COMPLETED_STEPS, ENDPOINT, MESSAGE_TYPE, STREAM
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

DECLARED = Declared(
    library="Retrier's own headers",
    recognised_by=f"header `{FAILED_QUEUE}`",
    feeds={
        "queue": f"`{FAILED_QUEUE}`",
        "endpoint": f"`{ENDPOINT}`",
        "exception_type": f"`{EXCEPTION}Type`",
        "exception_message": f"`{EXCEPTION}Message`",
        "stack_trace": f"`{EXCEPTION}StackTrace`",
        "failure_reason": f"`{REASON}`",
        "time_of_failure": f"`{TIME_OF_FAILURE}`",
        "attempts_reported": f"`{ATTEMPTS}`",
        "time_sent": "`timestamp`",
        "message_type": f"`{MESSAGE_TYPE}`, else `type`",
        "message_id": "`message_id`",
        "host": f"`{HOST}`, `{PROCESS}`, `{NODE}`",
    },
    removes=(*sorted(STRIPPED), f"{EXCEPTION}*"),
    comes_back="what your consumer does",
)


class RetrierDialect(Library):
    """Failure headers written for Retrier."""

    name = "retrier"
    mark = FAILED_QUEUE
    declared = DECLARED

    def recognises(self, properties: Properties, body: bytes = b"") -> bool:  # noqa: ARG002 - the headers say it
        """Say whether the headers name the failed queue."""
        return self.mark in properties.headers

    def read(
        self,
        properties: Properties,
        *,
        otherwise: str | None = None,
        body: bytes = b"",  # noqa: ARG002 - the headers say all of it
        found_on: FoundOn = NOWHERE,  # noqa: ARG002 - and where it failed
    ) -> FailureDetails | Unintelligible:
        """Read the headers; without `otherwise`, the failed queue must be there."""
        queue = properties.text(FAILED_QUEUE) or otherwise
        if queue is None:
            return Unintelligible(f"the header {FAILED_QUEUE} is missing or empty")
        return FailureDetails(
            queue=queue,
            destination=queue,
            endpoint=properties.text(ENDPOINT),
            message_type=properties.text(MESSAGE_TYPE) or amqp_field(properties, "type"),
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

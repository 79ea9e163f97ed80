"""The dialect of NServiceBus endpoints, as ServiceControl reads it."""

from uuid import UUID

from retrier.domain.dialects.dialect import (
    NOWHERE,
    Declared,
    FoundOn,
    Library,
    Unintelligible,
    amqp_field,
)
from retrier.domain.failed_message import FailureDetails
from retrier.domain.headers import COMPLETED_STEPS, STREAM
from retrier.domain.identity import md5_guid
from retrier.domain.times import parse_wire_time
from retrier.domain.wire import Properties

FAILED_QUEUE = "NServiceBus.FailedQ"
TIME_OF_FAILURE = "NServiceBus.TimeOfFailure"
EXCEPTION = "NServiceBus.ExceptionInfo."
MESSAGE_ID = "NServiceBus.MessageId"
MESSAGE_TYPES = "NServiceBus.EnclosedMessageTypes"
TIME_SENT = "NServiceBus.TimeSent"
PROCESSING_ENDPOINT = "NServiceBus.ProcessingEndpoint"
HOST = "$.diagnostics.hostdisplayname"
HOST_ID = "$.diagnostics.hostid"
MACHINE = "NServiceBus.ProcessingMachine"
INSTANCE = "NServiceBus.Metric.InstanceId"
REPLY_TO = "NServiceBus.ReplyToAddress"

STRIPPED_PREFIXES = (
    "NServiceBus.Retries",
    FAILED_QUEUE,
    TIME_OF_FAILURE,
    EXCEPTION,
    "ServiceControl.EditOf",
)
"""Compared case-sensitively (ServiceControl: HeaderFilter.RemoveErrorMessageHeaders)."""

DECLARED = Declared(
    library="NServiceBus",
    recognised_by=f"header `{FAILED_QUEUE}`",
    feeds={
        "queue": f"`{FAILED_QUEUE}`",
        "endpoint": f"`{PROCESSING_ENDPOINT}`, else the queue, else `{REPLY_TO}`",
        "exception_type": f"`{EXCEPTION}ExceptionType`",
        "exception_message": f"`{EXCEPTION}Message`",
        "stack_trace": f"`{EXCEPTION}StackTrace`",
        "time_of_failure": f"`{TIME_OF_FAILURE}`",
        "time_sent": f"`{TIME_SENT}`",
        "message_type": f"first of `{MESSAGE_TYPES}`",
        "message_id": f"`{MESSAGE_ID}`, else `message_id`",
        "host": f"`{HOST}`, `{MACHINE}`",
    },
    removes=tuple(f"{each}*" for each in STRIPPED_PREFIXES),
    varies=(
        *("NServiceBus.DeliverAt", "NServiceBus.Processing*", MESSAGE_ID, TIME_SENT),
        *("NServiceBus.OpenTelemetry*", "NServiceBus.Transport.RabbitMQ.*"),
        *("NServiceBus.Extensibility.Tracing*", "$.diagnostic*"),
    ),
    comes_back="keeps all headers, and confirms a retry with ServiceControl's middleware",
)


class NServiceBusDialect(Library):
    """Failure headers written by an NServiceBus endpoint that gave a message up."""

    name = "nservicebus"
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
        """Read the headers; without `otherwise`, message id and failed queue must be there."""
        queue = _queue_of(properties.text(FAILED_QUEUE)) or otherwise
        if queue is None:
            return Unintelligible(f"the header {FAILED_QUEUE} is missing or empty")
        if self.message_id(properties) is None and otherwise is None:
            return Unintelligible(f"the header {MESSAGE_ID} and the message id are missing")
        return FailureDetails(
            queue=queue,
            destination=queue,
            endpoint=_endpoint(properties),
            message_type=first_type(properties.text(MESSAGE_TYPES)),
            exception_type=properties.text(EXCEPTION + "ExceptionType"),
            exception_message=properties.text(EXCEPTION + "Message"),
            stack_trace=properties.text(EXCEPTION + "StackTrace"),
            time_of_failure=parse_wire_time(properties.text(TIME_OF_FAILURE)),
            time_sent=parse_wire_time(properties.text(TIME_SENT)),
            completed_steps=properties.text(COMPLETED_STEPS),
            stream_id=properties.text(STREAM),
            host=_host(properties),
            host_id=guid_of(properties.text(HOST_ID)),
            node=properties.text(INSTANCE),
        )

    def message_id(self, properties: Properties) -> str | None:
        """Return NServiceBus's message id, else AMQP's."""
        return properties.text(MESSAGE_ID) or amqp_field(properties, "message_id")

    def computed_id(self, message_id: str, endpoint: str) -> str:
        """Return the same id as ServiceControl gives the message (HeaderExtensions.UniqueId)."""
        return md5_guid(message_id + endpoint)


def _endpoint(properties: Properties) -> str | None:
    """Return the endpoint that failed (ServiceControl: HeaderExtensions.ProcessingEndpointName)."""
    return (
        properties.text(PROCESSING_ENDPOINT)
        or _queue_of(properties.text(FAILED_QUEUE))
        or _queue_of(properties.text(REPLY_TO))
    )


def _host(properties: Properties) -> str | None:
    """Return the machine on which it failed; the one that sent the message says nothing of that."""
    address = properties.text(FAILED_QUEUE) or ""
    named = properties.text(HOST) or properties.text(MACHINE)
    return named or address.partition("@")[2] or None


def guid_of(text: str | None) -> str | None:
    """Return it as a hyphenated GUID; NServiceBus writes the digits alone."""
    try:
        return str(UUID(text)) if text else None
    except ValueError:
        return None


def _queue_of(address: str | None) -> str | None:
    """Cut the machine off an address `queue@machine`."""
    return (address.partition("@")[0] or None) if address else None


def first_type(types: str | None) -> str | None:
    """Return the first of the types `Name, Assembly, ...;Name, ...`, without its assembly.

    A generic type has commas of its own, inside brackets.
    """
    first = (types or "").partition(";")[0]
    end = _end_of_name(first) if "[" in first else first.find(",")
    return (first if end < 0 else first[:end]).strip() or None


def _end_of_name(first: str) -> int:
    depth = 0
    for place, letter in enumerate(first):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth <= 0:
            return place
    return -1

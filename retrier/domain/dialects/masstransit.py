"""The dialect of MassTransit: what it writes when it moves a message to `_error` or `_skipped`."""

from dataclasses import replace
from urllib.parse import unquote, urlsplit

from retrier.domain.dialects.dialect import (
    NOT_KNOWN,
    NOWHERE,
    Declared,
    FoundOn,
    Library,
    count,
    is_text,
    table_of,
)
from retrier.domain.failed_message import FailureDetails
from retrier.domain.times import parse_iso_time
from retrier.domain.wire import Properties

REASON = "MT-Reason"
FAULT = "MT-Fault-"
ADDRESS = "MT-Fault-InputAddress"
RETRIES = "MT-Fault-RetryCount"
SKIPPED = "dead-letter"
SUFFIXES = ("_error", "_skipped")
LONGEST_SHOWN = 200
"""Characters of an address that is none."""
_URN = "urn:message:"

DECLARED = Declared(
    library="MassTransit",
    recognised_by=f"header `{REASON}`",
    feeds={
        "queue": f"`{ADDRESS}`, its last part; without that header the error queue without `_error`,"
        " `_skipped`; not known if that is no address",
        "endpoint": f"`{ADDRESS}`, its last part",
        "exception_type": f"`{FAULT}ExceptionType`",
        "exception_message": f"`{FAULT}Message`",
        "stack_trace": f"`{FAULT}StackTrace`",
        "failure_reason": f"`{REASON}`, if that is `{SKIPPED}`: no consumer",
        "time_of_failure": f"`{FAULT}Timestamp`",
        "attempts_reported": f"`{RETRIES}` + 1",
        "message_type": f"`{FAULT}MessageType`, else body: first of `messageType`",
        "message_id": "`message_id`, else body: `messageId`",
        "time_sent": "body: `sentTime`",
        "node": f"`{FAULT}ConsumerType`",
        "host": "`MT-Host-MachineName`",
    },
    removes=(f"{FAULT}*", REASON, "MT-Host-*", "MT-Redelivery-Count"),
    varies=("MT-Activity-Id",),
    comes_back="keeps all headers; its own retries and redeliveries begin anew",
)


class MassTransitDialect(Library):
    """The headers `MT-...`; the body is MassTransit's own envelope, and stays as it is."""

    name = "masstransit"
    mark = REASON
    reads_body = True
    declared = DECLARED

    def recognises(self, properties: Properties, body: bytes = b"") -> bool:  # noqa: ARG002 - the headers say it
        """Say whether MassTransit moved the message."""
        return self.mark in properties.headers

    def read(
        self,
        properties: Properties,
        *,
        otherwise: str | None = None,
        body: bytes = b"",
        found_on: FoundOn = NOWHERE,
    ) -> FailureDetails:
        """Read the fault; a skipped message has none, and only its queue's name says the queue."""
        address = properties.text(ADDRESS)
        named = queue_in(address)
        by_name = NOT_KNOWN if address else _without_suffix(found_on.queue)
        queue = named or otherwise or by_name
        told = table_of(body)
        reason = properties.text(REASON)
        skipped = reason == SKIPPED
        retries = count(properties.headers.get(RETRIES))
        details = FailureDetails(
            queue=queue,
            destination=queue,
            endpoint=named,
            message_type=properties.text(FAULT + "MessageType") or _first_type(told),
            exception_type=properties.text(FAULT + "ExceptionType"),
            exception_message=properties.text(FAULT + "Message")
            or ("no consumer took the message" if skipped else None),
            stack_trace=properties.text(FAULT + "StackTrace"),
            failure_reason=reason if skipped else None,
            time_of_failure=parse_iso_time(properties.text(FAULT + "Timestamp")),
            time_sent=parse_iso_time(is_text(told.get("sentTime"))),
            attempts_reported=1 + (retries or 0),
            id_in_body=None if self.message_id(properties) else is_text(told.get("messageId")),
            host=properties.text("MT-Host-MachineName"),
            process=properties.text("MT-Host-ProcessId"),
            node=properties.text(FAULT + "ConsumerType"),
        )
        return details if named or not address else _with_words(details, address)


def queue_in(address: str | None) -> str | None:
    """Return the queue that an address names: its last part, decoded, without options."""
    try:
        parts = urlsplit(address or "")
    except ValueError:
        return None
    named = unquote(parts.path.rstrip("/").rpartition("/")[2])
    return (named or None) if parts.scheme else None


def _with_words(details: FailureDetails, address: str) -> FailureDetails:
    """Say that what should be an address names no queue, and what stands there."""
    told = f"{ADDRESS} names no queue: {address[:LONGEST_SHOWN]}"
    message = details.exception_message
    return replace(details, exception_message=f"{message}; {told}" if message else told)


def _without_suffix(queue: str) -> str:
    for each in SUFFIXES:
        if queue.endswith(each):
            return queue.removesuffix(each)
    return NOT_KNOWN


def _first_type(told: object) -> str | None:
    match told:
        case {"messageType": [str(first), *_]}:
            return first.removeprefix(_URN) or None
        case _:
            return None

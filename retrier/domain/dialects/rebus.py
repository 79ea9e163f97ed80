"""The dialect of Rebus: messages on its error queue."""

import re

from retrier.domain.dialects.dialect import (
    NOT_KNOWN,
    NOWHERE,
    Declared,
    FoundOn,
    Library,
    amqp_field,
    count,
)
from retrier.domain.dialects.nservicebus import first_type
from retrier.domain.failed_message import FailureDetails
from retrier.domain.times import parse_iso_time
from retrier.domain.wire import Properties

DETAILS = "rbs2-error-details"
QUEUE = "rbs2-source-queue"
DELIVERIES = "rbs2-delivery-count"
MESSAGE_ID = "rbs2-msg-id"

_INNER = re.compile(r"---> (?:\(Inner Exception #\d+\) )?(?P<type>[A-Za-z_][\w.+`]*): (?P<text>.*)")
_OUTER = re.compile(r"(?:^|\s)(?P<type>[A-Za-z_][\w+`]*(?:\.[\w+`]+)+): (?P<text>.*)")
_NUMBER = re.compile(r"(\d{1,9}) unhandled exceptions?")

DECLARED = Declared(
    library="Rebus",
    recognised_by=f"headers `{DETAILS}` and `{QUEUE}`",
    feeds={
        "queue": f"`{QUEUE}`",
        "endpoint": f"`{QUEUE}`",
        "exception_type": f"`{DETAILS}`: that of the first inner exception, else of the outermost",
        "exception_message": f"`{DETAILS}`, its first line",
        "stack_trace": f"`{DETAILS}`",
        "attempts_reported": f"`{DETAILS}`: N unhandled exceptions; else `{DELIVERIES}`",
        "message_type": "`rbs2-msg-type`, without the assembly",
        "message_id": f"`{MESSAGE_ID}`, else `message_id`",
        "time_sent": "`rbs2-senttime`",
    },
    removes=(DETAILS, QUEUE, DELIVERIES),
    varies=("rbs2-senttime", MESSAGE_ID, "rbs2-deferred-*"),
    comes_back="keeps all headers; its counter of deliveries begins anew",
)


class RebusDialect(Library):
    """The headers `rbs2-...` that its error handler adds."""

    name = "rebus"
    mark = QUEUE
    declared = DECLARED

    def recognises(self, properties: Properties, body: bytes = b"") -> bool:  # noqa: ARG002 - the headers say it
        """Say whether Rebus gave the message up."""
        return DETAILS in properties.headers and QUEUE in properties.headers

    def read(
        self,
        properties: Properties,
        *,
        otherwise: str | None = None,
        body: bytes = b"",  # noqa: ARG002 - the headers say all of it
        found_on: FoundOn = NOWHERE,  # noqa: ARG002 - and where it failed
    ) -> FailureDetails:
        """Read the headers. They have no time of failure."""
        named = properties.text(QUEUE)
        queue = named or otherwise or NOT_KNOWN
        told = properties.text(DETAILS) or ""
        number = _NUMBER.search(told)
        thrown = _INNER.search(told) or _OUTER.search(told)
        return FailureDetails(
            queue=queue,
            destination=queue,
            endpoint=named,
            message_type=first_type(properties.text("rbs2-msg-type")),
            exception_type=thrown["type"] if thrown else None,
            exception_message=told.strip().partition("\n")[0].strip() or None,
            stack_trace=told or None,
            time_sent=parse_iso_time(properties.text("rbs2-senttime")),
            attempts_reported=count(number[1])
            if number
            else count(properties.headers.get(DELIVERIES)),
        )

    def message_id(self, properties: Properties) -> str | None:
        """Return Rebus's id, else AMQP's."""
        return properties.text(MESSAGE_ID) or amqp_field(properties, "message_id")

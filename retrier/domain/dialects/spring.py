"""The dialect of Spring AMQP and Spring Cloud Stream: messages that they republish."""

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
from retrier.domain.dialects.rabbitmq import DEATHS, rejecting_queue
from retrier.domain.failed_message import FailureDetails
from retrier.domain.times import from_epoch
from retrier.domain.wire import Properties

EXCHANGE = "x-original-exchange"
KEY = "x-original-routingKey"
MESSAGE = "x-exception-message"
TRACE = "x-exception-stacktrace"
RETRIES = "retry-count"
TYPE = "__TypeId__"
SUFFIX = ".dlq"

_THROWN = re.compile(r"(?:Caused by: )?(?P<type>[A-Za-z_$][\w$.]*)(?:: (?P<text>.*))?")
_CAUSED_BY = "Caused by: "

DECLARED = Declared(
    library="Spring AMQP, Spring Cloud Stream",
    recognised_by=f"headers `{EXCHANGE}` and `{KEY}`",
    feeds={
        "queue": f"`{KEY}` if `{EXCHANGE}` is empty; else a rejection in `{DEATHS}`; else the key with"
        " which an exchange routed it to the error queue, if there is a queue of that name; else the"
        f" error queue without `{SUFFIX}`; else not known",
        "exception_message": f"`{MESSAGE}`",
        "exception_type": f"`{TRACE}`: the class whose text is `{MESSAGE}`, else the first",
        "stack_trace": f"`{TRACE}`",
        "time_of_failure": f"a rejection on the same queue in `{DEATHS}`",
        "attempts_reported": f"`{RETRIES}`",
        "message_type": f"`{TYPE}`, else `type`",
        "message_id": "`message_id`",
        "time_sent": "`timestamp`",
    },
    removes=(MESSAGE, TRACE, EXCHANGE, KEY),
    removes_own=(RETRIES,),
    comes_back="keeps all headers",
)


class SpringDialect(Library):
    """The headers of the republishing recoverers. They name an exchange and no queue."""

    name = "spring"
    mark = EXCHANGE
    declared = DECLARED

    def recognises(self, properties: Properties, body: bytes = b"") -> bool:  # noqa: ARG002 - the headers say it
        """Say whether Spring republished the message."""
        return EXCHANGE in properties.headers and KEY in properties.headers

    def read(
        self,
        properties: Properties,
        *,
        otherwise: str | None = None,
        body: bytes = b"",  # noqa: ARG002 - the headers say all of it
        found_on: FoundOn = NOWHERE,
    ) -> FailureDetails:
        """Read the exception; the queue by the default exchange, a rejection, a key or a name."""
        queue = _queue_of(properties) or otherwise or found_on.routed_as or _suffixed(found_on)
        message, trace = properties.text(MESSAGE), properties.text(TRACE)
        return FailureDetails(
            queue=queue,
            destination=queue,
            message_type=properties.text(TYPE) or amqp_field(properties, "type"),
            exception_type=thrown_type(trace or "", message),
            exception_message=message,
            stack_trace=trace,
            time_sent=from_epoch(properties.fields.get("timestamp")),
            attempts_reported=count(properties.headers.get(RETRIES)),
        )


def _queue_of(properties: Properties) -> str | None:
    """Return the queue, never one of the exchange: that may be bound to others as well."""
    if properties.text(EXCHANGE) is None:
        return properties.text(KEY)
    return rejecting_queue(properties)


def thrown_type(trace: str, message: str | None) -> str | None:
    """Return the class of the exception with that text in a trace of Java, else of the first."""
    found = [
        match
        for place, line in enumerate(trace.splitlines())
        if place == 0 or line.startswith(_CAUSED_BY)
        if (match := _THROWN.fullmatch(line.strip()))
    ]
    of_message = [each for each in found if message and each["text"] == message]
    chosen = next(iter([*of_message[-1:], *found]), None)
    return chosen["type"] if chosen else None


def _suffixed(found_on: FoundOn) -> str:
    queue = found_on.queue
    return queue.removesuffix(SUFFIX) if queue.endswith(SUFFIX) else NOT_KNOWN

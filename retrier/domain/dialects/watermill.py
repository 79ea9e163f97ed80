"""The dialect of watermill: what its middleware PoisonQueue publishes."""

from retrier.domain.dialects.dialect import (
    NOT_KNOWN,
    NOWHERE,
    Declared,
    FoundOn,
    Library,
    amqp_field,
)
from retrier.domain.failed_message import FailureDetails
from retrier.domain.wire import Properties

REASON = "reason_poisoned"
TOPIC = "topic_poisoned"
HANDLER = "handler_poisoned"
SUBSCRIBER = "subscriber_poisoned"
UUID = "_watermill_message_uuid"
LONGEST_KIND = 80

DECLARED = Declared(
    library="watermill",
    recognised_by=f"headers `{REASON}` and `{TOPIC}`",
    feeds={
        "queue": f"`{TOPIC}`: the queue where each topic has one of its name",
        "endpoint": f"`{HANDLER}`",
        "exception_type": f"`{REASON}`, up to the first colon: Go has no types",
        "exception_message": f"`{REASON}`",
        "node": f"`{SUBSCRIBER}`",
        "message_id": f"`{UUID}`, else `message_id`",
        "message_type": "`type`",
    },
    removes=("*_poisoned",),
    comes_back="keeps all headers, which must be texts",
)


class WatermillDialect(Library):
    """The headers `..._poisoned`; body and other metadata are those of the message."""

    name = "watermill"
    mark = TOPIC
    declared = DECLARED

    def recognises(self, properties: Properties, body: bytes = b"") -> bool:  # noqa: ARG002 - the headers say it
        """Say whether the middleware published the message."""
        return REASON in properties.headers and TOPIC in properties.headers

    def read(
        self,
        properties: Properties,
        *,
        otherwise: str | None = None,
        body: bytes = b"",  # noqa: ARG002 - the headers say all of it
        found_on: FoundOn = NOWHERE,  # noqa: ARG002 - and where it failed
    ) -> FailureDetails:
        """Read the headers. They have no time, no trace, and no number of attempts."""
        queue = properties.text(TOPIC) or otherwise or NOT_KNOWN
        reason = properties.text(REASON)
        kind, colon, _ = (reason or "").partition(":")
        return FailureDetails(
            queue=queue,
            destination=queue,
            endpoint=properties.text(HANDLER),
            message_type=amqp_field(properties, "type"),
            exception_type=kind.strip() or None if colon and len(kind) <= LONGEST_KIND else None,
            exception_message=reason,
            node=properties.text(SUBSCRIBER),
        )

    def message_id(self, properties: Properties) -> str | None:
        """Return watermill's id, else AMQP's."""
        return properties.text(UUID) or amqp_field(properties, "message_id")

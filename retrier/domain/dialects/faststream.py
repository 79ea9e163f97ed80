"""The dialect of FastStream: messages that the broker dead-lettered."""

from retrier.domain.dialects.dialect import (
    NOWHERE,
    Declared,
    FoundOn,
    Library,
    Unintelligible,
    amqp_field,
)
from retrier.domain.dialects.rabbitmq import DEATHS, RabbitMqDialect
from retrier.domain.failed_message import FailureDetails
from retrier.domain.wire import Properties

APP = "faststream"

_BROKER = RabbitMqDialect()

DECLARED = Declared(
    library="FastStream",
    recognised_by=f"header `{DEATHS}`, and an `app_id` that begins with `{APP}`",
    feeds={
        "queue": f"`{DEATHS}`, as for RabbitMQ",
        "message_type": "`type`",
        "message_id": "`message_id`",
        "time_sent": "`timestamp`",
    },
    comes_back="a rejection keeps all headers",
)


class FastStreamDialect(Library):
    """What the broker writes. No header says why it failed."""

    name = "faststream"
    mark = DEATHS
    declared = DECLARED

    def recognises(self, properties: Properties, body: bytes = b"") -> bool:  # noqa: ARG002 - its sender says it
        """Say whether the broker dead-lettered a message that FastStream published."""
        app = amqp_field(properties, "app_id") or ""
        return self.mark in properties.headers and app.startswith(APP)

    def read(
        self,
        properties: Properties,
        *,
        otherwise: str | None = None,
        body: bytes = b"",
        found_on: FoundOn = NOWHERE,
    ) -> FailureDetails | Unintelligible:
        """Read the death."""
        return _BROKER.read(properties, otherwise=otherwise, body=body, found_on=found_on)

"""The dialect of NestJS microservices: messages that were dead-lettered."""

import json
from dataclasses import replace

from retrier.domain.dialects.dialect import (
    NOWHERE,
    Declared,
    FoundOn,
    Library,
    Unintelligible,
    amqp_field,
    is_text,
    table_of,
)
from retrier.domain.dialects.rabbitmq import DEATHS, RabbitMqDialect
from retrier.domain.failed_message import FailureDetails
from retrier.domain.wire import Properties

BEGINNING = b'{"pattern":'

_BROKER = RabbitMqDialect()

DECLARED = Declared(
    library="NestJS microservices",
    recognised_by=f"header `{DEATHS}`, and a JSON body that begins with `pattern`",
    feeds={
        "queue": f"`{DEATHS}`, as for RabbitMQ",
        "message_type": "body: `pattern`",
        "message_id": "`message_id`, else body: `id`, which only requests have",
    },
    comes_back="a rejection keeps all headers",
)


class NestJsDialect(Library):
    """What the broker writes; the body says what is called. No header says why it failed."""

    name = "nestjs"
    mark = DEATHS
    reads_body = True
    declared = DECLARED

    def recognises(self, properties: Properties, body: bytes = b"") -> bool:
        """Say whether the broker dead-lettered a call."""
        return self.mark in properties.headers and body.startswith(BEGINNING)

    def read(
        self,
        properties: Properties,
        *,
        otherwise: str | None = None,
        body: bytes = b"",
        found_on: FoundOn = NOWHERE,
    ) -> FailureDetails | Unintelligible:
        """Read the death, and what was called."""
        details = _BROKER.read(properties, otherwise=otherwise, body=body, found_on=found_on)
        if isinstance(details, Unintelligible):
            return details
        told = table_of(body)
        named = amqp_field(properties, "message_id")
        return replace(
            details,
            message_type=_pattern(told.get("pattern")) or details.message_type,
            id_in_body=None if named else is_text(told.get("id")),
        )


def _pattern(value: object) -> str | None:
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return is_text(value)

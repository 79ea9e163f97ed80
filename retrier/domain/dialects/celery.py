"""The dialect of Celery: a task's message that the broker has dead-lettered."""

from dataclasses import replace

from retrier.domain.dialects.dialect import (
    NOWHERE,
    Declared,
    FoundOn,
    Library,
    Unintelligible,
    amqp_field,
    count,
)
from retrier.domain.dialects.rabbitmq import DEATHS, RabbitMqDialect
from retrier.domain.failed_message import FailureDetails
from retrier.domain.headers import ENDPOINT
from retrier.domain.wire import Properties

TASK = "task"
TASK_ID = "id"
RETRIES = "retries"
ORIGIN = "origin"

_BROKER = RabbitMqDialect()

DECLARED = Declared(
    library="Celery, dead-lettered",
    recognised_by=f"header `{DEATHS}` with `{TASK}` and `{TASK_ID}`",
    feeds={
        "queue": f"`{DEATHS}`, as for RabbitMQ",
        "message_type": f"`{TASK}`",
        "message_id": f"`{TASK_ID}`",
        "attempts_reported": f"`{RETRIES}` + 1",
        "endpoint": f"`{ENDPOINT}`",
    },
    comes_back="keeps headers through its own retries; with Retrier's module it confirms",
)


class CeleryDialect(Library):
    """What the broker writes, and the headers of Celery's message protocol 2."""

    name = "celery"
    mark = DEATHS
    declared = DECLARED

    def recognises(self, properties: Properties, body: bytes = b"") -> bool:  # noqa: ARG002 - the headers say it
        """Say whether the broker dead-lettered the message of a task."""
        headers = properties.headers
        named = (headers.get(TASK), headers.get(TASK_ID))
        return self.mark in headers and all(isinstance(each, str) and each for each in named)

    def read(
        self,
        properties: Properties,
        *,
        otherwise: str | None = None,
        body: bytes = b"",
        found_on: FoundOn = NOWHERE,
    ) -> FailureDetails | Unintelligible:
        """Read the death, and which task it was. It has run once, and once for each own retry."""
        details = _BROKER.read(properties, otherwise=otherwise, body=body, found_on=found_on)
        if isinstance(details, Unintelligible):
            return details
        retries = count(properties.headers.get(RETRIES))
        return replace(
            details,
            endpoint=properties.text(ENDPOINT),
            message_type=properties.text(TASK) or details.message_type,
            attempts_reported=details.attempts_reported if retries is None else retries + 1,
        )

    def message_id(self, properties: Properties) -> str | None:
        """Return the id of the task."""
        return properties.text(TASK_ID) or amqp_field(properties, "message_id")

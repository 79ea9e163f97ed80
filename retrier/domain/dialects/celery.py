"""The dialect of Celery: a task's message that the broker has dead-lettered."""

from collections.abc import Mapping
from dataclasses import replace

from retrier.domain.dialects.dialect import Unintelligible, count, field
from retrier.domain.dialects.rabbitmq import DEATHS, RabbitMqDialect
from retrier.domain.failed_message import FailureDetails
from retrier.domain.headers import ENDPOINT
from retrier.domain.wire import Properties

TASK = "task"
TASK_ID = "id"
RETRIES = "retries"
ORIGIN = "origin"

_BROKER = RabbitMqDialect()


class CeleryDialect:
    """What the broker writes, and the headers of Celery's message protocol 2."""

    name = "celery"
    mark = DEATHS
    reads_body = False

    def recognises(self, headers: Mapping[str, object]) -> bool:
        """Say whether the broker dead-lettered the message of a task."""
        named = (headers.get(TASK), headers.get(TASK_ID))
        return self.mark in headers and all(isinstance(each, str) and each for each in named)

    def read(
        self, properties: Properties, *, otherwise: str | None = None, body: bytes = b""
    ) -> FailureDetails | Unintelligible:
        """Read the death, and which task it was. It has run once, and once for each own retry."""
        details = _BROKER.read(properties, otherwise=otherwise, body=body)
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
        return properties.text(TASK_ID) or field(properties, "message_id")

    def computed_id(self, message_id: str, endpoint: str) -> str:
        """Return the unique message id computed from task id and failing endpoint."""
        return _BROKER.computed_id(message_id, endpoint)

    def strips(self, header: str) -> bool:
        """Say whether the broker wrote the header when the message died."""
        return _BROKER.strips(header)

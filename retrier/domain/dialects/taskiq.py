"""The dialect of Taskiq: tasks that the broker dead-lettered."""

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
from retrier.domain.wire import Properties

TASK_ID = "task_id"
TASK_NAME = "task_name"
RETRIES = "_retries"

_BROKER = RabbitMqDialect()

DECLARED = Declared(
    library="Taskiq, taskiq-aio-pika",
    recognised_by=f"headers `{DEATHS}`, `{TASK_ID}` and `{TASK_NAME}`",
    feeds={
        "queue": f"`{DEATHS}`, as for RabbitMQ; an expiry on `<queue>.delay` is a wait",
        "message_type": f"`{TASK_NAME}`",
        "message_id": f"`{TASK_ID}`",
        "attempts_reported": f"`{RETRIES}` + 1",
    },
    removes_own=(RETRIES,),
    varies=(RETRIES, "delay"),
    comes_back="a retry of its own keeps none of the headers",
)


class TaskiqDialect(Library):
    """What the broker writes, and the headers of a task."""

    name = "taskiq"
    mark = DEATHS
    declared = DECLARED

    def recognises(self, properties: Properties, body: bytes = b"") -> bool:  # noqa: ARG002 - the headers say it
        """Say whether the broker dead-lettered a task."""
        return {self.mark, TASK_ID, TASK_NAME} <= properties.headers.keys()

    def read(
        self,
        properties: Properties,
        *,
        otherwise: str | None = None,
        body: bytes = b"",
        found_on: FoundOn = NOWHERE,
    ) -> FailureDetails | Unintelligible:
        """Read the death, and which task it was."""
        details = _BROKER.read(properties, otherwise=otherwise, body=body, found_on=found_on)
        if isinstance(details, Unintelligible):
            return details
        retries = count(properties.headers.get(RETRIES))
        return replace(
            details,
            message_type=properties.text(TASK_NAME) or details.message_type,
            attempts_reported=details.attempts_reported if retries is None else retries + 1,
        )

    def message_id(self, properties: Properties) -> str | None:
        """Return the id of the task: that of AMQP is another one each time."""
        return properties.text(TASK_ID) or amqp_field(properties, "message_id")

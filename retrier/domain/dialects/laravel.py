"""The dialect of laravel-queue-rabbitmq: jobs that were dead-lettered."""

from dataclasses import replace

from retrier.domain.dialects.dialect import (
    NOWHERE,
    Declared,
    FoundOn,
    Library,
    Unintelligible,
    amqp_field,
    count,
    is_text,
    table_of,
)
from retrier.domain.dialects.rabbitmq import DEATHS, RabbitMqDialect
from retrier.domain.failed_message import FailureDetails
from retrier.domain.wire import Properties

LARAVEL = "laravel"

_BROKER = RabbitMqDialect()

DECLARED = Declared(
    library="Laravel, laravel-queue-rabbitmq",
    recognised_by=f"headers `{LARAVEL}` and `{DEATHS}`",
    feeds={
        "queue": f"`{DEATHS}`, as for RabbitMQ; an expiry on `<queue>.delay.<ms>` is a wait",
        "message_type": "body: `displayName`, else `data.commandName`",
        "message_id": "`correlation_id`, else body: `uuid`",
        "attempts_reported": f"`{LARAVEL}`: `attempts` + 1",
    },
    removes_own=(LARAVEL,),
    varies=(LARAVEL,),
    comes_back="a rejection keeps all headers; a release of its own keeps none",
)


class LaravelDialect(Library):
    """What the broker writes, and the job in the body. The cause is in Laravel's own database."""

    name = "laravel"
    mark = DEATHS
    reads_body = True
    declared = DECLARED

    def recognises(self, properties: Properties, body: bytes = b"") -> bool:  # noqa: ARG002 - the headers say it
        """Say whether the broker dead-lettered a job."""
        return LARAVEL in properties.headers and self.mark in properties.headers

    def read(
        self,
        properties: Properties,
        *,
        otherwise: str | None = None,
        body: bytes = b"",
        found_on: FoundOn = NOWHERE,
    ) -> FailureDetails | Unintelligible:
        """Read the death, and which job it was."""
        details = _BROKER.read(properties, otherwise=otherwise, body=body, found_on=found_on)
        if isinstance(details, Unintelligible):
            return details
        told = table_of(body)
        tries = properties.headers.get(LARAVEL)
        number = count(tries.get("attempts")) if isinstance(tries, dict) else None
        id_in_body = is_text(told.get("uuid")) or is_text(told.get("id"))
        return replace(
            details,
            message_type=_job(told) or details.message_type,
            attempts_reported=details.attempts_reported if number is None else number + 1,
            id_in_body=None if self.message_id(properties) else id_in_body,
        )

    def message_id(self, properties: Properties) -> str | None:
        """Return the id of the job: AMQP's message id is not set."""
        named = amqp_field(properties, "message_id")
        return named or amqp_field(properties, "correlation_id")


def _job(told: object) -> str | None:
    match told:
        case {"displayName": str(name)} if name:
            return name
        case {"data": {"commandName": str(name)}} if name:
            return name
        case _:
            return None

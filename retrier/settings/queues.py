"""The error queues the operator names, and what would make them clash."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator

from retrier.settings.fields import Section

Dialect = Literal["nservicebus", "rabbitmq", "retrier"]

_INSTANCE = re.compile(r"[A-Za-z0-9._-]+")
_LONGEST_NAME = 255
"""Bytes of a queue name: a short string in AMQP 0-9-1."""

Place = tuple[int | str, ...]
Clash = tuple[Place, str]


def staging_queue(instance: str) -> str:
    """Name the staging queue of an instance."""
    return f"{instance}.staging"


def _check_instance(instance: str) -> str:
    if not _INSTANCE.fullmatch(instance):
        raise ValueError("must consist of letters, digits, dots, dashes and underscores")
    if staging_queue(instance).startswith("amq."):
        raise ValueError("must not begin with amq: brokers keep such queue names to themselves")
    _check_queue_name(staging_queue(instance))
    return instance


def _check_queue_name(name: str) -> str:
    if not 1 <= len(name.encode(errors="replace")) <= _LONGEST_NAME:
        raise ValueError(f"must be a queue name of 1 to {_LONGEST_NAME} bytes")
    return name


InstanceName = Annotated[str, AfterValidator(_check_instance)]
QueueName = Annotated[str, AfterValidator(_check_queue_name)]


class ErrorQueue(Section):
    """A queue on which failed messages arrive, and what its messages cannot say themselves."""

    queue: QueueName
    dialect: Dialect | None = None
    destination: QueueName | None = None


def _read_error_queue(value: object) -> object:
    return {"queue": value} if isinstance(value, str) else value


def find_clashes(tree: Mapping[str, object], instance: object) -> Iterator[Clash]:
    """Find the queues that cannot be used together, with the place of each in the tree.

    It looks at values not checked yet, so that one wrong queue does not hide another.
    """
    queues = _list_queues(tree)
    names = [each.get("queue") for each in queues]
    staging = staging_queue(str(instance))
    for index, each in enumerate(queues):
        place = ("ingestion", "error_queues", index)
        name, destination = each.get("queue"), each.get("destination")
        if name is not None and name in names[:index]:
            yield place, f"{name} is listed twice"
        if name == staging:
            yield place, f"{name} is the staging queue of this instance"
        if destination is not None and destination in [*names, staging]:
            yield (*place, "destination"), f"{destination} is a queue that Retrier itself empties"


def _list_queues(tree: Mapping[str, object]) -> list[Mapping[str, object]]:
    match tree:
        case {"ingestion": {"error_queues": [*entries]}}:
            return [each if isinstance(each, dict) else {"queue": each} for each in entries]
        case _:
            return []


ErrorQueues = tuple[Annotated[ErrorQueue, BeforeValidator(_read_error_queue)], ...]

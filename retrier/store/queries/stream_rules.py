"""The rules about streams, each with the query for the rows that break it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy import Select, select

from retrier.store.schema import failed_messages, retry_operations

messages = failed_messages.c
operations = retry_operations.c


def _in_half_a_stream() -> Select[str]:
    return select(messages.unique_message_id).where(
        messages.stream_id.is_(None) != messages.stream_queue.is_(None)
    )


def _looks_again_for_nothing() -> Select[str]:
    return select(operations.operation_id).where(
        operations.look_again_at.is_not(None), operations.passed_over.is_(False)
    )


STREAM_RULES: Mapping[str, Select[Any]] = MappingProxyType(
    {
        "a message of a stream names its queue": _in_half_a_stream(),
        "only an operation that is passed over looks again": _looks_again_for_nothing(),
    }
)
"""Each query returns the ids of the rows that break the rule."""

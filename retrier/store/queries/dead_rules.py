"""The rules for dead messages and their notices, each with the query for rows that break it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy import Select, select

from retrier.domain.copies import NOTICE_ID
from retrier.domain.failed_message import Disposition
from retrier.domain.retry_operation import RetryType
from retrier.store.schema import failed_messages, outgoing, retry_operations

messages = failed_messages.c
operations = retry_operations.c


def _dead_for_no_reason() -> Select[str]:
    dead = messages.disposition == Disposition.DEAD
    return select(messages.unique_message_id).where(dead, messages.disposition_reason.is_(None))


def _nameless() -> Select[int]:
    notice = outgoing.c.notice
    nameless = notice[NOTICE_ID].as_string().is_(None)
    return select(outgoing.c.outgoing_id).where(notice.is_not(None), nameless)


def _left_out_though_named() -> Select[str]:
    single = operations.retry_type == RetryType.SINGLE_MESSAGE
    return select(operations.operation_id).where(single, operations.dead_left_out > 0)


DEAD_RULES: Mapping[str, Select[Any]] = MappingProxyType(
    {
        "a dead message says why it is dead": _dead_for_no_reason(),
        "a notice that waits to be sent has its id": _nameless(),
        "an operation for one message leaves out no dead ones": _left_out_though_named(),
    }
)
"""Each query returns the ids of the rows that break the rule."""

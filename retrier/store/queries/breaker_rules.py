"""What must hold of breakers and of what they count."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy import ColumnElement, Select, String, cast, exists, select

from retrier.store.schema import (
    breaker_counts,
    breakers,
    failed_message_retries,
    failed_messages,
)

claims = failed_message_retries.c
counts = breaker_counts.c


def _is_missing(breaker_id: ColumnElement[int]) -> ColumnElement[bool]:
    return ~exists().where(breakers.c.breaker_id == breaker_id)


def _claims_of_none() -> Select[str]:
    return (
        select(failed_messages.c.unique_message_id)
        .join_from(
            failed_message_retries, failed_messages, failed_messages.c.number == claims.number
        )
        .where(claims.breaker_id.is_not(None), _is_missing(claims.breaker_id))
    )


def _counts_of_none() -> Select[str]:
    return select(cast(counts.breaker_id, String)).where(_is_missing(counts.breaker_id))


BREAKER_RULES: Mapping[str, Select[Any]] = MappingProxyType(
    {
        "a claim that a breaker counts names one that is there": _claims_of_none(),
        "what was counted names a breaker that is there": _counts_of_none(),
    }
)

"""The rules for what policies decided about messages and failures."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy import Select, and_, or_, select

from retrier.domain.failed_message import Disposition, FailedMessageStatus
from retrier.store.schema import failed_messages, processing_attempts

attempts = processing_attempts.c
messages = failed_messages.c

_SCHEDULED = messages.disposition == Disposition.SCHEDULED


def _scheduled_by_none() -> Select[str]:
    return select(messages.unique_message_id).where(_SCHEDULED, messages.policy.is_(None))


def _scheduled_copies() -> Select[str]:
    return select(messages.unique_message_id).where(_SCHEDULED, messages.maybe_copy_of.is_not(None))


def _sent_against_a_word() -> Select[str]:
    on_its_way = messages.status == FailedMessageStatus.RETRY_ISSUED
    return select(messages.unique_message_id).where(
        or_(_SCHEDULED, on_its_way), messages.last_word.is_not(None)
    )


def _decided_though_settled() -> Select[str]:
    settled = messages.status != FailedMessageStatus.UNRESOLVED
    left = or_(messages.policy.is_not(None), messages.disposition_reason.is_not(None))
    return select(messages.unique_message_id).where(settled, left)


def _uncounted() -> Select[str]:
    """One that failed is counted; only a retry that a person asked for begins at 0."""
    decided = and_(messages.policy.is_not(None), messages.failure_count == 0)
    return select(messages.unique_message_id).where(decided)


def _attempts_half_decided() -> Select[int]:
    timed = attempts.retry_at.is_not(None)
    scheduled = attempts.disposition == Disposition.SCHEDULED
    decided, counted = attempts.disposition.is_not(None), attempts.failure_count.is_not(None)
    return select(attempts.attempt_id).where(
        or_(
            and_(decided, ~counted),
            and_(counted, ~decided),
            and_(scheduled, or_(~timed, attempts.policy.is_(None))),
            and_(timed, or_(~decided, ~scheduled)),
        )
    )


POLICY_RULES: Mapping[str, Select[Any]] = MappingProxyType(
    {
        "a message that is scheduled names the policy that decided": _scheduled_by_none(),
        "a message that may be a copy of another is not scheduled": _scheduled_copies(),
        "a message with a person's last word is neither scheduled nor on its way": (
            _sent_against_a_word()
        ),
        "a message that is not unresolved has no decision": _decided_though_settled(),
        "a message about which a policy decided counts a failure": _uncounted(),
        "an attempt has its decision with a count, and the time of a retry if it is scheduled": (
            _attempts_half_decided()
        ),
    }
)
"""Each query returns the ids of the rows that break the rule."""

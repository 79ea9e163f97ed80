"""The rules for what messages, attempts, causes and failed imports say of each other."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy import Select, exists, select

from retrier.domain.failed_message import Resolution, RetryEnd
from retrier.store.schema import (
    causes,
    ended_retries,
    failed_import_sends,
    failed_imports,
    failed_message_retries,
    failed_messages,
    message_texts,
    outgoing,
    processing_attempts,
)

attempts = processing_attempts.c
ended = ended_retries.c
messages = failed_messages.c


def _showing_no_attempt() -> Select[str]:
    own = exists().where(
        attempts.attempt_id == messages.attempt_id,
        attempts.number == messages.number,
        attempts.cause_id == messages.cause_id,
    )
    return select(messages.unique_message_id).where(~own)


def _of_no_message() -> Select[int]:
    known = exists().where(messages.number == attempts.number)
    return select(attempts.attempt_id).where(~known)


def _without_body() -> Select[int]:
    holder = processing_attempts.alias().c
    held = exists().where(
        holder.attempt_id == attempts.same_body_as,
        holder.number == attempts.number,
        holder.body_hash == attempts.body_hash,
        holder.body.is_not(None),
    )
    return select(attempts.attempt_id).where(attempts.same_body_as.is_not(None), ~held)


def _without_cause() -> Select[int]:
    known = exists().where(causes.c.cause_id == attempts.cause_id)
    return select(attempts.attempt_id).where(~known)


def _ended_of_none() -> Select[int]:
    known = exists().where(messages.number == ended.number)
    return select(ended.number).where(~known)


def _ended_though_claimed() -> Select[str]:
    """A retry has a claim or has ended, never both: its id is not used again."""
    claims = failed_message_retries.c
    claimed = exists().where(claims.number == ended.number, claims.retry_id == ended.retry_id)
    return select(ended.retry_id).where(claimed)


def _sent_of_none() -> Select[str]:
    """A foreign key forbids it; whoever deletes by hand on SQLite has it looked at by nobody."""
    sends = failed_import_sends.c
    kept = exists().where(failed_imports.c.import_id == sends.import_id)
    return select(sends.import_id).where(~kept)


def _copied_of_none() -> Select[int]:
    own = exists().where(
        attempts.attempt_id == outgoing.c.attempt_id, attempts.number == outgoing.c.number
    )
    return select(outgoing.c.outgoing_id).where(~own)


def _presumed_unsent() -> Select[str]:
    sent = exists().where(
        ended.number == messages.number,
        ended.retry_id == messages.last_retry_id,
        ended.outcome == RetryEnd.PRESUMED,
        ended.forwarded_at.is_not(None),
    )
    presumed = messages.resolution == Resolution.PRESUMED
    return select(messages.unique_message_id).where(presumed, ~sent)


def _without_text() -> Select[str]:
    known = exists().where(message_texts.c.text_id == messages.text_id)
    return select(messages.unique_message_id).where(~known)


CONTENT_RULES: Mapping[str, Select[Any]] = MappingProxyType(
    {
        "a message shows one of its own attempts, with the same cause": _showing_no_attempt(),
        "the text by which a message is found is there": _without_text(),
        "every attempt is of a message that is there": _of_no_message(),
        "an attempt without a body names one of its message's that has it": _without_body(),
        "the cause of every attempt is there": _without_cause(),
        "every outgoing row names an attempt that is there": _copied_of_none(),
        "every ended retry is of a message that is there": _ended_of_none(),
        "a retry that has ended has no claim": _ended_though_claimed(),
        "what is being sent of failed imports is kept until it is recorded": _sent_of_none(),
        "a message presumed to have succeeded was sent": _presumed_unsent(),
    }
)

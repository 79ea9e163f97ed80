"""The reasons of failures as SQL conditions: what they are classified under, or the headers' word."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Select, and_, or_, select

from retrier.policy.reasons import GATEWAY_CODES, HANDLER_EXCEPTION, find_named
from retrier.store.engine.sql_dialect import SqlDialect
from retrier.store.schema import causes, failed_messages

messages = failed_messages.c


def has_reason(
    wanted: str, *, among: Sequence[int] | None = None, sql: SqlDialect | None = None
) -> ColumnElement[bool]:
    """Return the condition that a failure is classified under a reason, or names it in its headers.

    The word of the headers counts as well: it is what people see in titles of groups, and messages
    that were stored before reasons were derived have nothing else. What an application calls a
    built-in reason is understood as in its headers (`TransportUnavailable`, 1). `among` are the ids of the causes
    with that word, if the caller has looked them up.
    """
    named = None if wanted in GATEWAY_CODES else find_named(wanted)
    classified = messages.reason == wanted
    if named not in (None, wanted):
        classified = messages.reason.in_([wanted, named])
    if named == HANDLER_EXCEPTION:
        # As a word it says nothing: it counts only for what was stored before there were reasons.
        unclassified = messages.reason.is_(None)
        return or_(classified, and_(unclassified, messages.cause_id.in_(causes_of_word(wanted))))
    if among is None or sql is None:
        return or_(classified, messages.cause_id.in_(causes_of_word(wanted)))
    return or_(classified, sql.member(messages.cause_id, among)) if among else classified


def causes_of_word(wanted: str) -> Select[tuple[int]]:
    """Return the query for the causes whose headers have this word."""
    return select(causes.c.cause_id).where(causes.c.failure_reason == wanted)

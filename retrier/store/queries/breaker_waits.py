"""What waits for breakers: said of a message, and of groups."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, exists, func, or_, select

from retrier.domain.breakers import Breaker, BreakerKey, BreakerState, Per, why_waiting
from retrier.domain.failed_message import FailedMessageStatus
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.breakers import all_breakers, find_not_closed
from retrier.store.schema import (
    cause_groups,
    causes,
    failed_message_retries,
    failed_messages,
    message_redirects,
)

messages = failed_messages.c
_TARGET = func.coalesce(message_redirects.c.to_queue, causes.c.destination)


def why_each_waits(tx: Transaction, numbers: Sequence[int]) -> Mapping[int, str]:
    """Say of these messages, by number, for which breaker they wait; of others nothing."""
    return _why_waiting(tx, tx.sql.member(messages.number, sorted(numbers))) if numbers else {}


def _why_waiting(tx: Transaction, named: ColumnElement[bool]) -> Mapping[int, str]:
    words = _find_words(tx)
    if not words:
        return {}
    claimed = exists().where(failed_message_retries.c.number == messages.number)
    query = (
        _targets(messages.number, _TARGET, causes.c.message_type)
        .join(failed_messages, messages.cause_id == causes.c.cause_id)
        .where(named, messages.status == FailedMessageStatus.UNRESOLVED, ~claimed)
    )
    found = ((row[0], _first(words, row[1], row[2])) for row in tx.execute(query))
    return {number: why for number, why in found if why is not None}


def find_groups(tx: Transaction, group_ids: Sequence[str]) -> Mapping[str, str]:
    """Say of those groups for which breaker messages of them wait."""
    words = _find_words(tx)
    if not words or not group_ids:
        return {}
    query = (
        _targets(cause_groups.c.group_id, _TARGET, causes.c.message_type)
        .join(cause_groups, cause_groups.c.cause_id == causes.c.cause_id)
        .where(
            tx.sql.member(cause_groups.c.group_id, group_ids),
            _is_for(words),
            # Asked of each cause, of which there are few: a message of it that is unresolved.
            exists().where(
                messages.cause_id == causes.c.cause_id,
                messages.status == FailedMessageStatus.UNRESOLVED,
            ),
        )
        .distinct()
    )
    found = ((row[0], _first(words, row[1], row[2])) for row in tx.execute(query))
    return {group_id: why for group_id, why in found if why is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenByPeople:
    """All breakers at a time of the database, those that are not closed first.

    `causes` gives, for those that are not closed, the causes of the messages that wait for them.
    """

    breakers: tuple[Breaker, ...]
    at: datetime
    causes: Mapping[BreakerKey, frozenset[int]]

    @property
    def waiting(self) -> Mapping[Breaker, str]:
        """The breakers for which messages wait, with what is said of each."""
        told = {each: why_waiting(each, self.at) for each in self.breakers}
        return {each: why for each, why in told.items() if why is not None}


@reading
def show_breakers(tx: Transaction) -> SeenByPeople:
    """Return all breakers, and what waits for them. Raises DatabaseUnavailable."""
    found = all_breakers(tx)
    held = [each.key for each in found if each.state_at(tx.now) is not BreakerState.CLOSED]
    return SeenByPeople(breakers=found, at=tx.now, causes=_find_causes(tx, held))


@reading
def find_causes_of(tx: Transaction, key: BreakerKey) -> frozenset[int]:
    """Return the causes of the messages that a breaker is for. Raises DatabaseUnavailable."""
    return _find_causes(tx, [key])[key]


def _find_causes(
    tx: Transaction, keys: Sequence[BreakerKey]
) -> Mapping[BreakerKey, frozenset[int]]:
    if not keys:
        return {}
    found: dict[BreakerKey, set[int]] = {key: set() for key in keys}
    query = _targets(causes.c.cause_id, _TARGET, causes.c.message_type).where(_is_for(keys))
    for cause_id, *names in tx.execute(query):
        for per, name in zip(Per, names, strict=True):
            found.get(BreakerKey(per=per, name=name or ""), set()).add(cause_id)
    return {key: frozenset(ids) for key, ids in found.items()}


def _is_for(keys: Iterable[BreakerKey]) -> ColumnElement[bool]:
    names: dict[Per, list[str]] = {per: [] for per in Per}
    for key in keys:
        names[key.per].append(key.name)
    of_type = causes.c.message_type.in_(names[Per.MESSAGE_TYPE])
    return or_(_TARGET.in_(names[Per.DESTINATION]), of_type)


def _targets(*columns: Any) -> Select[Any]:
    return select(*columns).outerjoin_from(
        causes, message_redirects, message_redirects.c.from_queue == causes.c.destination
    )


def _find_words(tx: Transaction) -> Mapping[BreakerKey, str]:
    """Return what is said of the breakers for which messages wait now."""
    said = ((each.key, why_waiting(each, tx.now)) for each in find_not_closed(tx))
    return {key: words for key, words in said if words is not None}


def _first(words: Mapping[BreakerKey, str], queue: str, message_type: str | None) -> str | None:
    by_queue = words.get(BreakerKey(per=Per.DESTINATION, name=queue))
    by_type = words.get(BreakerKey(per=Per.MESSAGE_TYPE, name=message_type or ""))
    return by_queue or by_type

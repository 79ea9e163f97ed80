"""Selections of failed messages as SQL conditions and as JSON, and their messages in chunks."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Select, exists, false, select

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.identity import canonical, is_guid
from retrier.domain.selection import NAMES, Selection, named_parts
from retrier.store.engine.database import reading
from retrier.store.engine.sql_dialect import Counter
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import cause_groups, causes, failed_message_retries, failed_messages

messages = failed_messages.c
claims = failed_message_retries.c
members = cause_groups.c

Condition = ColumnElement[bool]

MOST_CAUSES = 1000
"""Causes that are looked up before the messages, at most."""


def conditions(selection: Selection) -> list[Condition]:
    """Return the conditions, to be joined by AND; there is none for named ids."""
    wanted = _causes_of(selection)
    of_cause = [] if wanted is None else [messages.cause_id.in_(wanted)]
    return [*_of_row(selection), *of_cause]


def conditions_looked_up(tx: Transaction, selection: Selection) -> list[Condition]:
    """Return the same conditions, with the ids of causes looked up first.

    With ids in the statement, PostgreSQL knows from its statistics how many messages match: it
    reads few by their index, and many by a scan. With a subquery it cannot know.
    """
    wanted = _causes_of(selection)
    if wanted is None:
        return conditions(selection)
    found = tx.execute(wanted.limit(MOST_CAUSES + 1)).scalars().all()
    if len(found) > MOST_CAUSES:
        return conditions(selection)
    return [*_of_row(selection), tx.sql.member(messages.cause_id, found)]


def to_json(selection: Selection) -> dict[str, object]:
    """Return the JSON of an operation's row: of ids only how many, as they have their own rows."""
    parts: dict[str, object] = dict(named_parts(selection))
    if selection.ids is not None:
        parts["ids"] = len(selection.ids)
    return parts


def from_json(parts: Mapping[str, object]) -> Selection:
    """Return the selection of an operation's row; `ids` is empty, as they have their own rows."""
    texts = {name: str(parts[name]) for name in NAMES if name in parts}
    by_name: tuple[str, ...] | None = () if "ids" in parts else None
    return Selection(
        ids=by_name,
        group=texts.get("group"),
        queue=texts.get("queue"),
        endpoint=texts.get("endpoint"),
        exception_type=texts.get("exception_type"),
        message_type=texts.get("message_type"),
    )


def _of_row(selection: Selection) -> Iterator[Condition]:
    if selection.statuses is not None:
        yield _has_status(selection.statuses)
    if selection.up_to is not None:
        yield messages.failure_seq <= selection.up_to
    if selection.modified is not None:
        yield messages.last_modified.between(*selection.modified)
    if selection.id_range is not None:
        first, last = selection.id_range.first, selection.id_range.last
        yield messages.unique_message_id.between(first, last)
    if selection.pending:
        yield exists().where(claims.number == messages.number, *sent(selection.sent_before))


def sent(before: datetime | None) -> Iterator[Condition]:
    """Yield the conditions that a claim is recorded as forwarded, and by that time."""
    yield claims.forwarded_at.is_not(None)
    if before is not None:
        yield claims.forwarded_at <= before


def _has_status(statuses: frozenset[FailedMessageStatus]) -> Condition:
    if len(statuses) == 1:
        return messages.status == next(iter(statuses))
    return messages.status.in_(sorted(statuses))


def _causes_of(selection: Selection) -> Select[tuple[int]] | None:
    parts = (
        (causes.c.queue, selection.queue),
        (causes.c.endpoint, selection.endpoint),
        (causes.c.exception_type, selection.exception_type),
        (causes.c.message_type, selection.message_type),
    )
    alike = [column == value for column, value in parts if value is not None]
    if selection.group is None:
        return select(causes.c.cause_id).where(*alike) if alike else None
    in_group = _causes_in(selection.group)
    if not alike:
        return in_group
    return in_group.join(causes, causes.c.cause_id == members.cause_id).where(*alike)


def _causes_in(group: str) -> Select[tuple[int]]:
    # No group has another kind of id, and PostgreSQL refuses to compare that with a `uuid`.
    in_group = members.group_id == canonical(group) if is_guid(group) else false()
    return select(members.cause_id).where(in_group)


CHUNK = 1000
"""How many messages one transaction changes at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Unique message ids, and the number of the last one, where the next chunk begins."""

    unique_ids: tuple[str, ...]
    last: int


@reading
def last_number(tx: Transaction) -> int:
    """Return the failure number at which a bulk act ends. Raises DatabaseUnavailable."""
    return tx.sql.last_number(tx.conn, Counter.FAILURE_SEQ)


@reading
def find_chunk(tx: Transaction, selection: Selection, after: int) -> Chunk | None:
    """Return the next messages after the number `after`, at most CHUNK; None at the end.

    In order of number, so that all chunks together read the table once. Raises DatabaseUnavailable.
    """
    query = (
        select(messages.number, messages.unique_message_id)
        .where(messages.number > after, *conditions(selection))
        .order_by(messages.number)
        .limit(CHUNK)
    )
    rows = tx.execute(query).all()
    if not rows:
        return None
    return Chunk(unique_ids=tuple(row.unique_message_id for row in rows), last=rows[-1].number)

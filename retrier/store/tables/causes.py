"""Causes (`causes`, `cause_groups`, `failure_groups`): added at the first failure that has one."""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import select

from retrier.domain.cause import Cause
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import cause_groups, causes, failure_groups
from retrier.store.tables.texts import short

Numbered = Mapping[str, int]
"""The numbers of causes by their fingerprints."""


def identify(tx: Transaction, wanted: Iterable[Cause]) -> Numbered:
    """Return the numbers of these causes, of new ones too, by fingerprint."""
    distinct = {cause.fingerprint: cause for cause in wanted}
    if not distinct:
        return {}
    known = _find(tx, list(distinct))
    new = [distinct[key] for key in sorted(distinct.keys() - known.keys())]
    return {**known, **_add(tx, new)} if new else known


def _find(tx: Transaction, fingerprints: Sequence[str]) -> dict[str, int]:
    column = causes.c.fingerprint
    query = select(column, causes.c.cause_id).where(tx.sql.member(column, fingerprints))
    return {row[0]: row[1] for row in tx.execute(query)}


def _add(tx: Transaction, new: Sequence[Cause]) -> dict[str, int]:
    """Add causes in one order everywhere: two instances that add the same must not deadlock."""
    rows = [
        {
            "fingerprint": cause.fingerprint,
            "queue": short(cause.queue),
            "destination": short(cause.destination),
            "endpoint": short(cause.endpoint),
            "message_type": short(cause.message_type),
            "exception_type": short(cause.exception_type),
            "failure_reason": short(cause.failure_reason),
            "exception_message": short(cause.exception_message),
            "created_at": tx.now,
        }
        for cause in new
    ]
    tx.execute(tx.sql.insert(causes).on_conflict_do_nothing(), rows)
    # Another process may have added some of them meanwhile: their numbers are as good.
    numbers = _find(tx, [cause.fingerprint for cause in new])
    _add_groups(tx, new)
    members = sorted(
        (numbers[cause.fingerprint], group.group_id) for cause in new for group in cause.groups
    )
    if members:
        tx.execute(
            tx.sql.insert(cause_groups).on_conflict_do_nothing(),
            [{"cause_id": number, "group_id": group_id} for number, group_id in members],
        )
    return numbers


def _add_groups(tx: Transaction, new: Sequence[Cause]) -> None:
    groups = {group.group_id: group for cause in new for group in cause.groups}
    rows = [
        {
            "group_id": key,
            "classifier": groups[key].classifier,
            "title": short(groups[key].title) or "",
        }
        for key in sorted(groups)
    ]
    if rows:
        tx.execute(tx.sql.insert(failure_groups).on_conflict_do_nothing(), rows)

"""Causes (`causes`, `cause_groups`, `failure_groups`): each is added at its first failure."""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import select

from retrier.domain.failed_message import Cause
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import cause_groups, causes, failure_groups
from retrier.store.tables.event_log import short

_TEXTS = [
    "queue",
    "destination",
    "endpoint",
    "message_type",
    "exception_type",
    "failure_reason",
    "exception_message",
]

Numbered = Mapping[str, int]
"""The ids of causes by their fingerprints."""


def identify(tx: Transaction, wanted: Iterable[Cause]) -> Numbered:
    """Return the ids of these causes by fingerprint; adds those that are new."""
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
    """Add causes in order of fingerprint: two instances that add the same must not deadlock."""
    columns: dict[str, list[str | None]] = {
        name: [short(getattr(cause, name)) for cause in new] for name in _TEXTS
    }
    columns["fingerprint"] = [cause.fingerprint for cause in new]
    tx.sql.add_missing(tx.conn, causes, columns, {"created_at": tx.now})
    # Read all ids back: another process may have added some of these causes meanwhile.
    numbers = _find(tx, [cause.fingerprint for cause in new])
    _add_groups(tx, new)
    members = sorted(
        (numbers[cause.fingerprint], group.group_id) for cause in new for group in cause.groups
    )
    if members:
        ids, group_ids = zip(*members, strict=True)
        tx.sql.add_missing(tx.conn, cause_groups, {"cause_id": ids, "group_id": group_ids}, {})
    return numbers


def _add_groups(tx: Transaction, new: Sequence[Cause]) -> None:
    groups = {group.group_id: group for cause in new for group in cause.groups}
    keys = sorted(groups)
    columns = {
        "group_id": keys,
        "classifier": [groups[key].classifier for key in keys],
        "title": [short(groups[key].title) or "" for key in keys],
    }
    if keys:
        tx.sql.add_missing(tx.conn, failure_groups, columns, {})

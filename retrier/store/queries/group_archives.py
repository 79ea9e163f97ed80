"""What archive operations do to the groups of a list: those alive, and those just completed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from sqlalchemy import or_, select

from retrier.domain.archive_operation import (
    Act,
    ArchiveOperation,
    parts_to_store,
)
from retrier.domain.identity import canonical, is_guid
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.archive_operations import OPEN, archive_from_row
from retrier.store.queries.groups import GroupCount, find_uncounted
from retrier.store.queries.selections import Condition
from retrier.store.schema import archive_operations

columns = archive_operations.c

SHOWN_FOR = timedelta(days=1)
"""How long a completed operation is shown with its group unless a person takes note of it."""


@reading
def add_archives(
    tx: Transaction, counted: Sequence[GroupCount], classifier: str, title: str | None = None
) -> tuple[GroupCount, ...]:
    """Return the groups with what archives them, and other groups that are archived, too.

    Of a retry and an archive that are over the later one is shown. Raises DatabaseUnavailable.
    """
    found = dict(list_group_archives(tx))  # the newest of each group
    emptied = found.keys() - {each.group.group_id for each in counted}
    more = find_uncounted(tx, sorted(emptied), classifier, title) if emptied else ()
    return tuple(replace(each, archive=_shown(each, found)) for each in (*counted, *more))


def list_group_archives(tx: Transaction) -> Sequence[tuple[str, ArchiveOperation]]:
    """Return what archives whole groups, or did so lately, with the group's id; the oldest first.

    Without those that a person has taken note of.
    """
    query = (
        select(archive_operations)
        .where(columns.act == Act.ARCHIVE, columns.acknowledged_at.is_(None), _is_shown(tx))
        .order_by(columns.created_at)
    )
    found = (archive_from_row(dict(row)) for row in tx.execute(query).mappings())
    named = ((each.selection.group, each) for each in found)
    return [(canonical(group), each) for group, each in named if group and _is_whole(each, group)]


def _is_whole(each: ArchiveOperation, group: str) -> bool:
    """Say whether it was asked for by the group and nothing else."""
    return is_guid(group) and parts_to_store(each.selection) == {"group": group}


def _is_shown(tx: Transaction) -> Condition:
    lately = columns.completed_at > tx.now - SHOWN_FOR
    return or_(columns.state.in_(OPEN), lately)


def _shown(each: GroupCount, found: Mapping[str, ArchiveOperation]) -> ArchiveOperation | None:
    """Return its archive, unless its retry is alive while that is over, or ended later."""
    archive, retry = found.get(each.group.group_id), each.operation
    if archive is None or archive.completed_at is None or retry is None:
        return archive
    if retry.completed_at is None or retry.completed_at > archive.completed_at:
        return None
    return archive

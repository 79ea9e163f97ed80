"""Saved views (`saved_views`): a list with its conditions, under a name that is there once."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, delete, func, select, update

from retrier.domain.views import MOST_VIEWS, SavedView, View, ViewList, ViewRefusal
from retrier.store import event_log
from retrier.store.engine.database import reading, writing
from retrier.store.engine.sql_dialect import by_code_point
from retrier.store.engine.transaction import Transaction
from retrier.store.event_log import Entry
from retrier.store.schema import saved_views

views = saved_views.c


@reading
def list_views(tx: Transaction, *, shows_content: bool) -> Sequence[SavedView]:
    """Return the views by name, without `shows_content` none that finds by what stands in messages.

    Raises DatabaseUnavailable.
    """
    query = select(saved_views).order_by(by_code_point(views.name))
    found = [_from_row(row) for row in tx.execute(query)]
    return [each for each in found if shows_content or not each.view.is_of_content]


@reading
def find_view(tx: Transaction, name: str, *, shows_content: bool) -> SavedView | None:
    """Return the view of this name, or None: also for one that `list_views` leaves out.

    Raises DatabaseUnavailable.
    """
    row = tx.execute(select(saved_views).where(views.name == name)).one_or_none()
    found = None if row is None else _from_row(row)
    is_hidden = found is not None and found.view.is_of_content and not shows_content
    return None if is_hidden else found


@writing
def save_view(
    tx: Transaction, view: View, who: str, version: int | None
) -> SavedView | ViewRefusal:
    """Save a view, in place of the one with this version if one is named; return why not, or it.

    Raises DatabaseUnavailable.
    """
    told = {"page": view.page, "query": view.query, "who": who, "saved_at": tx.now}
    saved = SavedView(view=view, who=who, saved_at=tx.now, version=(version or 0) + 1)
    if version is not None:
        mine = update(saved_views).where(views.name == view.name, views.version == version)
        if not tx.execute(mine.values(**told, version=saved.version)).rowcount:
            return ViewRefusal.CHANGED
    else:
        if tx.execute(select(func.count()).select_from(saved_views)).scalar_one() >= MOST_VIEWS:
            return ViewRefusal.TOO_MANY
        insert = tx.sql.insert(saved_views).values(name=view.name, version=saved.version, **told)
        # Two requests at the same time leave one row, and one of them is told.
        made = insert.on_conflict_do_nothing(index_elements=["name"]).returning(views.name)
        if tx.execute(made).first() is None:
            return ViewRefusal.TAKEN
    # The event log is read by everybody.
    shows = "a list by what stands in messages" if view.is_of_content else view.path
    _note(tx, "view_saved", f"the view {view.name}: {shows}", who)
    return saved


@writing
def delete_view(tx: Transaction, name: str, who: str) -> bool:
    """Delete a view; say whether there was one. Raises DatabaseUnavailable."""
    gone = tx.execute(delete(saved_views).where(views.name == name)).rowcount > 0
    if gone:
        _note(tx, "view_deleted", f"the view {name}", who)
    return gone


def _from_row(row: Row[Any]) -> SavedView:
    view = View(name=row.name, page=ViewList(row.page), query=row.query)
    return SavedView(view=view, who=row.who, saved_at=row.saved_at, version=row.version)


def _note(tx: Transaction, kind: str, text: str, who: str) -> None:
    event_log.append(tx, [Entry(kind=kind, text=text, who=who)])

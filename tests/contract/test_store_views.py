"""Saved views on both databases: a name is there once, and is replaced by version."""

from threading import Barrier, Thread

import pytest

from retrier.domain.views import MOST_VIEWS, SavedView, View, ViewList, ViewRefusal
from retrier.store.engine.database import Database
from retrier.store.schema import event_log
from retrier.store.views import delete_view, find_view, list_views, save_view
from tests.contract.store_rows import rows


def view(name: str = "night", query: str = "queue=orders") -> View:
    return View(name=name, page=ViewList.MESSAGES, query=query)


def saved(db: Database, version: int | None = None, **changes: str) -> SavedView:
    found = save_view(db, view(**changes), "ada", version)
    assert isinstance(found, SavedView)
    return found


def test_a_view_is_found_as_it_was_saved(database: Database) -> None:
    made = saved(database)

    found = find_view(database, "night", shows_content=True)

    assert found == made
    assert (made.version, made.who) == (1, "ada")


def test_views_are_listed_by_name(database: Database) -> None:
    for name in ("b", "a"):
        saved(database, name=name)

    assert [each.view.name for each in list_views(database, shows_content=True)] == ["a", "b"]


def test_a_name_that_is_taken_is_refused_without_its_version(database: Database) -> None:
    saved(database)

    assert save_view(database, view(query="queue=other"), "bob", None) is ViewRefusal.TAKEN
    assert find_view(database, "night", shows_content=True) is not None
    assert [each.view.query for each in list_views(database, shows_content=True)] == [
        "queue=orders"
    ]


def test_a_view_is_replaced_by_who_knows_its_version(database: Database) -> None:
    saved(database)

    made = saved(database, 1, query="queue=other")

    assert (made.version, made.view.query) == (2, "queue=other")
    assert find_view(database, "night", shows_content=True) == made


@pytest.mark.parametrize("version", [0, 2])
def test_another_version_replaces_nothing(database: Database, version: int) -> None:
    saved(database)

    refused = save_view(database, view(query="queue=other"), "bob", version)

    assert refused is ViewRefusal.CHANGED
    assert [each.view.query for each in list_views(database, shows_content=True)] == [
        "queue=orders"
    ]


def test_of_two_at_the_same_time_one_is_told(database: Database) -> None:
    together, found = Barrier(2), []

    def save(query: str) -> None:
        together.wait()
        found.append(save_view(database, view(query=query), "ada", None))

    threads = [Thread(target=save, args=(f"queue={each}",)) for each in "ab"]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert sum(each is ViewRefusal.TAKEN for each in found) == 1
    assert len(list_views(database, shows_content=True)) == 1


def test_a_view_is_deleted_once(database: Database) -> None:
    saved(database)

    assert delete_view(database, "night", "ada")
    assert not delete_view(database, "night", "ada")
    assert list_views(database, shows_content=True) == []


def test_the_event_log_tells_who_saved_and_deleted_it(database: Database) -> None:
    saved(database)
    delete_view(database, "night", "bob")

    told = [(row["kind"], row["who"]) for row in rows(database, event_log)]

    assert told == [("view_saved", "ada"), ("view_deleted", "bob")]


def test_there_is_an_end_to_them(database: Database) -> None:
    for each in range(MOST_VIEWS):
        saved(database, name=str(each))

    assert save_view(database, view(), "ada", None) is ViewRefusal.TOO_MANY

"""What is scheduled and dead, counted and found on both databases."""

from datetime import timedelta

import pytest

from retrier.domain.classifiers import CLASSIFIERS
from retrier.domain.selection import Selection, WantedDisposition
from retrier.store.engine.database import Database
from retrier.store.figures import read_figures
from retrier.store.groups import count_groups, summarise
from retrier.store.message_lists import Order, PageRequest, find_numbers
from tests.contract.store_rows import message, record
from tests.support.disposing import DUE, make_dead, schedule
from tests.support.factories import failure, unique_id


def fail(db: Database, count: int) -> list[str]:
    made = [failure() for _ in range(count)]
    record(db, *made)
    return [unique_id(each) for each in made]


def find(db: Database, wanted: Selection, *, wide: int = 20_000) -> set[int]:
    page = db.read(lambda tx: find_numbers(tx, wanted, Order(), PageRequest(), wide=wide))
    assert page.total == len(page.items)
    return set(page.items)


def numbers(db: Database, *keys: str) -> set[int]:
    return {message(db, key)["number"] for key in keys}


def test_groups_and_summary_count_each_apart(database: Database) -> None:
    dead, other, *_ = fail(database, 4)
    make_dead(database, dead)
    schedule(database, other)

    (group,) = count_groups(database, CLASSIFIERS[0])
    counted = summarise(database).dispositions

    assert (group.count, group.scheduled, group.dead) == (4, 1, 1)
    assert counted == {"manual": 2, "scheduled": 1, "dead": 1}


def test_without_a_message_the_summary_counts_none(database: Database) -> None:
    assert summarise(database).dispositions == {"manual": 0, "scheduled": 0, "dead": 0}


@pytest.mark.parametrize("wide", [1, 20_000])
def test_a_list_finds_each_by_its_disposition(database: Database, wide: int) -> None:
    dead, other, manual = fail(database, 3)
    make_dead(database, dead)
    schedule(database, other)

    found = {
        each: find(database, Selection(disposition=each), wide=wide) for each in WantedDisposition
    }

    assert found == {
        WantedDisposition.DEAD: numbers(database, dead),
        WantedDisposition.SCHEDULED: numbers(database, other),
        WantedDisposition.MANUAL: numbers(database, manual),
        WantedDisposition.ANY: numbers(database, dead, other, manual),
    }


def test_a_reason_is_that_of_the_class_or_the_word_of_the_headers(database: Database) -> None:
    word, classified = failure(failure_reason="rejected"), failure()
    record(database, word, classified, failure())
    make_dead(database, unique_id(classified), reason="rejected")

    assert find(database, Selection(reason="rejected")) == numbers(
        database, unique_id(word), unique_id(classified)
    )
    assert find(database, Selection(reason="expired")) == set()


def test_handler_exception_is_no_word_but_a_class(database: Database) -> None:
    # Workers of earlier versions wrote it of every exception, whatever its class is.
    word, classified = failure(failure_reason="handler_exception"), failure()
    record(database, word, classified)
    make_dead(database, unique_id(word), reason="transport_unavailable")
    make_dead(database, unique_id(classified), reason="handler_exception")

    found = find(database, Selection(reason="handler_exception"))

    assert found == numbers(database, unique_id(classified))


@pytest.mark.parametrize("word", ["TransportUnavailable", "transport-unavailable", "1"])
def test_a_reason_is_found_by_the_word_of_an_application(database: Database, word: str) -> None:
    headers, classified, other = failure(failure_reason=word), failure(), failure()
    record(database, headers, classified, other)
    make_dead(database, unique_id(classified), reason="transport_unavailable")

    found = find(database, Selection(reason=word))

    assert found == numbers(database, unique_id(headers), unique_id(classified))


def test_a_code_of_the_gateway_is_found_alone(database: Database) -> None:
    code, classified = failure(), failure()
    record(database, code, classified)
    make_dead(database, unique_id(code), reason="UNKNOWN")
    make_dead(database, unique_id(classified), reason="unknown")

    assert find(database, Selection(reason="UNKNOWN")) == numbers(database, unique_id(code))


def test_the_figures_say_what_is_dead_what_is_scheduled_and_how_long_it_is_due(
    database: Database,
) -> None:
    dead, due, later = fail(database, 3)
    make_dead(database, dead)
    schedule(database, later, at=DUE.replace(year=2100))
    assert read_figures(database).oldest_due is None
    schedule(database, due, at=database.read(lambda tx: tx.now) - timedelta(hours=1))

    figures = read_figures(database)

    assert (figures.dead, figures.scheduled) == (1, 2)
    assert figures.oldest_due is not None
    assert timedelta(hours=1) <= figures.oldest_due < timedelta(hours=2)

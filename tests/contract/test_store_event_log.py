"""The event log: any text goes in, and what is old goes out."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import event, update

from retrier.clock import SystemClock
from retrier.domain.access import Refusals
from retrier.domain.text import ids_beginning
from retrier.store.engine.database import Database
from retrier.store.event_log import (
    Entry,
    EventFilter,
    append,
    find_subjects,
    list_events,
    list_newest_events,
    list_newest_told,
    note_refusals,
)
from retrier.store.message_lists import PageRequest
from retrier.store.schema import event_log
from retrier.store.upkeep import sweep_events
from tests.contract.store_rows import rows

DAY = timedelta(days=1)
OPERATION = "0de7a710-0000-4000-8000-000000000001"
BATCH = "ba7c4000-0000-4000-8000-000000000001"


def log(db, *events, age=timedelta(0)):
    """Log events as if so long ago."""

    def verb(tx):
        append(tx, events)
        just_logged = update(event_log).where(event_log.c.at == tx.now)
        tx.execute(just_logged.values(at=tx.now - age))

    db.transact(verb)


def an_event(**changes):
    return Entry(**({"kind": "test", "text": "It happened."} | changes))


def test_an_event_is_kept_with_all_it_says(database):
    said = {
        "kind": "test",
        "text": "It happened.",
        "who": "ada",
        "unique_message_id": "m",
        "operation_id": OPERATION,
        "batch_id": BATCH,
        "details": {"from": ["a", 1, None]},
    }

    log(database, an_event(**said))

    (row,) = rows(database, event_log)
    assert {name: row[name] for name in said} == said


@pytest.mark.parametrize(
    "text", ["a\0b", "\ud800", "x" * 100_000], ids=["NUL", "surrogate", "100 kB"]
)
def test_an_event_may_say_anything(database, text):
    """It is written in the transaction that it tells of, and must not be what makes that fail."""
    log(database, an_event(text=text, who=text, unique_message_id=text))

    assert len(rows(database, event_log)) == 1


def test_no_events_are_no_statement(database):
    log(database)

    assert rows(database, event_log) == []


class TestASweep:
    def test_deletes_what_is_older_and_leaves_the_rest(self, database):
        log(database, an_event(text="old"), age=3 * DAY)
        log(database, an_event(text="young"), age=DAY)

        assert sweep_events(database, older_than=2 * DAY) == 1
        assert [row["text"] for row in rows(database, event_log)] == ["young"]

    def test_deletes_any_number_a_thousand_at_a_time(self, database):
        """A statement may take half a lease: a million at once would never go."""
        log(database, *([an_event()] * 2500), age=3 * DAY)
        log(database, an_event(text="young"))
        commits = []

        def listen(_conn):
            commits.append(1)

        event.listen(database.engine, "commit", listen)
        swept = sweep_events(database, older_than=DAY)
        event.remove(database.engine, "commit", listen)

        assert (swept, len(commits)) == (2500, 3)
        assert len(rows(database, event_log)) == 1

    def test_leaves_the_newest_so_that_no_id_is_given_again(self, database):
        log(database, an_event(), an_event(text="newest"), age=3 * DAY)

        assert sweep_events(database, older_than=DAY) == 1
        log(database, an_event(text="new"))
        newest, new = rows(database, event_log)
        assert (newest["text"], new["text"]) == ("newest", "new")
        assert new["event_id"] > newest["event_id"]

    def test_leaves_what_was_not_old_at_the_look_before(self, database):
        log(database, an_event(text="old"), age=3 * DAY)
        log(database, an_event())

        as_of = SystemClock().now() - 2 * DAY

        assert sweep_events(database, older_than=2 * DAY, as_of=as_of) == 0

    def test_of_nothing_is_nothing(self, database):
        assert sweep_events(database, older_than=DAY) == 0


FILTERS = [
    EventFilter(with_routine=False),
    EventFilter(with_routine=False, kinds=frozenset({"batch_staged"})),
    EventFilter(by_people=True),
    EventFilter(who="ada"),
    EventFilter(who="ad"),
    EventFilter(since=datetime(2020, 1, 1, tzinfo=UTC)),
    EventFilter(until=datetime(2020, 1, 1, tzinfo=UTC)),
]


@pytest.mark.parametrize("wanted", FILTERS, ids=str)
def test_the_database_finds_what_the_filter_accepts(database, wanted):
    log(
        database,
        an_event(kind="retry_asked", who="ada (127.0.0.1)"),
        an_event(kind="batch_staged"),
        an_event(kind="operation_completed"),
        an_event(kind="retention_swept", who="retention"),
        an_event(kind="retry_asked", who="policies"),
    )
    everything = list_newest_events(database, 10)

    found = list_newest_events(database, 10, wanted)

    assert found == tuple(filter(wanted.accepts, everything))
    assert list_events(database, PageRequest(number=1, size=10), wanted).total == len(found)


def test_the_ends_of_ids_that_begin_alike_are_found(database):
    other = f"{OPERATION[:-1]}2"
    log(database, an_event(operation_id=OPERATION), an_event(operation_id=other), an_event())

    found = find_subjects(database, ids_beginning("0de7a710"), messages=False)

    assert (found.first, found.last) == (OPERATION, other)
    assert find_subjects(database, ids_beginning("0de7a711"), messages=False) is None


def test_the_newest_that_are_not_routine_are_found_among_the_last_ids(database):
    log(database, an_event(kind="retry_asked"))
    log(database, *[an_event(kind="batch_staged") for _ in range(10)])

    assert len(list_newest_told(database, 5, look_back=11)) == 1
    assert list_newest_told(database, 5, look_back=5) == ()


def test_an_entry_says_who_was_refused_how_often_and_why(database: Database) -> None:
    note_refusals(
        database,
        [
            Refusals(address="10.0.0.7", reason="This token is not known here.", count=60_000),
            Refusals(address="10.0.0.8", reason="This takes the role admin.", count=1, who="ann"),
        ],
    )

    newest, before = list_newest_events(database, 2)
    assert (newest.kind, newest.who, newest.text) == (
        "access_refused",
        "ann (10.0.0.8)",
        "refused: This takes the role admin.",
    )
    assert (before.who, before.text) == (
        "anonymous (10.0.0.7)",
        "refused 60,000 times: This token is not known here.",
    )
    assert before.details == {
        "count": 60_000,
        "address": "10.0.0.7",
        "reason": "This token is not known here.",
    }

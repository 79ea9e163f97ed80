"""The event log: any text goes in, and what is old goes out."""

from datetime import timedelta

import pytest
from sqlalchemy import event, update

from retrier.clock import SystemClock
from retrier.store.event_log import Entry, append
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

"""The event log is told who was refused, once for many."""

from retrier.domain.access import Refusals
from retrier.store.engine.database import Database
from retrier.store.event_log import list_newest_events
from retrier.store.refusals import note_refusals


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

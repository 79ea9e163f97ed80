"""Messages with the stamps of a copy: the database knows whether these are true."""

from uuid import uuid4

import pytest

from retrier.domain.failed_message import OwnCopy, Stamped
from retrier.store.recording import record_received
from retrier.store.schema import event_log, failed_imports
from retrier.store.upkeep import get_installation_id, record_staging_ids
from tests.contract.store_rows import ledger_entries, messages, record, rows
from tests.support.bench import Bench
from tests.support.factories import ERROR_QUEUE, failed_import, failure, unique_id
from tests.support.statements import statements

ANOTHER = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def known(database):
    """Give a staging id that was made here."""
    bench, made = Bench(database), str(uuid4())
    record_staging_ids(database, bench.context.lease.fence, [made])
    return made


def stamped(installation_id, staging_id, **cases):
    copy = OwnCopy(staging_id=staging_id, unique_message_id=None, error_queue=ERROR_QUEUE)
    another = OwnCopy(
        staging_id=staging_id,
        unique_message_id=None,
        error_queue=ERROR_QUEUE,
        of_another=installation_id,
    )
    values = {"if_ours": copy, "if_unknown": failed_import(), "if_anothers": another}
    return Stamped(installation_id=installation_id, staging_id=staging_id, **(values | cases))


def test_with_our_id_and_a_known_staging_id_it_is_dropped_with_an_event(database, known):
    record(database, stamped(get_installation_id(database), known))

    (told,) = rows(database, event_log)
    assert told["kind"] == "own_copy_came_back"
    assert ledger_entries(database) == {"taken_off": 1, "own_copies": 1}


def test_with_our_id_and_an_unknown_staging_id_it_is_kept(database):
    arrived = stamped(get_installation_id(database), str(uuid4()))

    record(database, arrived)

    (kept,) = rows(database, failed_imports)
    assert kept["reason"] == arrived.if_unknown.reason
    assert ledger_entries(database) == {"taken_off": 1, "failed_imports": 1}


@pytest.mark.parametrize("other", [True, False], ids=["another's", "unknown"])
def test_where_it_is_a_failure_it_is_stored_as_any_other(database, other):
    died = failure()
    ours = get_installation_id(database)
    cases = {"if_unknown": died, "if_anothers": died}

    record(database, stamped(ANOTHER if other else ours, str(uuid4()), **cases))

    assert messages(database).keys() == {unique_id(died)}
    assert ledger_entries(database) == {"taken_off": 1, "new": 1}


def test_of_another_installation_it_is_dropped_with_an_event_that_names_it(database, known):
    record(database, stamped(ANOTHER, known))

    (told,) = rows(database, event_log)
    assert told["kind"] == "copy_of_another_came"
    assert ANOTHER in told["text"]
    assert told["details"] == {"installation_id": ANOTHER}
    assert ledger_entries(database) == {"taken_off": 1, "own_copies": 1}


def test_what_each_turned_out_to_be_is_handed_back(database, known):
    ours = get_installation_id(database)
    arrived = [stamped(ours, known), stamped(ours, str(uuid4())), stamped(ANOTHER, known)]

    noteworthy = record_received(database, arrived, instance="here").noteworthy

    assert set(noteworthy) == {
        arrived[0].if_ours,
        arrived[1].if_unknown,
        arrived[2].if_anothers,
    }


def test_nothing_is_asked_where_nothing_is_stamped(database):
    with statements(database) as asked:
        record(database, failure(), failed_import())

    assert [each for each in asked if "staging_ids" in each or "installation" in each] == []

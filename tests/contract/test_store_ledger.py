"""The ledger, failed imports and own copies: everything taken off a queue is accounted for."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retrier.domain.failed_message import Confirmation, FailedImport, Failure, OwnCopy
from retrier.store.recording import record_received
from retrier.store.schema import event_log, failed_imports, failed_messages, ledger
from tests.contract.store_rows import (
    again,
    everything_but,
    ledger_entries,
    messages,
    record,
    redelivered,
    rows,
    untold,
)
from tests.support.factories import (
    FAILED_AT,
    IDENTIFY,
    confirmation,
    failed_import,
    failure,
    unique_id,
)

LATER = FAILED_AT + timedelta(minutes=5)


def own_copy(**changes):
    values = {"staging_id": "s1", "unique_message_id": None, "error_queue": "error"}
    return OwnCopy(**(values | changes))


class TestAFailedImport:
    def test_is_kept_as_it_came(self, database):
        record(database, failed_import(b"\xff\x00", b"\x00body"))

        (kept,) = rows(database, failed_imports)
        assert (kept["raw_properties"], kept["body"]) == (b"\xff\x00", b"\x00body")
        assert (kept["error_queue"], kept["received_at"]) == ("error", FAILED_AT)

    def test_that_comes_again_with_equal_bytes_is_the_same(self, database):
        record(database, failed_import())

        record(database, failed_import(redelivered=True))

        assert len(rows(database, failed_imports)) == 1
        assert ledger_entries(database) == {"taken_off": 2, "failed_imports": 1, "redelivered": 1}

    def test_that_merely_equals_another_is_another(self, database):
        record(database, failed_import())

        record(database, failed_import())

        assert len(rows(database, failed_imports)) == 2

    def test_is_another_also_beside_a_redelivery_of_the_first(self, database):
        record(database, failed_import())

        record(database, failed_import(redelivered=True), failed_import())

        assert len(rows(database, failed_imports)) == 2
        assert untold(database) == 0

    def test_that_was_never_kept_is_kept_though_it_was_delivered_before(self, database):
        record(database, failed_import(redelivered=True))

        assert len(rows(database, failed_imports)) == 1

    def test_leaves_an_event_that_says_why(self, database):
        record(database, failed_import(reason="it has no queue"))

        (event,) = rows(database, event_log)
        assert event["kind"] == "failed_import"
        assert "it has no queue" in event["text"]

    def test_that_comes_again_leaves_no_second_event(self, database):
        record(database, failed_import())

        record(database, failed_import(redelivered=True))

        assert len(rows(database, event_log)) == 1


class TestAnOwnCopy:
    def test_touches_no_row_and_leaves_an_event(self, database):
        stored = failure()
        record(database, stored)
        before = everything_but(database, ledger, event_log)

        record(database, own_copy(unique_message_id=unique_id(stored)))

        (event,) = rows(database, event_log)
        assert everything_but(database, ledger, event_log) == before
        assert event["unique_message_id"] == unique_id(stored)
        assert "dead-letter" in event["text"]

    @pytest.mark.parametrize("claimed", [None, "x" * 1000, "a\0b", "\ud800"], ids=ascii)
    def test_may_claim_any_id(self, database, claimed):
        record(database, own_copy(unique_message_id=claimed))

        assert ledger_entries(database) == {"taken_off": 1, "own_copies": 1}


class TestTheLedger:
    def test_counts_each_kind_of_delivery(self, database):
        first = failure()
        record(database, first)

        record(
            database,
            failure(),
            again(first),
            redelivered(first),
            confirmation(unique_id(first)),
            confirmation(str(uuid4())),
            own_copy(),
        )

        assert ledger_entries(database) == {
            "taken_off": 7,
            "new": 2,
            "repeated": 1,
            "redelivered": 1,
            "confirmations": 1,
            "own_copies": 1,
            "failed_imports": 1,
        }

    def test_has_rows_for_each_instance(self, database):
        for instance in ("here", "there", "a name as long as a host name may be, and longer still"):
            record_received(database, [failure()], instance=instance)

        assert len({row["instance"] for row in rows(database, ledger)}) == 3
        assert ledger_entries(database) == {"taken_off": 3, "new": 3}

    def test_of_an_empty_batch_counts_nothing(self, database):
        record(database)

        assert rows(database, ledger) == []

    def test_counts_every_row_of_a_message_as_new_once(self, database):
        first = failure()
        record(database, first, again(first), failure(message_id=None))
        record(database, again(first), redelivered(first))

        assert ledger_entries(database)["new"] == len(messages(database))


MESSAGE_IDS = st.sampled_from([None, "1", "2", "3"])
BODIES = st.sampled_from([b"", b"a", b"b"])
HEADERS = st.sampled_from(["x", "y"]).map(lambda value: {"Try": value})
MOMENTS = st.sampled_from([None, *(FAILED_AT + timedelta(minutes=n) for n in range(4))])
KNOWN_IDS = [IDENTIFY(key, "Sales") for key in "123"]
STAMPS = st.sampled_from([None, None, *KNOWN_IDS])
RETRIES = st.sampled_from([None, None, "r1"])
FAILURES = st.builds(
    failure,
    message_id=MESSAGE_IDS,
    body=BODIES,
    headers=HEADERS,
    time_of_failure=MOMENTS,
    stamped_id=STAMPS,
    retry_id=RETRIES,
)
CONFIRMATIONS = st.builds(confirmation, st.sampled_from(KNOWN_IDS), succeeded_at=MOMENTS)
IMPORTS = st.builds(failed_import, body=BODIES)
RECEIVED = st.one_of(FAILURES, FAILURES, CONFIRMATIONS, IMPORTS, st.builds(own_copy))
BATCHES = st.lists(st.lists(RECEIVED, max_size=6), min_size=1, max_size=4)

on_one_database = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def start_anew(db):
    with db.engine.begin() as conn:
        for table in reversed(failed_messages.metadata.sorted_tables):
            conn.execute(table.delete())


def bring_again(batch):
    """Return what the broker brings again when the process died before it acknowledged."""
    return [bring_one_again(each) for each in batch]


def bring_one_again(each):
    match each:
        case Confirmation():
            unknown = replace(each.if_unknown, redelivered=True)
            return replace(each, redelivered=True, if_unknown=unknown)
        case Failure() | FailedImport():
            return replace(each, redelivered=True)
        case _:
            return each


def kinds_of(batches):
    return Counter(type(each) for batch in batches for each in batch)


@given(batches=BATCHES)
@on_one_database
def test_the_ledger_adds_up_whatever_arrives(database, batches):
    start_anew(database)

    for batch in batches:
        record(database, *batch)
        record(database, *bring_again(batch))

    entries, arrived = Counter(ledger_entries(database)), kinds_of(batches)
    assert untold(database) == 0
    assert entries["taken_off"] == 2 * arrived.total()
    assert entries["own_copies"] == 2 * arrived[OwnCopy]
    assert entries["failed_imports"] == len(rows(database, failed_imports))
    assert entries["new"] == len(messages(database))


@given(batches=BATCHES)
@on_one_database
def test_a_batch_that_comes_again_changes_no_message_with_an_id(database, batches):
    start_anew(database)

    for batch in batches:
        record(database, *batch)
        before = with_message_id(database)
        record(database, *bring_again(batch))
        assert with_message_id(database) == before


@given(batches=BATCHES)
@on_one_database
def test_failures_that_come_again_late_change_no_message_with_an_id(database, batches):
    """However much happened in between: each is the attempt it was."""
    start_anew(database)
    failed = [[each for each in batch if isinstance(each, Failure)] for batch in batches]
    for batch in failed:
        record(database, *batch)
    before = with_message_id(database)

    for batch in failed:
        record(database, *bring_again(batch))

    assert with_message_id(database) == before


@given(batches=BATCHES)
@on_one_database
def test_no_failure_without_id_is_ever_folded_away(database, batches):
    """Each has a row of its own, unless it carries the stamp and the body of a stored message."""
    start_anew(database)
    for batch in batches:
        record(database, *batch)

    arrived = [each for batch in batches for each in batch if isinstance(each, Failure)]
    unstamped = [each for each in arrived if not each.message_id and not each.stamped_id]
    stored = [row for row in messages(database).values() if row["message_id"] is None]
    assert len(stored) >= len(unstamped)


def with_message_id(db):
    return {key: row for key, row in messages(db).items() if row["message_id"] is not None}

"""Values of declared fields: written with failures, gone with messages, asked by selections."""

from datetime import timedelta

import pytest
from sqlalchemy import insert, update

from retrier.domain.archive_operation import Act
from retrier.domain.failed_message import FailedMessageStatus, Failure
from retrier.domain.fields import read_conditions
from retrier.domain.selection import Selection, describe, describe_wholly
from retrier.store.engine.database import Database
from retrier.store.fields import find_fields, find_next, read_anew, write_anew
from retrier.store.message_lists import Order, PageRequest, list_messages
from retrier.store.schema import message_fields
from retrier.store.selections import count_matches, find_chunk, from_json, to_json
from retrier.store.verification import verify_store
from retrier.store.verification_rules import FIELD_RULES
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.contract.store_rows import again, only_message, record, rows
from tests.support.bench import Bench
from tests.support.factories import FAILED_AT, failure
from tests.support.fields import DECLARED
from tests.support.library_samples import easynetq
from tests.support.old import age, settle, sweep
from tests.support.raw_messages import delivery
from tests.support.understood import failure as understood

CODEC = AmqpPropertyCodec()
ALONE, WITH_ANOTHER_NUMBER = FIELD_RULES


def broken_rules(db: Database) -> list[str]:
    return [each.rule for each in verify_store(db).rules if each.broken]


def failed(**values: str) -> Failure:
    return failure(fields=values)


def wanted(**values: str) -> Selection:
    return Selection(fields=read_conditions(values.items()))


def numbers_of(db: Database, selection: Selection) -> list[str]:
    """Return the orders that a selection finds, whichever way it is asked, in order."""
    chunk = find_chunk(db, selection, 0)
    by_chunk = list(chunk.unique_ids) if chunk else []
    page = PageRequest(number=1, size=50)
    listed = list_messages(db, selection, Order(), page, CODEC)
    assert sorted(each.unique_message_id for each in listed.items) == sorted(by_chunk)
    assert count_matches(db, selection) == len(by_chunk) == listed.total
    values = find_fields(db, by_chunk)
    return [values[each]["order"] for each in by_chunk]


class TestValues:
    def test_are_stored_with_the_failure(self, database: Database) -> None:
        record(database, failed(order="4711", total="12.50"))

        number = only_message(database)["number"]
        assert rows(database, message_fields) == [
            {"number": number, "name": "order", "value": "4711", "comparable": 4711.0},
            {"number": number, "name": "total", "value": "12.50", "comparable": 12.5},
        ]

    def test_of_a_text_cannot_be_compared(self, database: Database) -> None:
        record(database, failed(order="A-1"))

        (row,) = rows(database, message_fields)
        assert row["comparable"] is None

    def test_are_those_of_the_last_failure(self, database: Database) -> None:
        first = failed(order="1", customer="x")
        record(database, first)

        record(database, again(first, fields={"order": "2"}))

        assert [(row["name"], row["value"]) for row in rows(database, message_fields)] == [
            ("order", "2")
        ]

    def test_are_those_of_the_last_failure_of_a_batch(self, database: Database) -> None:
        first = failed(order="1")

        record(database, first, again(first, fields={"order": "2"}))

        assert [row["value"] for row in rows(database, message_fields)] == ["2"]

    def test_are_gone_where_the_last_failure_has_none(self, database: Database) -> None:
        first = failed(order="1")
        record(database, first)

        record(database, again(first, fields={}))

        assert rows(database, message_fields) == []

    def test_stay_where_no_field_is_declared_any_more(self, database: Database) -> None:
        first = failed(order="1")
        record(database, first)

        record(database, again(first, fields=None))

        assert len(rows(database, message_fields)) == 1

    def test_are_deleted_with_their_message(self, database: Database) -> None:
        bench = Bench(database)
        record(database, failed(order="1"), failed(order="2"))
        first = only_of(database, "1")
        settle(database, Act.RESOLVE, [first])
        age(database, 11, first)

        sweep(bench)

        assert [row["value"] for row in rows(database, message_fields)] == ["2"]

    def test_are_found_by_the_ids_of_messages(self, database: Database) -> None:
        record(database, failed(order="1", customer="x"), failure())
        found = only_of(database, "1")

        assert find_fields(database, [found]) == {found: {"customer": "x", "order": "1"}}


def only_of(db: Database, order: str) -> str:
    chunk = find_chunk(db, wanted(order=order), 0)
    assert chunk is not None
    (found,) = chunk.unique_ids
    return found


class TestASelection:
    @pytest.fixture
    def stored(self, database: Database) -> Database:
        record(
            database,
            failed(order="1", total="5", day="2026-05-03T23:59:59Z"),
            failed(order="2", total="10", day="2026-05-04"),
            failed(order="3", total="20.0", day="2026-05-04T23:59:59.5Z"),
            failed(order="4", total="a lot", customer="x"),
            failure(),
        )
        return database

    @pytest.mark.parametrize(
        ("values", "found"),
        [
            ({"order": "2"}, ["2"]),
            ({"order": "02"}, []),
            ({"customer": "x", "order": "4"}, ["4"]),
            ({"customer": "x", "order": "3"}, []),
            ({"customer": "X"}, []),
            ({"total": "10..20"}, ["2", "3"]),
            ({"total": "..10"}, ["1", "2"]),
            ({"total": "11.."}, ["3"]),
            ({"total": "a lot"}, ["4"]),
            ({"total": "20.0"}, ["3"]),
            ({"total": "20"}, []),
            ({"day": "2026-05-04"}, ["2"]),
            ({"day": "2026-05-04..2026-05-04"}, ["2", "3"]),
            ({"day": "..2026-05-03"}, ["1"]),
            ({"other": "1"}, []),
        ],
    )
    def test_finds_messages_by_values(
        self, stored: Database, values: dict[str, str], found: list[str]
    ) -> None:
        assert numbers_of(stored, wanted(**values)) == found

    @pytest.mark.parametrize(
        ("range_of", "found"),
        [
            ("5..", ["1", "2"]),
            ("..8", ["1"]),
            ("2026-05-05..2026-05-05", ["3"]),
            ("..2026-05-05", ["3", "4"]),
        ],
    )
    def test_takes_no_time_for_a_number_and_no_number_for_a_time(
        self, database: Database, range_of: str, found: list[str]
    ) -> None:
        values = ["7", "1777939200", "2026-05-05", "1969-01-01"]
        numbered = enumerate(values, start=1)
        record(database, *(failed(order=str(each), when=value) for each, value in numbered))

        assert numbers_of(database, wanted(when=range_of)) == found

    def test_joins_them_with_other_conditions(self, stored: Database) -> None:
        selection = Selection(
            queue="elsewhere",
            fields=wanted(order="1").fields,
            statuses=frozenset(FailedMessageStatus),
        )

        assert numbers_of(stored, selection) == []

    def test_finds_more_than_are_looked_up(self, database: Database) -> None:
        record(database, *(failed(order="1") for _ in range(1001)))

        page = PageRequest(number=1, size=5)
        found = list_messages(database, wanted(order="1"), Order(), page, CODEC)

        assert found.total == 1001

    def test_is_the_same_when_it_was_stored(self) -> None:
        selection = wanted(order="4711", total="10..20")

        assert from_json(to_json(selection)) == selection

    def test_that_was_stored_before_there_were_fields_has_none(self) -> None:
        assert from_json({"queue": "orders"}) == Selection(queue="orders")

    def test_is_said_in_words_without_its_value(self) -> None:
        assert describe(wanted(order="4711")) == "field.order (its value is not told here)"

    def test_is_said_in_words_with_its_value_to_who_asks(self) -> None:
        assert describe_wholly(wanted(order="4711")) == "field.order 4711"


class TestWhatIsStoredAlready:
    def test_is_read_once_however_often_it_failed(self, database: Database) -> None:
        first = failure(body=b'{"order": 1}')
        record(database, first)
        record(database, again(first, time_of_failure=FAILED_AT + timedelta(hours=1)))

        done = read_anew(database, 0, DECLARED, CODEC)

        assert (done.read, done.values) == (1, 1)
        assert values_of(database) == [("order", "1")]

    def test_gets_the_values_of_its_headers(self, database: Database) -> None:
        record(database, failure(body=b"?", headers={"Shop.Customer": "x"}))

        read_anew(database, 0, DECLARED, CODEC)

        assert values_of(database) == [("customer", "x")]

    def test_loses_the_values_of_fields_that_are_declared_no_more(self, database: Database) -> None:
        record(database, failure(body=b"{}", fields={"old": "1"}))

        read_anew(database, 0, DECLARED, CODEC)

        assert values_of(database) == []

    def test_is_the_same_when_it_is_read_twice(self, database: Database) -> None:
        record(database, failure(body=b'{"order": 1}'))

        for _ in range(2):
            read_anew(database, 0, DECLARED, CODEC)

        assert values_of(database) == [("order", "1")]

    def test_is_read_in_pages_behind_the_last_number(self, database: Database) -> None:
        record(database, *(failure(body=b'{"order": %d}' % number) for number in range(1001)))

        first = read_anew(database, 0, DECLARED, CODEC)
        assert first.after is not None
        second = read_anew(database, first.after, DECLARED, CODEC)

        assert (first.read, second.read) == (1000, 1)
        assert len(values_of(database)) == 1001

    def test_is_read_in_smaller_pages_where_bodies_are_large(self, database: Database) -> None:
        record(database, *(failure(body=b" " * 7_000_000) for _ in range(3)))

        assert read_anew(database, 0, DECLARED, CODEC).read == 2

    def test_is_left_to_a_failure_that_comes_meanwhile(self, database: Database) -> None:
        first = failure(body=b'{"order": 1}')
        record(database, first)
        (read,) = find_next(database, 0)
        record(database, again(first, fields={"order": "2"}))

        written = write_anew(
            database, {read.number: {"order": "1"}}, {read.number: read.attempt_id}
        )

        assert (written, values_of(database)) == ([], [("order", "2")])

    def test_that_was_deleted_meanwhile_gets_no_values(self, database: Database) -> None:
        assert write_anew(database, {7: {"order": "1"}}, {7: 1}) == []
        assert values_of(database) == []

    def test_in_an_envelope_is_read_as_it_was_when_it_came(self, database: Database) -> None:
        arrived = delivery(body=easynetq(), type="EasyNetQ.SystemMessages.Error, EasyNetQ")
        record(database, understood(arrived))

        read_anew(database, 0, DECLARED, CODEC)

        assert values_of(database) == [("order", "7")]


def values_of(db: Database) -> list[tuple[str, str]]:
    return [(row["name"], row["value"]) for row in rows(db, message_fields)]


def test_a_value_without_its_message_is_found(database: Database) -> None:
    with database.engine.begin() as conn:
        conn.execute(insert(message_fields).values(number=7, name="order", value="x"))

    assert broken_rules(database) == [ALONE]


@pytest.mark.parametrize("number", [None, 46.0])
def test_a_value_that_would_not_be_found_by_its_number_is_found(
    database: Database, number: float | None
) -> None:
    record(database, failed(order="47", total="4.7", day="2026-05-04"))
    assert broken_rules(database) == []

    with database.engine.begin() as conn:
        conn.execute(
            update(message_fields).where(message_fields.c.name == "order").values(comparable=number)
        )

    assert broken_rules(database) == [WITH_ANOTHER_NUMBER]


def test_values_of_other_queues_are_not_seen_where_own_ones_only_are(database: Database) -> None:
    record(
        database,
        failure(queue="orders.eu", fields={"order": "1"}),
        failure(queue="billing", fields={"order": "1"}),
    )
    narrow = database.narrowed(("orders*",))

    found = numbers_of(narrow, wanted(order="1"))

    assert found == ["1"]
    assert values_of(narrow) == [("order", "1")]

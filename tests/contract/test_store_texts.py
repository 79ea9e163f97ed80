"""Texts: a message is found by what it shows itself, in any case, alike on both databases."""

from typing import Any

import pytest
from sqlalchemy import func, select, update

from retrier.domain.archive_operation import Act
from retrier.domain.failure_texts import BETWEEN
from retrier.domain.selection import Selection
from retrier.store.archive import Action, change
from retrier.store.dead_messages import declare_dead
from retrier.store.engine.database import Database
from retrier.store.engine.transaction import Transaction
from retrier.store.groups import list_queues, summarise
from retrier.store.message_lists import Order, PageRequest, Sort, list_messages
from retrier.store.message_texts import (
    find_unused,
    identify_texts,
    remove_unused,
    sweep_texts,
)
from retrier.store.schema import failed_messages, message_texts
from retrier.store.selections import find_chunk
from retrier.store.verification import verify_store
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.contract.store_rows import again, record, rows, set_columns
from tests.support.databases import empty
from tests.support.factories import failure, unique_id

CODEC = AmqpPropertyCodec()
SHOWN: dict[str, dict[str, Any]] = {
    "the exception's message": {"exception_message": "order 4711: no Crate is left"},
    "its end, behind a kilobyte": {"exception_message": "x" * 60_000 + " no crate is left"},
    "the exception's type": {"exception_type": "Shop.No crate Is left"},
    "the type": {"message_type": "Take no crate Is left"},
    "the queue": {"queue": "no crate is left"},
    "the endpoint": {"endpoint": "no Crate is LEFT"},
    "the headers' reason": {"failure_reason": "No crate is left"},
}


def found(db: Database, wanted: str) -> list[str]:
    """Return the ids that a list and an act find, which must agree."""
    selection = Selection(text=wanted)
    listed = list_messages(db, selection, Order(), PageRequest(size=500), CODEC)
    ids = [each.unique_message_id for each in listed.items]
    acted = find_chunk(db, selection, 0)
    assert sorted(ids) == sorted(acted.unique_ids if acted else ())
    assert listed.total == len(ids)
    return ids


def texts(db: Database) -> int:
    return int(
        db.read(lambda tx: tx.execute(select(func.count()).select_from(message_texts)).scalar_one())
    )


def never(_seconds: float) -> bool:
    return False


def broken_rules(db: Database) -> list[str]:
    return [rule.rule for rule in verify_store(db).rules if rule.broken]


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN.keys())
def test_a_message_is_found_by_what_it_shows(database: Database, shown: dict[str, Any]) -> None:
    one = failure(**shown)
    record(database, failure(), one, failure())

    assert found(database, "NO CRATE is left") == [unique_id(one)]


def test_messages_of_one_cause_are_found_each_by_its_own_text(database: Database) -> None:
    first = failure(exception_message="card expired")
    others = [failure(exception_message="stock empty") for _ in range(5)]
    record(database, first, *others)

    assert found(database, "card expired") == [unique_id(first)]
    assert set(found(database, "stock empty")) == set(map(unique_id, others))


def test_a_message_is_found_by_the_reason_it_is_classified_under(database: Database) -> None:
    one = failure(exception_type="System.TimeoutException")
    record(database, failure(), one)

    assert found(database, "handler_exc") != [unique_id(one)]
    (row,) = [
        r for r in rows(database, failed_messages) if r["unique_message_id"] == unique_id(one)
    ]
    assert unique_id(one) in found(database, row["reason"])


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        ("CAFÉ geschlossen", "café"),
        ("cafe\u0301 geschlossen", "CAFÉ"),
        ("ПЛАТЁЖ", "платёж"),
        ("ΛΆΘΟΣ", "λάθος"),
        ("100%_\\ full", "100%_\\ FULL"),
        ("a[b]*c?d^e", "[B]*C?D^"),
        ("]*[", "]*["),
        ("a\uffffb", "A\ufffeB"),
        (" blanks  ", "s  "),
        ('it\'s "so"', "'S \"so"),
        ("ab", "b"),
    ],
)
def test_case_is_folded_for_all_letters_and_nothing_else(
    database: Database, stored: str, wanted: str
) -> None:
    one = failure(exception_message=stored)
    record(
        database,
        failure(exception_message="another", endpoint="e", message_type="t", queue="q"),
        one,
    )

    assert unique_id(one) in found(database, wanted)


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        ("İstanbul", "istanbul"),
        ("Straße", "strasse"),
        ("100 percent", "100%"),
        ("a line", "a  line"),
        ("a line", "a*e"),
        ("a line", "a?line"),
        ("a line", "[a] line"),
        ("leading", " leading"),
        ("a\uffffb", "a\U0010ffffb"),
    ],
)
def test_what_is_no_part_of_the_text_is_not_found(
    database: Database, stored: str, wanted: str
) -> None:
    record(database, failure(exception_message=stored))

    assert found(database, wanted) == []


def test_no_text_reaches_from_one_part_into_the_next(database: Database) -> None:
    record(database, failure(queue="orders", endpoint="Sales"))

    assert found(database, "orderssales") == []
    assert found(database, f"orders{BETWEEN}sales") == []


def test_a_message_that_fails_again_is_found_by_its_newest_failure(database: Database) -> None:
    first = failure(exception_message="card expired")
    record(database, first, failure(exception_message="card refused"))

    record(database, again(first, exception_message="stock empty"))

    assert found(database, "card expired") == []
    assert found(database, "stock empty") == [unique_id(first)]


def test_a_message_declared_dead_is_found_by_its_new_reason(database: Database) -> None:
    one = failure()
    record(database, one, failure())

    declare_dead(database, unique_id(one), why="cancelled", who="kim", reason="Cancelled by phone")

    assert found(database, "cancelled BY phone") == [unique_id(one)]
    assert unique_id(one) not in found(database, "handler_exception")
    assert broken_rules(database) == []


def test_an_act_leaves_out_a_message_whose_text_has_changed_since(database: Database) -> None:
    one, other = (
        failure(exception_message="card expired"),
        failure(exception_message="Card expired"),
    )
    record(database, one, other)
    ids = found(database, "card expired")
    record(database, again(one, exception_message="stock empty"))

    action = Action(act=Act.RESOLVE, who="kim", selection=Selection(text="card expired"))
    done = database.transact(lambda tx: change(tx, action, ids)).done

    assert done == (unique_id(other),)


def test_a_message_is_found_by_either_of_its_ids_as_a_whole(database: Database) -> None:
    one = failure(message_id="order-4711")
    record(database, one, failure(message_id="order-47112"))

    assert found(database, "order-4711") == [unique_id(one)]
    assert found(database, unique_id(one).upper()) == [unique_id(one)]
    assert found(database, unique_id(one)[:-1]) == []


def test_equal_texts_are_stored_once(database: Database) -> None:
    record(database, *(failure() for _ in range(20)), failure(exception_message="another"))
    record(database, *(failure() for _ in range(20)))

    assert texts(database) == 2


ENDPOINTS = ({"endpoint": None, "queue": "orders"}, {"endpoint": "orders", "queue": "q"})


def test_an_endpoint_that_is_shown_selects_what_shows_it(database: Database) -> None:
    shown = [failure(**each) for each in ENDPOINTS]
    record(database, *shown, failure(endpoint="Sales", queue="orders"))

    page = PageRequest(size=500)
    listed = list_messages(database, Selection(endpoint="orders"), Order(), page, CODEC)

    assert {each.unique_message_id for each in listed.items} == set(map(unique_id, shown))
    assert summarise(database).endpoints == {"Sales": 1, "orders": 2}


BY_CODE_POINT = ["10", "9", "Zebra", "[brack", "_under", "apple", "~tilde", "Äpfel", "äpfel"]


@pytest.mark.parametrize("sort", [Sort.MESSAGE_TYPE, Sort.MESSAGE_ID])
def test_texts_sort_by_code_point(database: Database, sort: Sort) -> None:
    names = BY_CODE_POINT[::2] + BY_CODE_POINT[1::2]
    record(database, *(failure(message_type=each, message_id=each, queue=each) for each in names))

    order = Order(sort=sort, descending=False)
    listed = list_messages(database, Selection(), order, PageRequest(), CODEC)
    turned = list_messages(database, Selection(), Order(sort=sort), PageRequest(), CODEC)

    assert [each.message_type for each in listed.items] == BY_CODE_POINT
    assert [each.message_id for each in turned.items] == BY_CODE_POINT[::-1]
    assert [each.queue for each in list_queues(database, PageRequest()).items] == BY_CODE_POINT


class TestTheSweep:
    """Texts that no message has any more."""

    @pytest.mark.postgres
    def test_leaves_a_text_that_a_failure_is_getting(self, shared_postgres: Database) -> None:
        # Given a text that no message has, and a transaction that is about to give it to one
        empty(shared_postgres)
        one = failure(exception_message="first")
        record(shared_postgres, one)
        record(shared_postgres, again(one, exception_message="second"))
        unused, _ = shared_postgres.read(lambda tx: find_unused(tx, 0))
        (folded,) = (
            r["folded"] for r in rows(shared_postgres, message_texts) if r["text_id"] in unused
        )

        def give(tx: Transaction) -> int:
            identify_texts(tx, [folded])
            return shared_postgres.transact(lambda other: remove_unused(other, unused))

        # Then the sweep passes it by, until that transaction is over
        assert shared_postgres.transact(give) == 0
        assert shared_postgres.transact(lambda tx: remove_unused(tx, unused)) == 1

    def test_deletes_the_text_of_an_earlier_failure(self, database: Database) -> None:
        one = failure(exception_message="first")
        record(database, one)
        record(database, again(one, exception_message="second"))

        assert sweep_texts(database, never) == 1
        assert found(database, "second") == [unique_id(one)]
        assert broken_rules(database) == []

    def test_keeps_the_text_that_another_message_has(self, database: Database) -> None:
        one = failure(exception_message="first")
        record(database, one, failure(exception_message="first"))
        record(database, again(one, exception_message="second"))

        assert sweep_texts(database, never) == 0

    def test_looks_at_all_of_many(self, database: Database) -> None:
        record(database, *(failure(exception_message=f"no {each}") for each in range(1500)))
        with database.engine.begin() as conn:
            conn.execute(
                update(failed_messages).values(
                    text_id=select(func.min(message_texts.c.text_id)).scalar_subquery()
                )
            )

        assert sweep_texts(database, never) == 1499


def test_a_message_without_its_text_is_told_by_verify(database: Database) -> None:
    one = failure()
    record(database, one)

    set_columns(database, unique_id(one), text_id=None)

    assert broken_rules(database) == ["the text by which a message is found is there"]

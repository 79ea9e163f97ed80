"""Notices of dead messages: written with the death, sent at least once, each time the same."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import delete

from retrier.domain import headers
from retrier.domain.copies import DeadMessage
from retrier.store.dead_messages import declare_dead
from retrier.store.engine.database import Database
from retrier.store.outgoing import add_notices
from retrier.store.schema import outgoing, processing_attempts
from retrier.store.verification import verify_store
from tests.contract.store_rows import message, record, rows
from tests.support.disposing import WHY, make_dead
from tests.support.factories import failure, unique_id
from tests.support.outbox import Outbox
from tests.support.raw_messages import raw_properties, retrier_headers

QUEUE = "shop.dead"


@pytest.fixture
def outbox(database: Database) -> Outbox:
    made = Outbox(database)
    made.transport.broker.declare(QUEUE)
    return made


def die(db: Database, *keys: str) -> None:
    """Let messages become dead as a policy does it, with notices in the same transaction."""
    make_dead(db, *keys, reason="timeout_exceeded")
    shown = [message(db, key) for key in keys]
    dead = [DeadMessage(number=row["number"], attempt_id=row["attempt_id"]) for row in shown]
    db.transact(lambda tx: add_notices(tx, QUEUE, dead))


def fail(db: Database, **changes: Any) -> str:
    made = failure(**changes)
    record(db, made)
    return unique_id(made)


def notices(db: Database) -> Sequence[dict[str, Any]]:
    return [row["notice"] for row in rows(db, outgoing)]


def received(outbox: Outbox) -> list[tuple[str | None, dict[str, Any]]]:
    """Return the notice id in the header, and the body, of what lies in the queue."""
    read = outbox.transport.codec.read
    return [
        (read(each.raw).text(headers.NOTICE_ID), json.loads(each.body))
        for each in outbox.transport.broker.holds(QUEUE)
    ]


class TestANotice:
    def test_says_which_message_is_dead_and_why(self, database: Database) -> None:
        key = fail(database, queue="orders", endpoint="Shop.Sales", message_id="order-17")

        die(database, key)

        (told,) = notices(database)
        row = message(database, key)
        assert told["id"] == key
        assert (told["message_id"], told["queue"]) == ("order-17", "orders")
        assert (told["endpoint"], told["message_type"]) == ("Shop.Sales", row["message_type"])
        assert (told["reason"], told["exception_type"]) == (
            "timeout_exceeded",
            row["exception_type"],
        )
        assert (told["disposition_reason"], told["policy"]) == (WHY, "payments@5a1d")
        assert (told["attempts"], told["failure_count"]) == (1, 1)
        assert told["link"] == f"/api/errors/{key}"

    def test_names_the_group_and_the_times(self, database: Database) -> None:
        key = fail(database)

        die(database, key)

        (told,) = notices(database)
        assert told["friendly_name"].startswith("Shop.OutOfStock")
        assert len(told["group_id"]) == 36
        first = datetime.fromisoformat(told["first_failure"])
        assert first == message(database, key)["first_failure"]
        assert datetime.fromisoformat(told["dead_since"]) >= first

    def test_has_an_id_of_its_own(self, database: Database) -> None:
        die(database, fail(database), fail(database))

        first, second = notices(database)
        assert first["notice_id"] != second["notice_id"]

    def test_leaves_out_what_is_not_known(self, database: Database) -> None:
        key = fail(database, stack_trace=None, time_sent=None, endpoint=None)

        die(database, key)

        (told,) = notices(database)
        assert {"endpoint", "time_sent"} & told.keys() == set()

    def test_breaks_no_rule(self, database: Database) -> None:
        die(database, fail(database))

        assert [rule.rule for rule in verify_store(database).rules if rule.broken] == []


class TestAMessageDeclaredDead:
    def test_causes_a_notice_where_that_is_configured(self, database: Database) -> None:
        key = fail(database)

        declare_dead(database, key, why="the shop is closed", who="ada", notices=QUEUE)

        (told,) = notices(database)
        assert told["disposition_reason"] == "declared dead by ada: the shop is closed"

    def test_causes_none_where_it_is_not(self, database: Database) -> None:
        declare_dead(database, fail(database), why="closed", who="ada")

        assert rows(database, outgoing) == []

    def test_causes_none_if_it_is_refused(self, database: Database) -> None:
        key = fail(database)
        make_dead(database, key)

        declare_dead(database, key, why="closed", who="ada", notices=QUEUE)

        assert rows(database, outgoing) == []

    def test_causes_none_if_it_is_a_notice_itself(self, database: Database) -> None:
        """Its consumer rejects notices, and the broker brings them to an error queue."""
        raw = raw_properties({**retrier_headers(), headers.NOTICE_ID: "an earlier one"})
        key = fail(database, raw=raw)

        declare_dead(database, key, why="closed", who="ada", notices=QUEUE)

        assert rows(database, outgoing) == []
        assert message(database, key)["disposition"] == "dead"

    def test_leaves_no_notice_if_it_is_undone(self, database: Database) -> None:
        key = fail(database)
        real = database.transact
        database.transact = lambda verb: real(lambda tx: (verb(tx), 1 / 0)[0])  # type: ignore[method-assign]
        with pytest.raises(ZeroDivisionError):
            declare_dead(database, key, why="closed", who="ada", notices=QUEUE)
        del database.transact  # type: ignore[method-assign]

        assert rows(database, outgoing) == []
        assert message(database, key)["disposition"] == "manual"


class TestSent:
    def test_is_json_with_the_id_in_a_header(self, outbox: Outbox) -> None:
        key = fail(outbox.db)
        die(outbox.db, key)
        (written,) = notices(outbox.db)

        outbox.work()

        ((notice_id, told),) = received(outbox)
        assert notice_id == told["notice_id"] == written["notice_id"]
        (sent,) = outbox.transport.broker.holds(QUEUE)
        fields = outbox.transport.codec.read(sent.raw).fields
        assert dict(fields) == {"content_type": "application/json", "delivery_mode": 2}
        assert outbox.rows() == []

    def test_has_the_exception_of_its_own_failure(self, outbox: Outbox) -> None:
        """Two failures of one cause: what is stored of the cause is the message of the first."""
        raws = [
            raw_properties({**retrier_headers(), "Retrier.Exception.Message": text})
            for text in ("order 17 is gone", "order 18 is gone")
        ]
        keys = [fail(outbox.db, raw=raw) for raw in raws]

        die(outbox.db, keys[1])
        outbox.work()

        ((_, told),) = received(outbox)
        assert told["exception"]["message"] == "order 18 is gone"
        assert told["exception"]["exception_type"] == "Shop.OutOfStock"

    def test_waits_for_a_queue_that_is_missing(self, outbox: Outbox) -> None:
        outbox.transport.broker.delete(QUEUE)
        die(outbox.db, fail(outbox.db))
        outbox.work(20)
        assert outbox.sender.describe()[1].startswith(f"nothing can be sent to {QUEUE}: ")

        outbox.transport.broker.declare(QUEUE)
        outbox.clock.advance(60)
        outbox.work()

        assert len(received(outbox)) == 1

    def test_goes_beside_copies(self, outbox: Outbox) -> None:
        (copied,) = outbox.fail()
        die(outbox.db, copied)

        outbox.work()

        assert outbox.logged() == [copied]
        assert [told["id"] for _, told in received(outbox)] == [copied]

    def test_goes_though_its_failure_was_deleted(self, outbox: Outbox) -> None:
        die(outbox.db, fail(outbox.db))
        with outbox.db.engine.begin() as conn:
            conn.execute(delete(processing_attempts))

        outbox.work()

        ((_, told),) = received(outbox)
        assert "message" not in told["exception"]

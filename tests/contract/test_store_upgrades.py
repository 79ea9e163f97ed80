"""What each revision does to a database that the version before has filled.

The rows of that version are written as it wrote them: this version's code knows newer columns.
"""

from pathlib import Path

import pytest
from sqlalchemy import insert, inspect, select, text

from retrier.domain.archive_operation import Act
from retrier.domain.classifiers import CLASSIFIERS, classify
from retrier.domain.failed_message import FailureDetails
from retrier.domain.identity import md5_guid
from retrier.domain.retry_operation import RetryTerms
from retrier.domain.streams import NO_POSITION, Stream
from retrier.store.engine.database import Database
from retrier.store.message_lists import PageRequest
from retrier.store.message_texts import complete_texts
from retrier.store.redirects import create_redirect
from retrier.store.schema import (
    cause_groups,
    causes,
    failed_messages,
    failure_groups,
    message_texts,
)
from retrier.store.streams import find_stream
from retrier.store.upgrade import upgrade_schema
from retrier.transport.rabbitmq.properties.codec import AmqpPropertyCodec
from tests.contract.store_retries import BEING_SENT, SENT, bring_to
from tests.contract.store_rows import record, rows, select_rows
from tests.contract.store_shape import all_rows, shape_of
from tests.support.bench import Bench
from tests.support.factories import FAILED_AT, failure, unique_id
from tests.support.old import settle
from tests.support.revisions import downgrade, migrations_up_to, widened

BEFORE_STREAMS = "1010"
ORDERS = md5_guid("Endpoint Addressorders")


@pytest.fixture
def with_bare_cause(new: Database, tmp_path: Path) -> Database:
    """Give a database of 1001 with the cause of a failure that says only where it happened."""
    upgrade_schema(new, migrations_up_to(tmp_path, "1001"))
    cause = {"cause_id": 1, "fingerprint": "00" * 16, "queue": "orders", "destination": "orders"}
    group = {"group_id": ORDERS, "classifier": "Endpoint Address", "title": "orders"}
    with new.engine.begin() as conn:
        conn.execute(insert(causes).values(created_at=FAILED_AT, **cause))
        conn.execute(insert(failure_groups).values(**group))
        conn.execute(insert(cause_groups).values(cause_id=1, group_id=ORDERS))
    return new


class TestRevision1002:
    def test_puts_a_cause_into_a_group_of_each_classifier(
        self, with_bare_cause: Database, tmp_path: Path
    ) -> None:
        upgrade_schema(with_bare_cause, migrations_up_to(tmp_path, "1002"))

        details = FailureDetails(queue="orders", destination="orders")
        expected = {group.group_id: group.classifier for group in classify(details)}
        groups = rows(with_bare_cause, failure_groups)
        members = {row["group_id"] for row in rows(with_bare_cause, cause_groups)}
        assert {row["group_id"]: row["classifier"] for row in groups} == expected
        assert members == set(expected)
        assert set(expected.values()) == set(CLASSIFIERS)

    def test_changes_no_other_row(self, with_bare_cause: Database, tmp_path: Path) -> None:
        before = all_rows(with_bare_cause)

        upgrade_schema(with_bare_cause, migrations_up_to(tmp_path, "1002"))

        after = all_rows(with_bare_cause)
        changed = {name for name in before if after[name] != before[name]}
        assert changed == {"alembic_version", "failure_groups", "cause_groups"}
        assert set(before["cause_groups"]) < set(after["cause_groups"])


class TestRevision1005:
    """Indexes for retention: a filled database keeps every row."""

    def test_changes_no_row(self, new: Database, tmp_path: Path) -> None:
        fill(new)
        downgrade(new, "1002")
        before = all_rows(new)

        upgrade_schema(new, migrations_up_to(tmp_path, "1005"))

        after = all_rows(new)
        assert {name for name in before if after[name] != before[name]} == {"alembic_version"}
        assert len(after["failed_messages"]) == 3


class TestRevision1006:
    def test_adds_an_empty_table_and_changes_no_row(
        self, with_bare_cause: Database, tmp_path: Path
    ) -> None:
        upgrade_schema(with_bare_cause, migrations_up_to(tmp_path, "1005"))
        before, shape = all_rows(with_bare_cause), shape_of(with_bare_cause)

        upgrade_schema(with_bare_cause, migrations_up_to(tmp_path, "1006"))

        after = all_rows(with_bare_cause)
        assert after.pop("outgoing") == []
        assert {name for name in before if after[name] != before[name]} == {"alembic_version"}
        assert {
            name: each for name, each in shape_of(with_bare_cause).items() if name != "outgoing"
        } == shape


class TestRevision1007:
    """Columns and tables for operations: a filled database keeps every row."""

    def test_adds_columns_and_empty_tables_and_changes_nothing_else(
        self, new: Database, tmp_path: Path
    ) -> None:
        fill(new)
        downgrade(new, "1006")
        before = all_rows(new)

        upgrade_schema(new, migrations_up_to(tmp_path, "1007"))

        after = all_rows(new)
        empty = {"archive_operations", "archive_operation_messages", "retry_operation_canaries"}
        assert after.keys() - before.keys() == empty
        assert all(after[name] == [] for name in empty)
        assert after["retry_operations"] == widened(
            before["retry_operations"], by=[None, False, None]
        )
        assert {name for name in before if after[name] != before[name]} == {
            "alembic_version",
            "retry_operations",
        }

    def test_is_needed_to_lock_the_lease_against_a_takeover_only(self, new: Database) -> None:
        upgrade_schema(new)

        with new.engine.connect() as conn:
            indexes = inspect(conn).get_indexes("processor_lease")
        assert [(each["column_names"], bool(each["unique"])) for each in indexes] == [
            (["epoch"], True)
        ]


class TestRevision1008:
    """What policies decide: a filled database keeps every row, and none becomes due."""

    def test_adds_empty_columns_and_an_empty_table(self, new: Database, tmp_path: Path) -> None:
        fill(new)
        downgrade(new, "1007")
        before = all_rows(new)

        upgrade_schema(new, migrations_up_to(tmp_path, "1008"))

        after = all_rows(new)
        assert after.pop("policy_sets") == []
        changed = {name for name in before if after[name] != before[name]}
        assert changed == {"alembic_version", "processing_attempts", "retry_operations"}
        assert after["retry_operations"] == widened(before["retry_operations"], by=[0])
        assert after["processing_attempts"] == widened(before["processing_attempts"], by=[None] * 3)


class TestRevision1010:
    """Breakers: a filled database keeps every row, and no retry is counted by one."""

    def test_adds_an_empty_column_and_empty_tables(self, new: Database, tmp_path: Path) -> None:
        fill(new)
        downgrade(new, "1008")
        before = all_rows(new)

        upgrade_schema(new, migrations_up_to(tmp_path, "1010"))

        after = all_rows(new)
        assert (after.pop("breakers"), after.pop("breaker_counts")) == ([], [])
        changed = {name for name in before if after[name] != before[name]}
        assert changed == {"alembic_version", "failed_message_retries"}
        claims = widened(before["failed_message_retries"], by=[None])
        assert after["failed_message_retries"] == claims


class TestRevision1011:
    """Streams: a filled database keeps every row, and a stream that is there gets its queue."""

    def test_changes_nothing_without_streams(self, new: Database, tmp_path: Path) -> None:
        fill(new)
        downgrade(new, BEFORE_STREAMS)
        before = all_rows(new)

        upgrade_schema(new, migrations_up_to(tmp_path, "1011"))

        after = all_rows(new)
        changed = {name for name in before if after[name] != before[name]}
        assert changed == {"alembic_version", "failed_messages", "retry_operations"}
        for name in changed - {"alembic_version"}:
            assert after[name] == widened(before[name], by=[None])

    def test_gives_messages_of_a_stream_the_queue_where_they_failed(self, new: Database) -> None:
        upgrade_schema(new)
        record(new, failure(queue="orders", stream_id="42"), failure(queue="orders"))
        downgrade(new, BEFORE_STREAMS)

        upgrade_schema(new)

        found = [(row["stream_queue"], row["stream_id"]) for row in rows(new, failed_messages)]
        assert found == [("orders", "42"), (None, None)]


class TestRevision1012:
    """Comments: a filled database keeps every row, and nothing is commented on."""

    def test_adds_an_empty_table(self, new: Database, tmp_path: Path) -> None:
        fill(new)
        downgrade(new, "1011")
        before = all_rows(new)

        upgrade_schema(new, migrations_up_to(tmp_path, "1012"))

        after = all_rows(new)
        assert after.pop("group_comments") == []
        assert {name for name in before if after[name] != before[name]} == {"alembic_version"}


class TestRevision1014:
    """Whose stamps a message carries: a filled database keeps every row, and none names another."""

    def test_adds_an_empty_column(self, new: Database, tmp_path: Path) -> None:
        fill(new)
        downgrade(new, "1013")
        before = all_rows(new)

        upgrade_schema(new, migrations_up_to(tmp_path, "1014"))

        after = all_rows(new)
        changed = {name for name in before if after[name] != before[name]}
        assert changed == {"alembic_version", "failed_messages"}
        assert after["failed_messages"] == widened(before["failed_messages"], by=[None])


class TestRevision1015:
    """Delays: a filled database keeps every row, and no delay is known of what was asked for."""

    def test_adds_a_column_without_a_value(self, new: Database, tmp_path: Path) -> None:
        fill(new)
        downgrade(new, "1014")
        before = all_rows(new)

        upgrade_schema(new, migrations_up_to(tmp_path, "1015"))

        after = all_rows(new)
        changed = {name for name in before if after[name] != before[name]}
        assert changed == {"alembic_version", "retry_operations"}
        assert after["retry_operations"] == widened(before["retry_operations"], by=[None])


class TestRevision1016:
    """A view of the batches: a filled database keeps every row, and has the view."""

    def test_adds_the_view_and_changes_no_row(self, new: Database, tmp_path: Path) -> None:
        fill(new)
        downgrade(new, "1015")
        with new.engine.begin() as conn:
            conn.execute(text("DROP VIEW IF EXISTS v_retry_batches"))
        before = all_rows(new)

        upgrade_schema(new, migrations_up_to(tmp_path, "1016"))

        after = all_rows(new)
        assert {name for name in before if after[name] != before[name]} == {"alembic_version"}
        assert "v_retry_batches" in inspect(new.engine).get_view_names()


class TestRevision1017:
    """Positions in streams: a filled database keeps every row, and none states a position."""

    def test_adds_a_column_without_a_position_and_an_empty_one(
        self, new: Database, tmp_path: Path
    ) -> None:
        fill(new)
        downgrade(new, "1016")
        before = all_rows(new)

        upgrade_schema(new, migrations_up_to(tmp_path, "1017"))

        after = all_rows(new)
        changed = {name for name in before if after[name] != before[name]}
        assert changed == {"alembic_version", "failed_messages"}
        wide = widened(before["failed_messages"], by=[NO_POSITION, None])
        assert after["failed_messages"] == wide

    def test_keeps_the_order_of_a_stream_that_is_there(self, new: Database) -> None:
        upgrade_schema(new)
        kept = [failure(queue="orders", stream_id="42") for _ in range(2)]
        record(new, *kept)
        downgrade(new, "1016")

        upgrade_schema(new)

        found = find_stream(new, Stream("orders", "42"), PageRequest())
        assert found is not None
        shown = [each.unique_message_id for each in found.messages.items]
        assert shown == [unique_id(each) for each in kept]


class TestRevision1018:
    """Dropped headers: a filled database keeps every row, and what was asked for drops none."""

    def test_adds_a_column_without_a_value(self, new: Database, tmp_path: Path) -> None:
        fill(new)
        downgrade(new, "1017")
        before = all_rows(new)

        upgrade_schema(new, migrations_up_to(tmp_path, "1018"))

        after = all_rows(new)
        changed = {name for name in before if after[name] != before[name]}
        assert changed == {"alembic_version", "retry_operations"}
        assert after["retry_operations"] == widened(before["retry_operations"], by=[None])


class TestRevision1019:
    """Recoveries: a filled database keeps every row, and none is under way."""

    def test_adds_an_empty_table(self, new: Database, tmp_path: Path) -> None:
        fill(new)
        downgrade(new, "1018")
        before = all_rows(new)

        upgrade_schema(new, migrations_up_to(tmp_path, "1019"))

        after = all_rows(new)
        assert after.pop("recovery") == []
        assert {name for name in before if after[name] != before[name]} == {"alembic_version"}


SHOWN_OF_1020 = (
    "unique_message_id",
    "maybe_copy_of",
    "disposition",
    "disposition_reason",
    "retry_at",
)


class TestRevision1020:
    """Hosts: a filled database keeps every row, and what is stored says none."""

    def test_adds_columns_without_values(self, new: Database, tmp_path: Path) -> None:
        fill(new)
        downgrade(new, "1019")
        before = all_rows(new)

        upgrade_schema(new, migrations_up_to(tmp_path, "1020"))

        after = all_rows(new)
        changed = {name for name in before if after[name] != before[name]}
        assert changed == {"alembic_version", "failed_messages"}
        wide = widened(before["failed_messages"], by=[None, None, None])
        assert after["failed_messages"] == wide

    def test_marks_what_is_stored_under_two_nodes_and_joins_nothing(
        self, new: Database, tmp_path: Path
    ) -> None:
        # Given one task under two nodes, and others that share only a part with the first one
        upgrade_schema(new)
        task = {"message_id": "t1", "body": b"[1]", "queue": "tasks"}
        first, second = (failure(endpoint=node, **task) for node in ("w1", "w2"))
        others = [
            failure(endpoint="w3", **task | {"body": b"[2]"}),
            failure(endpoint="w3", **task | {"queue": "mail"}),
            failure(endpoint="w3", message_type="shop.bill", **task),
            failure(endpoint="w3", **task | {"message_id": "t2"}),
            failure(endpoint="w4", dialect="rabbitmq", **task),
        ]
        record(new, first, second, *others)
        downgrade(new, "1019")
        with new.engine.begin() as conn:
            conn.execute(
                text(
                    "UPDATE failed_messages SET disposition = 'scheduled', policy = 'p',"
                    " retry_at = last_failure WHERE number <= 2"
                )
            )

        # When the schema is upgraded
        upgrade_schema(new, migrations_up_to(tmp_path, "1020"))

        # Then the second one says what it may be, and waits for a person
        shown = (failed_messages.c[name] for name in SHOWN_OF_1020)
        found = {row["unique_message_id"]: row for row in select_rows(new, select(*shown))}
        marked = {key for key, row in found.items() if row["maybe_copy_of"] is not None}
        assert marked == {unique_id(second)}
        row = found[unique_id(second)]
        assert row["maybe_copy_of"] == unique_id(first)
        assert (row["disposition"], row["retry_at"]) == ("manual", None)
        assert row["disposition_reason"].startswith("it may be a copy of")
        assert found[unique_id(first)]["disposition"] == "scheduled"


class TestRevision1023:
    """Turns: a filled database keeps every row."""

    def test_adds_an_index(self, new: Database, tmp_path: Path) -> None:
        fill(new)
        downgrade(new, "1021")
        before = all_rows(new)

        upgrade_schema(new, migrations_up_to(tmp_path, "1023"))

        after = all_rows(new)
        assert {name for name in before if after[name] != before[name]} == {"alembic_version"}


class TestRevision1024:
    """What was decided before a message was archived: unknown of those archived before."""

    def test_adds_columns_without_values(self, new: Database, tmp_path: Path) -> None:
        fill(new)
        downgrade(new, "1023")
        before = all_rows(new)

        upgrade_schema(new, migrations_up_to(tmp_path, "1024"))

        after = all_rows(new)
        assert after["failed_messages"] == widened(before["failed_messages"], by=[None] * 4)


class TestRevision1025:
    """How far error queues are read: nobody has written anything yet."""

    def test_adds_an_empty_table(self, new: Database, tmp_path: Path) -> None:
        fill(new)
        downgrade(new, "1024")
        before = all_rows(new)

        upgrade_schema(new, migrations_up_to(tmp_path, "1025"))

        after = all_rows(new)
        assert after.pop("error_queue_reads") == []
        assert {name for name in before if after[name] != before[name]} == {"alembic_version"}


class TestRevision1026:
    """Texts: a filled database keeps every row, and each message is given what it shows."""

    def test_keeps_every_row_and_the_first_start_gives_the_texts(
        self, new: Database, tmp_path: Path
    ) -> None:
        fill(new)
        texts = rows(new, message_texts)
        downgrade(new, "1025")
        before = all_rows(new)

        upgrade_schema(new, migrations_up_to(tmp_path, "1026"))

        after = all_rows(new)
        assert after.pop("message_texts") == []
        changed = {name for name in before if after[name] != before[name]}
        assert changed - {"sqlite_sequence"} == {"alembic_version", "failed_messages"}
        assert after["failed_messages"] == widened(before["failed_messages"], by=[None])
        assert complete_texts(new, AmqpPropertyCodec()) == len(before["failed_messages"])
        assert {row["folded"] for row in rows(new, message_texts)} == {
            row["folded"] for row in texts
        }


class TestRevision1027:
    """In which order messages were archived and sent is not known of what is there; to where is."""

    def test_adds_columns_without_values(self, new: Database, tmp_path: Path) -> None:
        fill(new)
        downgrade(new, "1026")
        before = all_rows(new)

        upgrade_schema(new, migrations_up_to(tmp_path, "1027"))

        after = all_rows(new)
        for table, count in (("failed_messages", 1), ("failed_message_retries", 2)):
            assert after[table] == widened(before[table], by=[None] * count)

    def test_notes_where_retries_were_sent(self, new: Database, tmp_path: Path) -> None:
        upgrade_schema(new)
        bench = Bench(new)
        for queue in ("elsewhere", "bills.new"):
            bench.transport.broker.declare(queue)
        here, named = bench.fail(2, queue="orders")
        bench.ask([here])
        bench.ask([named], RetryTerms(destination="elsewhere"))
        bench.work()
        create_redirect(new, "bills", "bills.new", own_queues=frozenset(), who="ada")
        (redirected,) = bench.fail(queue="bills")
        bench.ask([redirected])
        bench.work()
        sent_to = {key: row["sent_to"] for key, row in bench.claims().items()}
        downgrade(new, "1026")

        upgrade_schema(new, migrations_up_to(tmp_path, "1027"))

        claims = {key: row["sent_to"] for key, row in bench.claims().items()}
        assert claims == sent_to == {here: None, named: "elsewhere", redirected: "bills.new"}


class TestRevision1029:
    """Which processes run: none has written anything yet."""

    def test_adds_an_empty_table(self, new: Database, tmp_path: Path) -> None:
        fill(new)
        downgrade(new, "1027")
        before = all_rows(new)

        upgrade_schema(new, migrations_up_to(tmp_path, "1029"))

        after = all_rows(new)
        assert after.pop("processes") == []
        assert {name for name in before if after[name] != before[name]} == {"alembic_version"}


def fill(db: Database) -> None:
    """Fill a new database: a message confirmed, one being sent, one archived."""
    upgrade_schema(db)
    bench = Bench(db)
    bring_to(bench, SENT).confirm()
    bring_to(bench, BEING_SENT)
    settle(db, Act.ARCHIVE, bench.fail())

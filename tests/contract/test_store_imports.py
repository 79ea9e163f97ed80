"""Failed imports that are read again: each becomes one thing, and the ledger adds up."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Barrier
from typing import Any
from uuid import uuid4

import pytest

from retrier.domain.failed_imports import Became, ImportRefusal
from retrier.domain.failed_message import FailedImport, FailedMessageStatus
from retrier.domain.headers import INSTALLATION_ID, RETRY_SUCCESSFUL, STAGING_ID, UNIQUE_MESSAGE_ID
from retrier.domain.wire import Delivery
from retrier.errors import DataRefused
from retrier.imports import FailedImports
from retrier.ingestion.parsing import QueueMapping, parse
from retrier.store import import_acts
from retrier.store import imports as stored_imports
from retrier.store.engine.database import Database
from retrier.store.imports import ImportSelection
from retrier.store.recording import Reception, record_received
from retrier.store.schema import event_log, failed_imports, ledger, processing_attempts
from retrier.store.upkeep import get_installation_id
from retrier.store.verification import verify_store
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.contract.store_retries import SENT, bring_to
from tests.contract.store_rows import (
    ledger_entries,
    message,
    messages,
    only_message,
    record,
    rows,
)
from tests.support.bench import Bench
from tests.support.factories import ERROR_QUEUE, FAILED_AT, failed_import
from tests.support.imports import make_imports
from tests.support.raw_messages import raw_properties, retrier_headers

CODEC = AmqpPropertyCodec()
YESTERDAY = QueueMapping(queue=ERROR_QUEUE)
TODAY = QueueMapping(queue=ERROR_QUEUE, destination="orders")
NOBODY = "12345678-1234-4234-8234-123456789abc"


@pytest.fixture
def imports(database: Database) -> FailedImports:
    """Give what reads imports again, with a destination in the settings of today."""
    return make_imports(database, mappings={ERROR_QUEUE: TODAY})


def arrival(
    headers: dict[str, object] | None = None,
    *,
    body: bytes = b"body",
    redelivered: bool = False,
    **fields: object,
) -> Delivery:
    """Return a delivery of these properties from the error queue."""
    raw = raw_properties(headers, **fields)
    return Delivery(tag=None, queue=ERROR_QUEUE, raw=raw, body=body, redelivered=redelivered)


def take_in(db: Database, *arrived: Delivery, mapping: QueueMapping = YESTERDAY) -> list[str]:
    """Let deliveries arrive in one batch; return the ids of all imports, in order of arrival."""
    received = [parse(each, CODEC, mapping, FAILED_AT) for each in arrived]
    record(db, *received)
    return import_ids(db)


def import_ids(db: Database) -> list[str]:
    return [row["import_id"] for row in rows(db, failed_imports)]


def off(db: Database) -> list[str]:
    """Return the rules that are broken."""
    return [each.rule for each in verify_store(db).rules if each.broken]


def untold(db: Database) -> int:
    """Return what the ledger is off by, of deliveries."""
    entries = ledger_entries(db)
    read = entries.pop("taken_off", 0) + entries.pop("reimported", 0)
    return read - sum(entries.values())


class TestAnImportReadAgain:
    def test_is_counted_once_more_as_what_it_became(
        self, database: Database, imports: FailedImports
    ) -> None:
        (import_id,) = take_in(database, arrival(message_id="9"))

        came_to = imports.read_again(import_id, "ada")

        assert came_to.became == Counter({Became.FAILED_MESSAGE: 1})
        assert came_to.message_ids == tuple(messages(database))
        assert ledger_entries(database) == {
            "taken_off": 1,
            "failed_imports": 1,
            "reimported": 1,
            "new": 1,
        }
        assert off(database) == []

    def test_becomes_what_it_would_have_been_when_it_came(
        self, database: Database, imports: FailedImports
    ) -> None:
        came = arrival(message_id="9", body=b"order 7")
        (import_id,) = take_in(database, came)

        imports.read_again(import_id, "ada")

        stored = only_message(database)
        assert (bytes(stored["raw_properties"]), bytes(stored["body"])) == (came.raw, b"order 7")
        assert (stored["queue"], stored["error_queue"]) == ("orders", ERROR_QUEUE)
        assert stored["last_modified"] == FAILED_AT

    def test_that_is_understood_no_better_stays_with_the_reason_of_today(
        self, database: Database
    ) -> None:
        (import_id,) = take_in(database, arrival({"Retrier.FailedQueue": ""}))
        before = ledger_entries(database)

        came_to = make_imports(database).read_again(import_id, "ada")

        (kept,) = rows(database, failed_imports)
        assert came_to.kept == Counter([kept["reason"]])
        assert "Retrier.FailedQueue is missing or empty" in kept["reason"]
        assert ledger_entries(database) == before

    def test_is_of_its_error_queue_though_that_is_listed_no_more(self, database: Database) -> None:
        (import_id,) = take_in(
            database, arrival(retrier_headers()), mapping=replace(YESTERDAY, dialect="rabbitmq")
        )

        make_imports(database, mappings={}).read_again(import_id, "ada")

        assert only_message(database)["queue"] == "orders"

    def test_fails_the_message_again_that_is_stored(
        self, database: Database, imports: FailedImports
    ) -> None:
        take_in(database, arrival({"x-retry-count": 1}, message_id="9"), mapping=TODAY)
        (import_id,) = take_in(database, arrival({"x-retry-count": 2}, message_id="9"))

        imports.read_again(import_id, "ada")

        assert only_message(database)["attempts"] == 2
        assert (untold(database), off(database)) == (0, [])

    def test_twice_at_once_becomes_one_message(
        self, database: Database, imports: FailedImports
    ) -> None:
        (import_id,) = take_in(database, arrival())

        first, second = (imports.read_again(import_id, "ada") for _ in range(2))

        assert first.became.total() == 1
        assert second.refused == Counter([ImportRefusal.UNKNOWN])
        assert len(messages(database)) == 1

    def test_is_gone_in_the_same_transaction(
        self, database: Database, imports: FailedImports
    ) -> None:
        """A process that dies in between leaves either the import or the message, never both."""
        (import_id,) = take_in(database, arrival())

        def die(tx: Any) -> None:
            import_acts.read_again.__wrapped__(  # type: ignore[attr-defined]
                tx, [import_id], imports.read, into=Reception(instance="here"), who="ada"
            )
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            database.transact(die)

        assert import_ids(database) == [import_id]
        assert (messages(database), untold(database)) == ({}, 0)


class TestAnImportThatIsStoredAlready:
    """It was handed out twice, and the settings changed in between."""

    def test_makes_no_second_attempt(self, database: Database, imports: FailedImports) -> None:
        came = arrival(message_id="9")
        take_in(database, came, mapping=TODAY)
        (import_id,) = take_in(database, replace(came, redelivered=True))

        came_to = imports.read_again(import_id, "ada")

        assert came_to.became == Counter({Became.STORED_BEFORE: 1})
        assert came_to.message_ids == tuple(messages(database))
        assert len(rows(database, processing_attempts)) == 1
        assert (import_ids(database), untold(database), off(database)) == ([], 0, [])

    def test_is_the_same_though_its_message_is_dealt_with(
        self, database: Database, imports: FailedImports
    ) -> None:
        came = arrival(message_id="9")
        take_in(database, came, mapping=TODAY)
        (key,) = messages(database)
        Bench(database).set_status(key, FailedMessageStatus.ARCHIVED)
        (import_id,) = take_in(database, replace(came, redelivered=True))

        imports.read_again(import_id, "ada")

        assert message(database, key)["status"] == "archived"

    def test_is_not_taken_in_once_more_as_a_failure(
        self, database: Database, imports: FailedImports
    ) -> None:
        """Died between commit and acknowledgement, and understood when it came again."""
        came = arrival(message_id="9")
        take_in(database, came)

        left = take_in(database, replace(came, redelivered=True), mapping=TODAY)

        assert (len(left), messages(database)) == (1, {})
        assert ledger_entries(database) == {"taken_off": 2, "failed_imports": 1, "redelivered": 1}
        imports.read_all_again(None, "ada")
        assert (len(messages(database)), untold(database)) == (1, 0)

    def test_is_another_if_the_broker_says_so(self, database: Database) -> None:
        take_in(database, arrival(message_id="9"))

        take_in(database, arrival(message_id="9"), mapping=TODAY)

        assert (len(import_ids(database)), len(messages(database))) == (1, 1)

    @pytest.mark.parametrize("number", [2, 3])
    def test_by_another_import_is_one_message_with_one_attempt(
        self, database: Database, imports: FailedImports, number: int
    ) -> None:
        ids = take_in(database, *(arrival(message_id="9") for _ in range(number)))

        together = import_acts.read_again(
            database, ids, imports.read, into=Reception(instance="here"), who="ada"
        )

        assert together.became == Counter(
            {Became.FAILED_MESSAGE: 1, Became.STORED_BEFORE: number - 1}
        )
        assert together.message_ids == tuple(messages(database))
        assert only_message(database)["attempts"] == 1
        assert (untold(database), off(database)) == (0, [])


class TestImportsWithoutAMessageId:
    def test_are_as_many_messages_though_their_bytes_are_equal(
        self, database: Database, imports: FailedImports
    ) -> None:
        first, second, third = take_in(database, arrival(), arrival(), arrival())

        imports.read_again(first, "ada")
        import_acts.read_again(
            database, [second, third], imports.read, into=Reception(instance="here"), who="ada"
        )

        stored = messages(database).values()
        assert [each["maybe_copy_of"] for each in stored] == [None] * 3
        assert (untold(database), off(database)) == (0, [])

    def test_say_what_they_may_be_a_copy_of(
        self, database: Database, imports: FailedImports
    ) -> None:
        """Died between commit and acknowledgement: the same message is there as both."""
        (import_id,) = take_in(database, arrival())
        take_in(database, arrival(redelivered=True), mapping=TODAY)
        (first,) = messages(database)

        imports.read_again(import_id, "ada")

        found = {key: row["maybe_copy_of"] for key, row in messages(database).items()}
        assert found.pop(first) is None
        assert list(found.values()) == [first]

    def test_say_so_the_other_way_round(self, database: Database, imports: FailedImports) -> None:
        take_in(database, arrival(), mapping=TODAY)
        (first,) = messages(database)
        (import_id,) = take_in(database, arrival(redelivered=True))

        imports.read_again(import_id, "ada")

        assert [row["maybe_copy_of"] for row in messages(database).values()] == [None, first]


class TestAnImportThatIsNoFailure:
    def test_may_confirm_a_message_that_is_known_by_now(self, database: Database) -> None:
        bench = Bench(database)
        retry = bring_to(bench, SENT)
        confirms = {UNIQUE_MESSAGE_ID: retry.key, RETRY_SUCCESSFUL: "now"}
        kept = failed_import(raw_properties(confirms), b"", reason="of a message not known here")
        record(database, kept)
        (import_id,) = import_ids(database)

        came_to = make_imports(database).read_again(import_id, "ada")

        assert came_to.became == Counter({Became.CONFIRMATION: 1})
        assert retry.message["status"] == "resolved"
        assert (import_ids(database), ledger_entries(database)["reimported"]) == ([], 1)
        assert off(database) == []

    def test_may_confirm_a_message_that_is_still_not_known(self, database: Database) -> None:
        confirms = {UNIQUE_MESSAGE_ID: str(uuid4()), RETRY_SUCCESSFUL: "now"}
        (import_id,) = take_in(database, arrival(confirms, body=b""))

        came_to = make_imports(database).read_again(import_id, "ada")

        assert list(came_to.kept) == ["it confirms a retry of a message that is not known here"]
        assert (len(import_ids(database)), untold(database)) == (1, 0)

    def test_may_be_a_copy_out_of_a_staging_queue(self, database: Database) -> None:
        stamps = {INSTALLATION_ID: str(uuid4()), STAGING_ID: str(uuid4())}
        record(database, failed_import(raw_properties(stamps), b""))
        get_installation_id(database)
        (import_id,) = import_ids(database)

        came_to = make_imports(database).read_again(import_id, "ada")

        assert came_to.became == Counter({Became.OWN_COPY: 1})
        assert ledger_entries(database)["own_copies"] == 1
        assert (import_ids(database), off(database)) == ([], [])


class TestManyImports:
    def test_are_read_in_the_order_in_which_they_came(
        self, database: Database, imports: FailedImports
    ) -> None:
        bodies = [str(number).encode() for number in range(30)]
        for number in range(3):
            batch = bodies[number * 10 :][:10]
            later = FAILED_AT + timedelta(minutes=number)
            record(database, *(failed_import(body=each, received_at=later) for each in batch))

        imports.read_all_again(None, "ada")

        assert [bytes(row["body"]) for row in messages(database).values()] == bodies

    def test_are_read_in_bounded_chunks(self, database: Database, imports: FailedImports) -> None:
        count = stored_imports.CHUNK + 1
        record(database, *(failed_import(body=str(each).encode()) for each in range(count)))
        transactions: list[int] = []

        def read(kept: FailedImport) -> Any:
            transactions[-1] += 1
            return imports.read(kept)

        def emit(event: Any) -> None:
            if event.name == "request.before_record":
                transactions.append(0)

        came_to = replace(imports, read=read, emit=emit).read_all_again(None, "ada")

        assert transactions == [stored_imports.CHUNK, 1]
        assert came_to.became == Counter({Became.FAILED_MESSAGE: count})
        assert (len(messages(database)), import_ids(database), untold(database)) == (count, [], 0)

    def test_of_many_bytes_are_read_one_by_one(
        self, database: Database, imports: FailedImports
    ) -> None:
        large = bytes(stored_imports.CHUNK_BYTES // 2 + 1)
        record(database, *(failed_import(body=large) for _ in range(2)), failed_import())
        chunks = []
        after = None
        end = stored_imports.find_end(database)
        assert end is not None
        while chunk := stored_imports.find_import_chunk(database, ImportSelection(), end, after):
            chunks.append(len(chunk.import_ids))
            after = chunk.last

        came_to = imports.read_all_again(None, "ada")

        assert (sum(chunks), max(chunks)) == (3, 2)
        assert came_to.became.total() == 3

    def test_that_come_meanwhile_are_no_part_of_it(
        self, database: Database, imports: FailedImports
    ) -> None:
        record(database, failed_import())

        def read(kept: FailedImport) -> Any:
            later = kept.received_at + timedelta(minutes=1)
            if not database.is_sqlite:
                record(database, failed_import(received_at=later))
            return imports.read(kept)

        came_to = replace(imports, read=read).read_all_again(None, "ada")

        assert came_to.became.total() == 1

    def test_that_two_read_at_once_become_one_message_each(
        self, database: Database, imports: FailedImports
    ) -> None:
        count = 300
        record(database, *(failed_import(body=str(each).encode()) for each in range(count)))
        ready = Barrier(2, timeout=30)

        def read(who: str) -> Counter[Became]:
            ready.wait()
            came_to = imports.read_all_again(None, who)
            assert came_to.refused == Counter()
            return came_to.became

        with ThreadPoolExecutor(2) as pool:
            both = [pool.submit(read, who) for who in ("ada", "bob")]
            became = sum((each.result(60) for each in both), Counter[Became]())

        assert became == Counter({Became.FAILED_MESSAGE: count})
        assert (len(messages(database)), untold(database), off(database)) == (count, 0, [])

    def test_are_not_held_up_by_one_that_the_database_refuses(
        self, database: Database, imports: FailedImports
    ) -> None:
        record(database, *(failed_import(body=each) for each in (b"a", b"guilty", b"b")))

        def read(kept: FailedImport) -> Any:
            if kept.body == b"guilty":
                raise DataRefused("a number out of range")
            return imports.read(kept)

        came_to = replace(imports, read=read).read_all_again(None, "ada")

        (kept,) = rows(database, failed_imports)
        assert came_to.became.total() == 2
        assert kept["reason"] == "the database refuses it: a number out of range"
        assert (untold(database), off(database)) == (0, [])


def test_an_import_that_is_unknown_is_told(imports: FailedImports) -> None:
    for import_id in (NOBODY, "no id"):
        assert imports.read_again(import_id, "ada").refused == Counter([ImportRefusal.UNKNOWN])


def test_every_act_is_in_the_event_log_with_who_did_it(
    database: Database, imports: FailedImports
) -> None:
    (import_id,) = take_in(database, arrival(message_id="9"))

    imports.read_again(import_id, "ada")

    event = rows(database, event_log)[-1]
    (key,) = messages(database)
    assert (event["kind"], event["who"]) == ("import_read_again", "ada")
    assert event["unique_message_id"] == key
    assert event["details"] == {"import_id": import_id, "became": "failed_message"}


def test_it_is_counted_by_the_instance_that_did_it(database: Database) -> None:
    record_received(database, [failed_import()], instance="there")

    make_imports(database, mappings={ERROR_QUEUE: TODAY}, instance="here").read_all_again(
        None, "ada"
    )

    counted = {(row["instance"], row["entry"]) for row in rows(database, ledger)}
    assert {("here", "reimported"), ("here", "new")} <= counted

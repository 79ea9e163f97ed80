"""Stamps of failed imports: one at a time, and nobody changes another one's."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.exc import IntegrityError

from retrier.domain.failed_imports import (
    ON_ITS_WAY,
    Doubtful,
    ImportRefusal,
    NotTaken,
    NotTried,
    Sent,
)
from retrier.imports import FailedImports
from retrier.store.engine.database import Database
from retrier.store.import_acts import StampedImport, delete_import, record_send, stamp_import
from retrier.store.imports import ImportSelection, list_imports
from retrier.store.message_lists import PageRequest
from retrier.store.schema import event_log, failed_import_sends, failed_imports
from tests.contract.store_rows import record, rows
from tests.support.factories import failed_import
from tests.support.imports import make_imports
from tests.support.scripted_transport import ScriptedTransport

DEADLINE = 30
TO = "orders"


@pytest.fixture
def import_id(database: Database) -> str:
    """Give the id of an import that is kept."""
    record(database, failed_import(b"\xff", b"\x00body"))
    (kept,) = rows(database, failed_imports)
    return str(kept["import_id"])


def stamp(db: Database, import_id: str, *, again: bool = False) -> StampedImport:
    stamped = stamp_import(db, import_id, TO, again=again, who="ada")
    assert isinstance(stamped, StampedImport)
    return stamped


def let_pass(db: Database, time: timedelta = ON_ITS_WAY) -> None:
    """Let the time go by in which whoever stamped it might still send it."""
    (row,) = rows(db, failed_import_sends)
    with db.engine.begin() as conn:
        earlier = row["sending_since"] - time
        conn.execute(update(failed_import_sends).values(sending_since=earlier))


def kinds(db: Database) -> list[str]:
    return [row["kind"] for row in rows(db, event_log)]


class TestAStamp:
    def test_is_there_before_anything_is_sent(self, database: Database, import_id: str) -> None:
        stamped = stamp(database, import_id)

        (row,) = rows(database, failed_import_sends)
        assert (row["import_id"], row["send_id"]) == (import_id, stamped.send.send_id)
        assert (row["sending_to"], row["requested_by"]) == (TO, "ada")
        assert (stamped.raw, stamped.body) == (b"\xff", b"\x00body")

    def test_shows_the_import_as_in_doubt(self, database: Database, import_id: str) -> None:
        stamp(database, import_id)

        (shown,) = list_imports(database, ImportSelection(), PageRequest()).items
        assert (shown.state, shown.send and shown.send.to) == ("in_doubt", TO)

    def test_is_the_only_one_of_its_import(self, database: Database, import_id: str) -> None:
        stamp(database, import_id)
        (row,) = rows(database, failed_import_sends)

        with pytest.raises(IntegrityError), database.engine.begin() as conn:
            conn.execute(failed_import_sends.insert().values(row))

    def test_keeps_its_import_from_being_deleted_by_others(
        self, database: Database, import_id: str
    ) -> None:
        stamp(database, import_id)

        with pytest.raises(IntegrityError), database.engine.begin() as conn:
            conn.execute(failed_imports.delete())

    def test_names_a_queue_a_time_and_who_asked(self, database: Database, import_id: str) -> None:
        stamp(database, import_id)
        (row,) = rows(database, failed_import_sends)

        for name in ("sending_to", "sending_since", "requested_by", "send_id"):
            with pytest.raises(IntegrityError), database.engine.begin() as conn:
                conn.execute(update(failed_import_sends).values({name: None}))
        assert rows(database, failed_import_sends) == [row]


class TestWhatIsRecorded:
    def test_takes_the_import_away_that_the_broker_has(
        self, database: Database, import_id: str
    ) -> None:
        record_send(database, stamp(database, import_id), Sent())

        assert rows(database, failed_imports) == rows(database, failed_import_sends) == []
        assert kinds(database) == ["failed_import", "import_stamped", "import_sent"]

    @pytest.mark.parametrize("outcome", [NotTaken("no"), NotTried("away")])
    def test_takes_the_stamp_back_from_what_was_not_sent(
        self, database: Database, import_id: str, outcome: Any
    ) -> None:
        record_send(database, stamp(database, import_id), outcome)

        assert rows(database, failed_import_sends) == []
        assert len(rows(database, failed_imports)) == 1
        assert outcome.reason in rows(database, event_log)[-1]["text"]

    def test_leaves_the_stamp_of_what_may_have_arrived(
        self, database: Database, import_id: str
    ) -> None:
        record_send(database, stamp(database, import_id), Doubtful("reset"))

        assert len(rows(database, failed_import_sends)) == 1
        assert kinds(database)[-1] == "import_in_doubt"

    def test_says_who_did_it_and_to_which_queue(self, database: Database, import_id: str) -> None:
        record_send(database, stamp(database, import_id), Sent())

        for event in rows(database, event_log)[1:]:
            assert (event["who"], event["details"]) == (
                "ada",
                {"import_id": import_id, "queue": TO},
            )


class TestOneInDoubt:
    @pytest.mark.parametrize("again", [True, False])
    def test_is_left_alone_while_it_may_be_on_its_way(
        self, database: Database, import_id: str, *, again: bool
    ) -> None:
        stamp(database, import_id)
        let_pass(database, ON_ITS_WAY - timedelta(seconds=30))

        refused = stamp_import(database, import_id, TO, again=again, who="bob")

        assert refused is ImportRefusal.ON_ITS_WAY
        assert delete_import(database, import_id, who="bob") is ImportRefusal.ON_ITS_WAY

    def test_is_stamped_once_more_only_if_that_is_wanted(
        self, database: Database, import_id: str
    ) -> None:
        first = stamp(database, import_id)
        let_pass(database)

        unasked = stamp_import(database, import_id, TO, again=False, who="bob")
        second = stamp(database, import_id, again=True)

        assert unasked is ImportRefusal.IN_DOUBT
        assert second.before is not None
        assert second.before.send_id == first.send.send_id
        (row,) = rows(database, failed_import_sends)
        assert row["send_id"] == second.send.send_id

    @pytest.mark.parametrize("outcome", [NotTaken("no"), NotTried("away")])
    def test_is_in_doubt_as_before_if_the_second_send_came_to_nothing(
        self, database: Database, import_id: str, outcome: Any
    ) -> None:
        """The first one is open still, whatever the broker says of the second."""
        stamp(database, import_id)
        let_pass(database)
        before = rows(database, failed_import_sends)

        record_send(database, stamp(database, import_id, again=True), outcome)

        assert rows(database, failed_import_sends) == before

    def test_can_be_deleted_later(self, database: Database, import_id: str) -> None:
        stamp(database, import_id)
        let_pass(database)

        assert delete_import(database, import_id, who="bob") is None

        assert rows(database, failed_imports) == rows(database, failed_import_sends) == []
        assert "may have been sent to orders" in rows(database, event_log)[-1]["text"]


@pytest.mark.parametrize("outcome", [Sent(), NotTaken("no")])
def test_an_answer_that_comes_late_changes_nothing_of_a_later_send(
    database: Database, import_id: str, outcome: Any
) -> None:
    first = stamp(database, import_id)
    let_pass(database)
    second = stamp(database, import_id, again=True)

    record_send(database, first, outcome)

    (row,) = rows(database, failed_import_sends)
    assert row["send_id"] == second.send.send_id
    assert len(rows(database, failed_imports)) == 1


def test_a_refusal_that_comes_late_puts_no_earlier_stamp_in_the_place_of_a_later_one(
    database: Database, import_id: str
) -> None:
    stamp(database, import_id)
    let_pass(database)
    second = stamp(database, import_id, again=True)
    let_pass(database)
    third = stamp(database, import_id, again=True)

    record_send(database, second, NotTaken("no"))

    (row,) = rows(database, failed_import_sends)
    assert row["send_id"] == third.send.send_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """Two who do the same to the same import at the same moment."""

    transport: ScriptedTransport
    imports: FailedImports
    import_id: str

    def run(self, *, again: bool) -> list[Any]:
        """Return what each is told."""
        ready = Barrier(2, timeout=DEADLINE)

        def send(who: str) -> Any:
            ready.wait()
            return self.imports.send(self.import_id, TO, who, again=again)

        with ThreadPoolExecutor(2) as pool:
            both = [pool.submit(send, who) for who in ("ada", "bob")]
            return [each.result(DEADLINE) for each in both]


@pytest.fixture
def race(database: Database, import_id: str) -> Race:
    transport = ScriptedTransport()
    transport.broker.declare(TO)
    return Race(
        transport=transport,
        imports=make_imports(database, transport),
        import_id=import_id,
    )


class TestTwoWhoSendAtOnce:
    REFUSALS = frozenset({ImportRefusal.ON_ITS_WAY, ImportRefusal.UNKNOWN})
    """Being sent at this moment, or gone by now."""

    def test_one_gets_it_and_the_other_is_told(self, race: Race) -> None:
        told = race.run(again=False)

        assert told.count(Sent()) == 1
        assert {*told} - {Sent()} <= self.REFUSALS

    def test_it_arrives_once(self, race: Race) -> None:
        race.run(again=False)

        assert len(race.transport.broker.holds(TO)) == 1

    def test_it_arrives_once_also_if_it_was_in_doubt(self, database: Database, race: Race) -> None:
        stamp(database, race.import_id)
        let_pass(database)

        told = race.run(again=True)

        assert told.count(Sent()) == 1
        assert len(race.transport.broker.holds(TO)) == 1

    def test_one_who_reads_it_again_meanwhile_is_told(self, database: Database, race: Race) -> None:
        stamp(database, race.import_id)

        came_to = race.imports.read_again(race.import_id, "bob")

        assert list(came_to.refused) == [ImportRefusal.ON_ITS_WAY]

"""Failed imports sent, sent again, read and deleted in any order, with deaths: a model of all that."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select, update

from retrier.domain.failed_imports import (
    ON_ITS_WAY,
    Doubtful,
    ImportRefusal,
    NotTaken,
    NotTried,
    Sent,
)
from retrier.domain.wire import Outcome, Refused, Unknown
from retrier.errors import BrokerUnavailable
from retrier.events.event import Event
from retrier.events.service import ImportPublished, ImportStamped
from retrier.imports import FailedImports
from retrier.ingestion.arrival import QueueMapping
from retrier.store.engine.database import Database
from retrier.store.schema import failed_import_sends, failed_imports, metadata
from retrier.store.verification import verify_store
from tests.contract.store_rows import messages, record, rows
from tests.support.bench import Killed
from tests.support.factories import ERROR_QUEUE, failed_import
from tests.support.imports import make_imports
from tests.support.scripted_transport import ScriptedTransport

EXAMPLES = {"sqlite": 40, "postgresql": 8}
"""By dialect: what differs between the two has tests of its own."""
TO = "orders"
BODIES = (b"a", b"b", b"c")

Deed = tuple[str, bytes, Any]

SENDS = st.sampled_from(
    [
        None,
        (Refused("full"), False),
        (Unknown("reset"), True),
        (Unknown("reset"), False),
        ImportStamped.name,
        ImportPublished.name,
        BrokerUnavailable("away"),
    ]
)
"""What happens to a send: nothing, the broker's answer and whether it has it, a death, no broker."""
DEEDS = st.one_of(
    st.tuples(st.sampled_from(["send", "send again"]), st.sampled_from(BODIES), SENDS),
    st.tuples(st.sampled_from(["delete", "read again"]), st.sampled_from(BODIES), st.none()),
    st.tuples(st.just("time passes"), st.just(b""), st.none()),
)


@dataclass(slots=True)
class Model:
    """What must be true, in the plainest words."""

    kept: set[bytes] = field(default_factory=lambda: set(BODIES))
    doubt: set[bytes] = field(default_factory=set)
    on_its_way: set[bytes] = field(default_factory=set)
    """Stamped less than a minute ago: nobody may touch it."""
    allowed: Counter[bytes] = field(default_factory=Counter)
    """How often each may have arrived: a person has said so each time."""
    sent: Counter[bytes] = field(default_factory=Counter)
    """How often each must have arrived: a person was told so."""
    read: set[bytes] = field(default_factory=set)

    def let_pass(self) -> None:
        self.on_its_way.clear()

    def refuses(self, body: bytes, *, again: bool) -> bool:
        gone = body not in self.kept
        return gone or body in self.on_its_way or (body in self.doubt and not again)


@dataclass(slots=True)
class World:
    """A database, a broker, and processes that die."""

    db: Database
    model: Model = field(default_factory=Model)
    transport: ScriptedTransport = field(default_factory=ScriptedTransport)
    dies_at: str = ""
    ids: dict[bytes, str] = field(default_factory=dict)

    def start(self) -> None:
        with self.db.engine.begin() as conn:
            for table in reversed(metadata.sorted_tables):
                conn.execute(table.delete())
        self.transport.broker.declare(TO)
        record(self.db, *(failed_import(body=body) for body in BODIES))
        found = select(failed_imports.c.body, failed_imports.c.import_id)
        with self.db.engine.begin() as conn:
            self.ids = {bytes(row.body): row.import_id for row in conn.execute(found)}

    def emit(self, event: Event) -> None:
        if event.name == self.dies_at:
            raise Killed(event.name)

    @property
    def imports(self) -> FailedImports:
        mapping = QueueMapping(queue=ERROR_QUEUE, destination=TO)
        return make_imports(self.db, self.transport, {ERROR_QUEUE: mapping}, emit=self.emit)

    def do(self, deed: Deed) -> None:
        what, body, how = deed
        match what:
            case "send" | "send again":
                self.send(body, how, again=what == "send again")
            case "delete":
                self.delete(body)
            case "read again":
                self.read_again(body)
            case _:
                self.let_pass()

    def send(self, body: bytes, how: Any, *, again: bool) -> None:
        refused = self.model.refuses(body, again=again)
        self.prepare(how)
        try:
            told: object = self.imports.send(self.ids[body], TO, "ada", again=again)
        except (Killed, BrokerUnavailable) as error:
            told = error
        self.transport.forget_cues()
        self.transport.come_up()
        self.dies_at = ""
        if refused:
            assert isinstance(told, ImportRefusal), told
        else:
            self.follow(body, told)

    def prepare(self, how: Any) -> None:
        match how:
            case str():
                self.dies_at = how
            case BrokerUnavailable():
                self.transport.go_down("away")
            case (outcome, stored):
                self.cue(outcome, stored=stored)

    def cue(self, outcome: Outcome, *, stored: bool) -> None:
        self.transport.cue(outcome, when=lambda each: each.queue == TO, stored=stored)

    def follow(self, body: bytes, told: object) -> None:
        match told:
            case Sent():
                self.model.kept.discard(body)
                self.model.doubt.discard(body)
                self.model.allowed[body] += 1
                self.model.sent[body] += 1
            case Doubtful() | Killed():
                self.model.doubt.add(body)
                self.model.on_its_way.add(body)
                self.model.allowed[body] += 1
            case NotTaken() | NotTried() | BrokerUnavailable():
                pass
            case _:
                raise AssertionError(told)

    def delete(self, body: bytes) -> None:
        refused = self.model.refuses(body, again=True)
        assert (self.imports.delete(self.ids[body], "ada") is not None) == refused
        if not refused:
            self.model.kept.discard(body)
            self.model.doubt.discard(body)
            self.model.read.discard(body)

    def read_again(self, body: bytes) -> None:
        refused = self.model.refuses(body, again=False)
        came_to = self.imports.read_again(self.ids[body], "ada")
        assert (came_to.refused.total() == 1) == refused
        if not refused:
            self.model.kept.discard(body)
            self.model.read.add(body)

    def let_pass(self) -> None:
        with self.db.engine.begin() as conn:
            for row in conn.execute(select(failed_import_sends)).all():
                earlier = row.sending_since - ON_ITS_WAY - timedelta(seconds=1)
                conn.execute(
                    update(failed_import_sends)
                    .where(failed_import_sends.c.import_id == row.import_id)
                    .values(sending_since=earlier)
                )
        self.model.let_pass()

    def check(self) -> None:
        kept = {bytes(row["body"]): row["import_id"] for row in rows(self.db, failed_imports)}
        doubt = {row["import_id"] for row in rows(self.db, failed_import_sends)}
        assert set(kept) == self.model.kept
        assert {body for body, key in kept.items() if key in doubt} == self.model.doubt
        assert {bytes(row["body"]) for row in messages(self.db).values()} == self.model.read
        arrived = Counter(each.body for each in self.transport.broker.holds(TO))
        assert self.model.sent <= arrived <= self.model.allowed
        assert [each.rule for each in verify_store(self.db).rules if each.broken] == []


def test_an_import_arrives_no_more_often_than_people_have_said(database: Database) -> None:
    @settings(max_examples=EXAMPLES[database.engine.dialect.name], deadline=None)
    @given(deeds=st.lists(DEEDS, max_size=12))
    def live(deeds: list[Deed]) -> None:
        world = World(database)
        world.start()
        for deed in deeds:
            world.do(deed)
            world.check()

    live()

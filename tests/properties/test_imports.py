"""Failed imports, whatever they hold: what can be read is shown, and nothing is lost or counted twice."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from hypothesis import given, settings
from hypothesis import strategies as st

from retrier.domain.headers import INSTALLATION_ID, RETRY_SUCCESSFUL, STAGING_ID, UNIQUE_MESSAGE_ID
from retrier.domain.text import jsonable
from retrier.domain.wire import Delivery, PropertyCodec, UnreadableProperties
from retrier.ingestion.arrival import QueueMapping
from retrier.ingestion.parsing import parse
from retrier.store.engine.database import Database
from retrier.store.schema import failed_imports, metadata, processing_attempts
from retrier.store.verification import verify_store
from retrier.transport.embedded.properties import EnvelopePropertyCodec
from retrier.transport.rabbitmq.properties.codec import AmqpPropertyCodec
from tests.contract.store_rows import messages, record, rows
from tests.support.factories import ERROR_QUEUE, FAILED_AT
from tests.support.imports import make_imports
from tests.support.raw_messages import raw_properties, retrier_headers

AMQP, ENVELOPE = AmqpPropertyCodec(), EnvelopePropertyCodec()
WHOLE = raw_properties(
    retrier_headers(n=7, nested={"a": [1, None, {"b": True}]}), message_id="9", type="t", priority=3
)


@st.composite
def bent(draw: st.DrawFn) -> bytes:
    """Make properties that were whole once: cut, with another byte, or with bytes in between."""
    place = draw(st.integers(0, len(WHOLE)))
    some = draw(st.binary(max_size=4))
    return WHOLE[:place] + some + WHOLE[draw(st.integers(place, len(WHOLE))) :]


def check_shown(codec: PropertyCodec, raw: bytes) -> None:
    shown, problem = codec.read_what_can_be(raw)
    # As the API shows it: every value is decoded.
    jsonable(dict(shown.headers)), jsonable(dict(shown.fields))
    try:
        read = codec.read(raw)
    except UnreadableProperties:
        assert problem
    else:
        assert problem is None
        assert (dict(shown.headers), dict(shown.fields)) == (dict(read.headers), dict(read.fields))


@given(raw=st.one_of(bent(), st.binary(max_size=60)))
def test_whatever_the_bytes_are_what_can_be_read_is_shown(raw: bytes) -> None:
    check_shown(AMQP, raw)
    check_shown(ENVELOPE, raw)


@given(place=st.integers(2, len(WHOLE) - 1))
def test_what_lies_in_front_of_a_cut_is_shown(place: int) -> None:
    """Headers are never made up: what is shown of a part is what the whole says."""
    whole = AMQP.read(WHOLE)

    shown, problem = AMQP.read_what_can_be(WHOLE[:place])

    assert problem
    assert dict(shown.headers).items() <= dict(whole.headers).items()
    assert dict(shown.fields).items() <= dict(whole.fields).items()


@dataclass(frozen=True, slots=True)
class Arrived:
    """A delivery, and whether the settings of that time named a destination."""

    delivery: Delivery
    understood: bool


IDS = st.sampled_from([None, "1", "2"])
STAMP = str(uuid4())
HEADERS = st.sampled_from(
    [
        {},
        {"n": 1},
        retrier_headers(),
        {UNIQUE_MESSAGE_ID: STAMP},
        {UNIQUE_MESSAGE_ID: STAMP, RETRY_SUCCESSFUL: "now"},
        {INSTALLATION_ID: STAMP, STAGING_ID: STAMP},
    ]
)


@st.composite
def arrivals(draw: st.DrawFn) -> Arrived:
    message_id = draw(IDS)
    fields = {} if message_id is None else {"message_id": message_id}
    delivery = Delivery(
        tag=None,
        queue=ERROR_QUEUE,
        raw=draw(st.one_of(st.just(b"\xff"), st.builds(raw_properties, HEADERS, **_just(fields)))),
        body=draw(st.sampled_from([b"", b"x"])),
        redelivered=draw(st.booleans()),
    )
    return Arrived(delivery, draw(st.booleans()))


def _just(fields: dict[str, str]) -> dict[str, st.SearchStrategy[str]]:
    return {name: st.just(value) for name, value in fields.items()}


READ_ONE, READ_ALL = "read one again", "read all again"
STEPS = st.lists(st.one_of(arrivals(), st.sampled_from([READ_ONE, READ_ALL])), max_size=12)


def start_anew(db: Database) -> None:
    with db.engine.begin() as conn:
        for table in reversed(metadata.sorted_tables):
            conn.execute(table.delete())


def mapping_of(*, understood: bool) -> QueueMapping:
    return QueueMapping(queue=ERROR_QUEUE, destination="orders" if understood else None)


EXAMPLES = {"sqlite": 40, "postgresql": 8}
"""By dialect: what differs between the two has tests of its own."""


def test_whatever_imports_turn_out_to_be_the_ledger_adds_up(database: Database) -> None:
    @settings(max_examples=EXAMPLES[database.engine.dialect.name], deadline=None)
    @given(steps=STEPS)
    def live(steps: Sequence[Arrived | str]) -> None:
        take(database, steps)

    live()


def take(database: Database, steps: Sequence[Arrived | str]) -> None:
    start_anew(database)
    imports = make_imports(
        database, mappings={ERROR_QUEUE: mapping_of(understood=True)}, instance="another"
    )

    for step in steps:
        match step:
            case Arrived(delivery=delivery, understood=understood):
                mapping = mapping_of(understood=understood)
                record(database, parse(delivery, AMQP, mapping, FAILED_AT))
            case _:
                kept = [row["import_id"] for row in rows(database, failed_imports)]
                if step is READ_ALL or not kept:
                    imports.read_all_again(None, "ada")
                else:
                    imports.read_again(kept[0], "ada")
        assert [each.rule for each in verify_store(database).rules if each.broken] == []

    assert_nothing_is_lost(database, steps)


def assert_nothing_is_lost(db: Database, steps: Sequence[Arrived | str]) -> None:
    """Whatever came for the first time, without an id, is there as often as it came."""
    nameless = [
        each.delivery
        for each in steps
        if isinstance(each, Arrived) and not each.delivery.redelivered and is_nameless(each)
    ]
    came = Counter((each.raw, each.body) for each in nameless)
    stored = [*rows(db, failed_imports), *rows(db, processing_attempts)]
    bodies = {row["attempt_id"]: row["body"] for row in rows(db, processing_attempts)}
    there = Counter(
        (
            bytes(row["raw_properties"]),
            bytes(row["body"] or bodies.get(row.get("same_body_as")) or b""),
        )
        for row in stored
    )
    assert {key: number for key, number in came.items() if there[key] < number} == {}
    assert len(messages(db)) <= len(steps)


def is_nameless(arrived: Arrived) -> bool:
    """Say whether nothing tells it from another one with equal bytes."""
    try:
        read = AMQP.read(arrived.delivery.raw)
    except UnreadableProperties:
        return True
    special = {UNIQUE_MESSAGE_ID, INSTALLATION_ID}
    return "message_id" not in read.fields and special.isdisjoint(read.headers)

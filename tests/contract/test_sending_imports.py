"""Failed imports over real brokers: they arrive as they came, on that queue alone, or not at all."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest

from retrier.clock import Clock, SystemClock
from retrier.domain.failed_imports import Doubtful, NotTaken, Sent
from retrier.domain.wire import Edit, Outgoing
from retrier.errors import BrokerUnavailable
from retrier.events.event import Event
from retrier.events.service import ImportStamped
from retrier.imports import FailedImports
from retrier.store.engine.database import Database
from retrier.store.schema import failed_imports
from retrier.transport.embedded import EmbeddedTransport
from retrier.transport.rabbitmq import RabbitMQTransport
from retrier.transport.seam import Publisher, Transport
from retrier.transport.sender import BrokerSender
from tests.contract.store_rows import record, rows
from tests.support.amqp_bytes import BLOCKED
from tests.support.factories import failed_import
from tests.support.far_side import FarSide
from tests.support.imports import make_imports
from tests.support.raw_messages import raw_properties
from tests.support.receiving import receive
from tests.support.tcp_proxy import TcpProxy


def nested(levels: int) -> dict[str, object]:
    """Return a header table that is deeper than anybody reads, and that RabbitMQ takes."""
    table: dict[str, object] = {}
    for _ in range(levels):
        table = {"down": table}
    return table


POISON = raw_properties({"Shop.Tenant": "north", **nested(100)}, message_id="9")

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


class FastClock(SystemClock):
    """A clock for what gets no answer: the wait for a broker ends that many times sooner.

    It has less patience with this machine, too, so what is to be sent goes by the real clock.
    """

    def __init__(self, times: int) -> None:
        self._times = times

    def monotonic(self) -> float:
        return monotonic() * self._times


REAL = SystemClock()


def imports_over(db: Database, transport: Transport, clock: Clock = REAL) -> FailedImports:
    return replace(make_imports(db, transport), sender=BrokerSender(transport, clock))


def keep(db: Database, raw: bytes, body: bytes = b"body") -> str:
    record(db, failed_import(raw, body))
    (kept,) = rows(db, failed_imports)
    return str(kept["import_id"])


def taken(transport: Transport, queue: str) -> tuple[bytes, bytes]:
    """Take one message off a queue."""
    consumer = transport.consumer(queue, 1)
    (delivery,) = receive(consumer, 1)
    consumer.ack([delivery])
    consumer.close()
    return delivery.raw, delivery.body


@pytest.fixture(
    params=[
        pytest.param("classic", marks=pytest.mark.rabbitmq),
        pytest.param("quorum", marks=pytest.mark.rabbitmq),
        "embedded",
    ]
)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def transport(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Transport:
    if kind == "embedded":
        return EmbeddedTransport(f"embedded:///{tmp_path}/broker.db")
    return RabbitMQTransport(request.getfixturevalue("amqp_url"), connection_name="imports")


@pytest.fixture
def queue(kind: str, transport: Transport, request: pytest.FixtureRequest) -> Iterator[str]:
    if kind == "embedded":
        transport.queues().declare_error_queue("orders")
        yield "orders"
        return
    name: Callable[..., str] = request.getfixturevalue("queue_name")
    far_side: FarSide = request.getfixturevalue("far_side")
    yield far_side.declare(name("orders"), x_queue_type=kind)


LARGE = os.urandom(1 << 20) * 15
"""RabbitMQ 4 takes 16 MiB at most, unless it is configured otherwise."""


@pytest.mark.parametrize("body", [b"", b"\x00\xff", LARGE], ids=len)
def test_an_import_arrives_byte_for_byte(
    database: Database, transport: Transport, queue: str, body: bytes
) -> None:
    raw = transport.codec.edit(transport.codec.empty, Edit(set_fields={"delivery_mode": 2}))
    import_id = keep(database, raw, body)

    told = imports_over(database, transport).send(import_id, queue, "ada", again=False)

    assert told == Sent()
    assert taken(transport, queue) == (raw, body)
    assert rows(database, failed_imports) == []


def test_a_queue_that_does_not_exist_is_told_and_nothing_is_in_doubt(
    database: Database, transport: Transport, queue: str
) -> None:
    import_id = keep(database, transport.codec.empty)
    imports = imports_over(database, transport)

    told = imports.send(import_id, f"{queue}.nowhere", "ada", again=False)

    assert isinstance(told, NotTaken)
    assert f"the queue {queue}.nowhere does not exist" in told.reason
    assert imports.send(import_id, queue, "ada", again=False) == Sent()


@pytest.mark.rabbitmq
class TestOnRabbitMQ:
    @pytest.fixture
    def rabbitmq(self, amqp_url: str) -> RabbitMQTransport:
        return RabbitMQTransport(amqp_url, connection_name="imports")

    def test_what_nobody_could_read_arrives_byte_for_byte(
        self, database: Database, rabbitmq: RabbitMQTransport, classic_queue: str
    ) -> None:
        import_id = keep(database, POISON)

        told = imports_over(database, rabbitmq).send(import_id, classic_queue, "ada", again=False)

        assert told == Sent()
        assert taken(rabbitmq, classic_queue) == (POISON, b"body")

    def test_a_message_of_another_user_is_taken(
        self, database: Database, rabbitmq: RabbitMQTransport, classic_queue: str
    ) -> None:
        import_id = keep(database, raw_properties({"a": "b"}, user_id="somebody"))

        told = imports_over(database, rabbitmq).send(import_id, classic_queue, "ada", again=False)

        assert told == Sent()

    def test_no_copy_goes_to_the_queues_in_cc(
        self,
        database: Database,
        rabbitmq: RabbitMQTransport,
        far_side: FarSide,
        queue_name: Callable[..., str],
        classic_queue: str,
    ) -> None:
        other = far_side.declare(queue_name("other"))
        import_id = keep(database, raw_properties({"CC": [other], "BCC": [other]}))

        imports_over(database, rabbitmq).send(import_id, classic_queue, "ada", again=False)

        assert (far_side.count(classic_queue), far_side.count(other)) == (1, 0)

    def test_a_queue_that_is_full_refuses_it_and_nothing_is_in_doubt(
        self,
        database: Database,
        rabbitmq: RabbitMQTransport,
        far_side: FarSide,
        queue_name: Callable[..., str],
    ) -> None:
        full = far_side.declare(queue_name("full"), x_max_length=1, x_overflow="reject-publish")
        far_side.publish(full)
        import_id = keep(database, b"\0\0")

        told = imports_over(database, rabbitmq).send(import_id, full, "ada", again=False)

        assert isinstance(told, NotTaken)
        assert "negative acknowledgement" in told.reason

    def test_a_broker_that_blocks_publishers_leaves_nothing_in_doubt(
        self,
        database: Database,
        rabbitmq: RabbitMQTransport,
        proxy: TcpProxy,
        classic_queue: str,
    ) -> None:
        """As under an alarm: it says so, and reads nothing more."""
        import_id = keep(database, b"\0\0")
        transport = Troubled(proxy, then=lambda: (proxy.say(BLOCKED), proxy.freeze()))
        blocked = imports_over(database, transport, FastClock(20))

        with pytest.raises(BrokerUnavailable, match="blocks publishers"):
            blocked.send(import_id, classic_queue, "ada", again=False)

        again = imports_over(database, rabbitmq)
        assert again.send(import_id, classic_queue, "ada", again=False) == Sent()

    def test_a_broker_that_never_answers_leaves_it_in_doubt(
        self, database: Database, proxy: TcpProxy, classic_queue: str
    ) -> None:
        import_id = keep(database, b"\0\0")
        transport = RabbitMQTransport(proxy.url, connection_name="frozen")

        def freeze_behind_the_stamp(event: Event) -> None:
            if isinstance(event, ImportStamped):
                proxy.freeze()

        # Not faster than this: up to the freezing all is to go well.
        imports = imports_over(database, transport, FastClock(4))
        imports = replace(imports, emit=freeze_behind_the_stamp)

        told = imports.send(import_id, classic_queue, "ada", again=False)

        assert isinstance(told, Doubtful)
        assert len(rows(database, failed_imports)) == 1


class Troubled(RabbitMQTransport):
    """A transport to a broker that gets into trouble as soon as a publisher is connected."""

    def __init__(self, proxy: TcpProxy, then: Callable[[], object]) -> None:
        super().__init__(proxy.url, connection_name="troubled")
        self._then = then

    def publisher(self, probe: Outgoing | None = None) -> Publisher:  # type: ignore[override]
        made = super().publisher(probe)
        self._then()
        return made

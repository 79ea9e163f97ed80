"""What lies ready on the queues, as far as anybody could look."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from retrier.app.parts import Parts
from retrier.app.readiness import ReadinessBoard
from retrier.app.schedule import Ticks
from retrier.app.server import Listening
from retrier.errors import BrokerUnavailable
from retrier.events.event import Event
from retrier.events.service import BrokerWarned
from retrier.settings import Database, ErrorQueue, Ingestion, Settings
from tests.support.databases import sqlite_url
from tests.support.parts import make_parts
from tests.support.scripted_transport import ScriptedTransport

QUEUE = "error"


@pytest.fixture
def transport() -> ScriptedTransport:
    transport = ScriptedTransport()
    transport.broker.put(QUEUE, b"", b"x")
    return transport


@pytest.fixture
def parts(tmp_path: Path, transport: ScriptedTransport) -> Iterator[Parts]:
    settings = Settings(
        database=Database(url=sqlite_url(tmp_path)),
        ingestion=Ingestion(error_queues=(ErrorQueue(queue=QUEUE),)),
    )
    parts = replace(make_parts(settings), transport=transport)
    yield parts
    parts.db.dispose()


def test_what_the_server_may_lose_is_part_of_its_health(
    parts: Parts, transport: ScriptedTransport
) -> None:
    board = ReadinessBoard()
    transport.risks = ("AOF is off", "it has evicted keys")

    Ticks(parts, board, Listening(parts)).look_at_queues()

    is_ready, reason = board.read()["broker"]
    assert is_ready
    assert reason.endswith("; warning: AOF is off; warning: it has evicted keys")


def test_a_warning_is_logged_once_until_it_is_over(
    parts: Parts, transport: ScriptedTransport
) -> None:
    told: list[Event] = []
    ticks = Ticks(replace(parts, emit=told.append), ReadinessBoard(), Listening(parts))

    for risks in (("full",), ("full", "AOF is off"), (), ("full",)):
        transport.risks = risks
        ticks.look_at_queues()

    assert [each.warning for each in told if isinstance(each, BrokerWarned)] == [
        "full",
        "AOF is off",
        "full",
    ]


def test_what_nobody_could_look_at_again_is_no_backlog(
    parts: Parts, transport: ScriptedTransport
) -> None:
    ticks = Ticks(parts, ReadinessBoard(), Listening(parts))
    ticks.look_at_queues()
    assert ticks.backlogs.find(QUEUE) is not None

    transport.fail("queues.depth", BrokerUnavailable("connection reset"))
    with pytest.raises(BrokerUnavailable):
        ticks.look_at_queues()

    assert ticks.backlogs.find(QUEUE) is None

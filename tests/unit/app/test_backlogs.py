"""What lies ready on the queues, as far as anybody could look."""

from dataclasses import replace
from pathlib import Path

import pytest

from retrier.app.readiness import ReadinessBoard
from retrier.app.schedule import Ticks
from retrier.app.server import Listening
from retrier.errors import BrokerUnavailable
from retrier.settings import Database, ErrorQueue, Ingestion, Settings
from tests.support.databases import sqlite_url
from tests.support.parts import make_parts
from tests.support.scripted_transport import ScriptedTransport

QUEUE = "error"


def test_what_nobody_could_look_at_again_is_no_backlog(tmp_path: Path) -> None:
    transport = ScriptedTransport()
    transport.broker.put(QUEUE, b"", b"x")
    settings = Settings(
        database=Database(url=sqlite_url(tmp_path)),
        ingestion=Ingestion(error_queues=(ErrorQueue(queue=QUEUE),)),
    )
    parts = replace(make_parts(settings), transport=transport)
    ticks = Ticks(parts, ReadinessBoard(), Listening(parts))
    ticks.look_at_queues()
    assert ticks.backlogs.find(QUEUE) is not None

    transport.fail("queues.depth", BrokerUnavailable("connection reset"))
    with pytest.raises(BrokerUnavailable):
        ticks.look_at_queues()

    assert ticks.backlogs.find(QUEUE) is None
    parts.db.dispose()

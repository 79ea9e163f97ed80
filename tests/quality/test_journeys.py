"""How many modules a reader meets who follows a batch, a failure or a request through the code.

A profile of a real run, on SQLite and over a scripted broker. What lies behind a seam is no part of it:
transports, the engine under the store, and the subscribers of events. Each list may only
become shorter.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType

import pytest

import retrier
from retrier.ingestion.ingestor import Ingestor
from retrier.ingestion.parsing import QueueMapping
from retrier.store.engine.database import Database
from retrier.store.recording import record_received
from retrier.store.upkeep import probe_write
from tests.support.api import Api
from tests.support.bench import Bench
from tests.support.databases import open_upgraded, sqlite_url
from tests.support.frozen_clock import FrozenClock
from tests.support.raw_messages import raw_properties, retrier_headers
from tests.support.scripted_transport import ScriptedTransport

PACKAGE = Path(retrier.__file__).parent
BEHIND = ("transport/", "store/engine/", "store/schema/", "app/")
MOST = {"batch": 37, "ingestion": 33, "request": 23}
"""The most modules of each journey. It is to be 25, 20 and 10."""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Give a database; what is counted here is the same on each."""
    db = open_upgraded(sqlite_url(tmp_path))
    yield db
    db.dispose()


def modules_of(work: Callable[[], object]) -> list[str]:
    """Return the modules of Retrier whose functions run while this is done."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    threading.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    ours = [Path(name) for name in files if Path(name).is_relative_to(PACKAGE)]
    modules = [str(path.relative_to(PACKAGE)) for path in ours]
    return sorted(module for module in modules if not module.startswith(BEHIND))


def hold(journey: str, modules: list[str]) -> None:
    """Print a journey, and see that it has not become longer."""
    sys.stdout.write(f"\n{journey}: {len(modules)} modules\n")
    sys.stdout.writelines(f"  {module}\n" for module in modules)

    assert len(modules) <= MOST[journey]


def test_a_batch_through_all_stages(database: Database) -> None:
    bench = Bench(database, window=2)
    for _ in range(2):  # what the first batch of a process loads belongs to no batch
        bench.work()
        bench.fail(5)
        bench.ask_all()

    hold("batch", modules_of(bench.work))


def test_a_failure_that_comes_in(database: Database) -> None:
    transport = ScriptedTransport()
    transport.broker.declare("error")
    ingestor = Ingestor(
        mapping=QueueMapping(queue="error"),
        transport=transport,
        record=partial(record_received, database, instance="a test"),
        probe=partial(probe_write, database),
        clock=FrozenClock(),
        emit=lambda _event: None,
    )
    ingestor.ingest_once()
    transport.broker.put("error", raw_properties(retrier_headers()), b"one")

    hold("ingestion", modules_of(ingestor.ingest_once))


def test_a_request_for_a_retry_of_everything(database: Database) -> None:
    api = Api(database)
    api.http.portal = None  # of threads that run already nothing would be noted
    Bench(database).fail(2)

    def ask() -> None:
        assert api.http.post("/api/errors/retry/all").status_code == 202

    hold("request", modules_of(ask))

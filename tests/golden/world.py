"""Everything as the service builds it, over a broker in memory and a clock that stands still.

world = World(url, folder)              # a database of the newest revision, and an empty folder
world.put(raw, body)                    # a message on the error queue
world.work()                            # all that the threads of a service do, until nothing is left
world.http.get("/api/errors")           # the API and the page
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import httpx
from typer.testing import Result

from retrier.api.live import LiveFeed
from retrier.app.log import LineWriter
from retrier.app.parts import (
    Parts,
    make_archiving,
    make_feed,
    make_ingestor,
    make_lease,
    make_metrics,
    make_processor,
    make_sender,
)
from retrier.app.policies import make_policy_source
from retrier.app.server import make_faces, make_page_state
from retrier.app.service import make_stream
from retrier.cli.command import Tools
from retrier.domain.wire import Delivery, Edit
from retrier.processor.broker import Progress
from retrier.settings import load_settings
from retrier.store.engine.database import DatabaseOptions
from retrier.store.upkeep import get_installation_id
from retrier.web.parts import QueueState
from tests.golden.frozen import FrozenDatabase, FrozenTime, Sent, freeze_postgres
from tests.support.commands import invoke
from tests.support.http_client import TestClient, client_of
from tests.support.scripted_transport import ScriptedTransport

SESSION = "5e551011-0000-4000-8000-000000000001"
ERROR, LOG, NOTICES = "error", "log", "notices"
QUEUES = ("orders", "payments", "invoices", "monthly", "fixed", LOG, NOTICES)
WRITTEN = 1_777_885_200
"""When the file of the settings was written."""
FEED_ENDS = 10.0
"""Seconds within which the thread ends that follows the event log."""

SETTINGS = """
instance: golden
broker: {url: "embedded:///%(folder)s/broker.db"}
database: {url: "%(url)s"}
ingestion: {error_queues: [error], forward_to: log}
breakers: {min: 4, window: 10m}
policies:
  notices: notices
  classify:
    - {exception: "Shop.GatewayError", message: "5\\\\d\\\\d", reason: GW_5XX}
  rules:
    - {name: invoices, match: {queue: invoices}, attempts: 3, backoff: {kind: fixed, first: 90s}}
    - {name: monthly, match: {queue: monthly}, attempts: 3, backoff: {kind: fixed, first: 6h}}
    - {name: poison, match: {reason: poison_message}, attempts: 0}
    - {name: never, match: {reason: validation_failure}, attempts: 0, then: dead}
    - {name: streams, match: {message_type: Shop.Step}, attempts: 0, then: manual, stream: strict}
"""

ENVIRONMENT = {
    "RETRIER_URL": None,
    "RETRIER_TOKEN": None,
    "USER": "ada",
    "NO_COLOR": None,
    "FORCE_COLOR": None,
    "COLUMNS": "120",
}
"""What a command finds in its environment; None: it does not find it."""


class World:
    """One process of the service, whose threads take their turns when they are told to."""

    def __init__(self, url: str, folder: Path, elapsed: float = 0.0) -> None:
        self.url = url
        self._others: list[FrozenDatabase] = []
        self.clock = FrozenTime(elapsed)
        self.sent: Sent = []
        self.log = StringIO()
        self.config = folder / "retrier.yaml"
        self.config.write_text(SETTINGS % {"folder": folder, "url": url})
        os.utime(self.config, (WRITTEN, WRITTEN))
        self.settings = load_settings(self.config, {})
        self._end_time = _nothing
        if url.startswith("postgres"):
            self._end_time = freeze_postgres(url, self.clock)
        self.db = FrozenDatabase(DatabaseOptions(url=url), clock=self.clock, sent=self.sent)
        self.transport = ScriptedTransport()
        self.transport.on_idle = lambda _seconds: None
        for queue in (ERROR, *QUEUES):
            self.transport.broker.declare(queue)
        self.metrics = make_metrics(self.settings, self.db, self.clock)
        writer = LineWriter(self.log, "json")
        emit = make_stream({}, writer, self.clock, self.metrics, self.transport.codec).emit
        self.parts = Parts(
            settings=self.settings,
            db=self.db,
            transport=self.transport,
            emit=emit,
            metrics=self.metrics,
            clock=self.clock,
            policies=make_policy_source(self.settings, self.config, {}, self.clock, emit),
            session_id=SESSION,
        )
        self.start()

    def start(self) -> None:
        """Build what works."""
        parts = self.parts
        self.lease = make_lease(parts)
        progress = Progress(self.clock)
        self.processor = make_processor(parts, self.lease, get_installation_id(self.db), progress)
        self.archiving = make_archiving(parts, self.lease)
        self.sender = make_sender(parts, self.lease)
        self.ingestor = make_ingestor(parts, parts.settings.ingestion.error_queues[0])
        self.metrics.process.watch_lease(self.lease)
        self.metrics.process.watch_ingestion([self.ingestor])
        self.metrics.watch_readiness(self.health)
        self.page = make_page_state(parts, self._queues)
        # Its thread asks again and again, in its own time: what it sends is not kept.
        unheard = FrozenDatabase(DatabaseOptions(url=self.url), clock=self.clock, sent=[])
        self._others.append(unheard)
        self.feed: LiveFeed = make_feed(replace(parts, db=unheard))
        self.faces = make_faces(parts, self.health, self.feed, self.page)
        self.http = client_of(self.faces)
        self.page.counts.tick()
        self.lease.acquire()

    def close(self) -> None:
        """Give everything back."""
        self.http.close()
        self.feed.stop()
        self.feed.wait(FEED_ENDS)
        for each in (self.db, *self._others):
            each.dispose()
        self._end_time()

    def put(self, raw: bytes, body: bytes, *, redelivered: bool = False) -> None:
        """Put a message on the error queue."""
        self.transport.broker.put(ERROR, raw, body, redelivered=redelivered)

    def work(self) -> None:
        """Let the threads take turns until none has anything to do."""
        while any([self.ingest(), self.process(), self.send(), self.archive()]):
            pass

    def ingest(self) -> bool:
        """Ingest what lies on the error queue; say whether there was something."""
        return self.ingestor.ingest_once() > 0

    def process(self) -> bool:
        """Let the processor do what it can do now; say whether there was something."""
        self.lease.renew_if_due()
        return self.processor.run_once()

    def send(self) -> bool:
        """Send copies and notices."""
        return self.sender.send_once()

    def archive(self) -> bool:
        """Work off what was asked of many messages."""
        return self.archiving.work_once()

    def taken(self, queue: str) -> Sequence[Delivery]:
        """Be the consumer of a queue: take what lies there."""
        lying = self.transport.broker.ready(queue)
        self.transport.broker.queues[queue].ready.clear()
        return lying

    def fail_again(self, delivery: Delivery, headers: Mapping[str, str]) -> None:
        """Be a consumer that fails with a retry."""
        raw = self.transport.codec.edit(delivery.raw, Edit(set_headers=dict(headers)))
        self.put(raw, delivery.body)

    def run(self, *arguments: str, agrees: bool | None = None) -> Result:
        """Run a command of the command line, with this process as its service."""
        before = {name: os.environ.get(name) for name in (*ENVIRONMENT, "XDG_CONFIG_HOME")}
        _set({**ENVIRONMENT, "XDG_CONFIG_HOME": str(self.config.parent)})
        try:
            tools = Tools(
                connect=self._connect,
                pause=self._pause,
                confirm=lambda _question: agrees,
                clock=self.clock,
            )
            return invoke(arguments, obj=tools)
        finally:
            _set(before)

    def health(self) -> Mapping[str, tuple[bool, str]]:
        """Say how the parts are."""
        return {"database": (True, "reached"), "broker": (True, "reached; error: 0 ready")}

    def _pause(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.work()

    def _connect(self, base_url: str, headers: Mapping[bytes, bytes]) -> httpx.Client:
        client = TestClient(self.faces, base_url=base_url)
        client.headers.update(dict(headers))
        return client

    def _queues(self) -> Sequence[QueueState]:
        staging = self.settings.staging_queue
        return [
            QueueState(name=ERROR, is_staging=False, is_known=True, depth=0, is_consumed=True),
            QueueState(name=staging, is_staging=True, is_known=True, depth=0, is_consumed=True),
        ]


def _nothing() -> None:
    """End nothing: the clock of SQLite is a function of its connections."""


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value

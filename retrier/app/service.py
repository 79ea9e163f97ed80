"""The service: builds all parts, starts them, waits for a signal, stops them within seconds."""

import gc
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

from retrier import __version__
from retrier.app.api_server import make_server
from retrier.app.cached_query import CachedQuery, CacheTimes
from retrier.app.composition import (
    make_archiving,
    make_feed,
    make_ingestor,
    make_lease,
    make_processor,
    make_sender,
)
from retrier.app.log.writer import LineWriter, adopt_standard_logging
from retrier.app.page import make_page_state
from retrier.app.parts import Parts, make_metrics, make_transport, open_database
from retrier.app.policies import make_policy_source
from retrier.app.process import StopSignals, make_clock, start_part
from retrier.app.process_report import ProcessReport
from retrier.app.read_report import ReadReport
from retrier.app.readiness import (
    ReadinessBoard,
    describe_database,
    describe_ingestion,
    describe_processor,
    look_at_queues,
)
from retrier.app.schedule import Ticks
from retrier.app.server import Listening
from retrier.app.startup import Startup
from retrier.app.subscribers import make_stream
from retrier.errors import DatabaseUnavailable
from retrier.events.service import (
    ApiListening,
    DefaultDatabaseUsed,
    HealthListening,
    KnobUsed,
    PlacesKnown,
    ServiceStarted,
    ServiceStarting,
    ServiceStopped,
    ServiceStopping,
)
from retrier.ingestion.ingestor import Ingestor
from retrier.processor.lease import Lease
from retrier.processor.progress import Progress
from retrier.settings import Role, Settings, find_used_knobs, is_database_named
from retrier.store.upkeep import probe_read
from retrier.web.parts import Addition, QueueState

_PROBE = CacheTimes(wait=timedelta(seconds=2), keep=timedelta(seconds=0), hang=timedelta(seconds=0))
"""A database that does not answer within 2 s is not ready; each request asks it again."""

_STOP_DEADLINE = 7.0
"""Seconds for the parts and the last requests to end, together: the process ends within 10 s."""

_OUTGOING_DEADLINE = 3.0
"""Of these, the seconds for the sender of copies: what is not sent waits in the database."""


def serve(
    settings: Settings,
    roles: frozenset[Role],
    config: Path | None = None,
    additions: Sequence[Addition] = (),
) -> int:
    """Run the service until SIGTERM or SIGINT; return the exit code.

    `config` is the file of the settings: its policies are read again when it changes. `additions`
    are shown beside the page. A second signal ends the process at once: unfinished work is derived
    again from the database.
    Raises ConfigurationError if the API cannot listen.
    """
    log, level = settings.log, logging.getLevelNamesMapping()[settings.log.level.upper()]
    adopt_standard_logging(sys.stderr, logging.getLogger(), log.format, level)
    writer = LineWriter(sys.stderr, log.format, level)
    db, transport = open_database(settings), make_transport(settings)
    clock = make_clock(os.environ)
    metrics = make_metrics(settings, db, clock)
    stream = make_stream(os.environ, writer, clock, metrics, transport.codec)
    parts = Parts(
        settings=settings,
        db=db,
        transport=transport,
        emit=stream.emit,
        metrics=metrics,
        clock=clock,
        policies=make_policy_source(settings, config, os.environ, clock, stream.emit),
    )
    service = Service(parts, roles, additions)
    StopSignals(service.begin_stop).listen()
    for variable, setting in find_used_knobs(config, os.environ).items():
        stream.emit(KnobUsed(variable=variable, setting=setting))
    if not is_database_named(settings):
        stream.emit(DefaultDatabaseUsed(place=db.place))
    code = service.run()
    if service.hangs():
        # At exit Python would wait for ever for a thread that waits for a frozen server.
        sys.stderr.flush()
        os._exit(code)
    return code


class Service:
    """One process with its roles."""

    def __init__(
        self, parts: Parts, roles: frozenset[Role], additions: Sequence[Addition] = ()
    ) -> None:
        self._parts = parts
        self._roles = roles
        self._board = ReadinessBoard()
        for part in ("database", "broker", *sorted(roles - {Role.API})):
            self._board.put(part, ready=False, reason="starting")
        parts.metrics.watch_readiness(self._board.read)
        parts.metrics.process.watch_policies(lambda: not parts.policies.in_force.problems)
        self._ingestors: list[Ingestor] = []
        self._reads: ReadReport | None = None
        self._process = ProcessReport(parts, roles)
        self._page = make_page_state(parts, self._look_at_queues, additions)
        counts = self._page.counts if Role.API in roles else None
        self._listening = Listening(parts)
        self._ticks = Ticks(parts, self._board, self._listening, counts)
        self._feed = make_feed(parts)
        self._server = make_server(parts, roles, self._board.read, self._feed, self._page)
        self._threads: list[threading.Thread] = []
        self._sender: threading.Thread | None = None
        self._probe = CachedQuery(partial(probe_read, parts.db.apart(1)), parts.clock, _PROBE)

    def begin_stop(self, reason: str) -> None:
        """Ask every part to end."""
        self._parts.emit(ServiceStopping(reason=reason))
        self._parts.stop.set()
        self._parts.wake.set()
        self._parts.wake_archiving.set()

    def run(self) -> int:
        """Start everything, wait for the stop, stop everything."""
        roles = ", ".join(sorted(self._roles))
        instance = self._parts.settings.instance
        self._parts.emit(ServiceStarting(version=__version__, instance=instance, roles=roles))
        self._say_where()
        if self._server is not None:
            self._server.start()
            host, port = self._server.address
            if Role.API in self._roles:
                self._parts.emit(ApiListening(host=host, port=port))
            else:
                self._parts.emit(HealthListening(host=host, port=port))
        startup = Startup(parts=self._parts, board=self._board)
        if startup.prepare():
            self._start_parts(startup)
            # Frozen: what is loaded now stays for ever. Each full collection took 70 ms to search
            # it for garbage, again and again while messages come and go.
            gc.collect()
            gc.freeze()
            self._parts.emit(ServiceStarted())
        self._parts.stop.wait()
        self._stop_parts()
        self._parts.emit(ServiceStopped())
        return 0

    def hangs(self) -> bool:
        """Say whether a thread still runs after the stop: it waits for a server."""
        main = threading.main_thread()
        return any(each is not main and each.is_alive() for each in threading.enumerate())

    def _say_where(self) -> None:
        """Report where the data is, as whole paths: the defaults are relative."""
        broker, db = self._parts.transport.place, self._parts.db
        self._parts.emit(PlacesKnown(broker=broker, database=db.place))

    def _start_parts(self, startup: Startup) -> None:
        self._board.watch("database", self._look_at_database)
        lease = make_lease(self._parts) if Role.PROCESSOR in self._roles else None
        self._ticks.start(lease, judges=bool(self._roles - {Role.API}))
        self._board.watch("processes", self._process.describe)
        self._ticks.report_process(self._process)
        if lease is not None:
            self._start_processor(lease, startup.installation_id)
            if startup.has_outgoing:
                sender = make_sender(self._parts, lease)
                self._board.watch("outgoing", sender.describe)
                self._sender = start_part("outgoing", sender.run, self._board, self._parts.emit)
        if Role.INGESTION in self._roles:
            self._start_ingestion()

    def _start_processor(self, lease: Lease, installation_id: str) -> None:
        progress = Progress(self._parts.clock)
        processor = make_processor(self._parts, lease, installation_id, progress)
        self._parts.metrics.process.watch_lease(lease)
        self._board.watch(Role.PROCESSOR, lambda: describe_processor(processor, lease, progress))
        self._start_thread("processor", processor.run)
        self._start_thread("archiving", make_archiving(self._parts, lease).run)
        if not self._parts.db.is_sqlite:
            self._start_thread("requests", self._listening.run)

    def _start_ingestion(self) -> None:
        queues = self._parts.settings.ingestion.error_queues
        ingestors = self._ingestors = [make_ingestor(self._parts, queue) for queue in queues]
        self._board.watch(
            Role.INGESTION, lambda: describe_ingestion(ingestors, self._ticks.backlogs)
        )
        self._parts.metrics.process.watch_ingestion(ingestors)
        parts = self._parts
        self._reads = ReadReport(
            parts.db, parts.transport, parts.clock, ingestors, parts.session_id
        )
        self._ticks.report_reads(self._reads)
        for ingestor in ingestors:
            self._start_thread(
                f"ingestion {ingestor.mapping.queue}", partial(ingestor.run, self._parts.stop)
            )

    def _look_at_queues(self) -> Sequence[QueueState]:
        staging = self._parts.settings.staging_queue
        backlogs = self._ticks.backlogs
        return look_at_queues(self._parts.error_queues, staging, self._ingestors, backlogs)

    def _start_thread(self, name: str, work: Callable[[], None]) -> None:
        self._threads.append(start_part(name, work, self._board, self._parts.emit))

    def _stop_parts(self) -> None:
        began = self._parts.clock.monotonic()
        end = began + _STOP_DEADLINE
        self._ticks.stop()
        # An answer that never ends by itself would hold up the end of the server.
        self._feed.stop()
        self._page.live.stop()
        if self._server is not None:
            self._server.begin_to_stop()
        for thread in self._threads:
            thread.join(max(0.0, end - self._parts.clock.monotonic()))
        if not any(each.is_alive() for each in self._threads):
            if self._reads is not None:
                self._reads.stop()
            self._process.stop()
        if self._sender is not None:
            left = began + _OUTGOING_DEADLINE - self._parts.clock.monotonic()
            self._sender.join(max(0.0, left))
        if self._server is not None:
            self._server.stop(max(0.0, end - self._parts.clock.monotonic()))
        self._feed.wait(max(0.0, end - self._parts.clock.monotonic()))
        self._parts.db.dispose()

    def _look_at_database(self) -> tuple[bool, str]:
        try:
            self._probe.read()
        except DatabaseUnavailable as error:
            return False, str(error)
        return True, describe_database(self._ticks.imports, recovering=self._ticks.recovering)

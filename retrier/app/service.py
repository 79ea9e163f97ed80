"""The service: waits for its servers, builds all parts, starts them, and stops them within seconds."""

import gc
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path

from retrier import __version__
from retrier.app.cached_query import CachedQuery, CacheTimes
from retrier.app.log import LineWriter, Log, adopt_standard_logging
from retrier.app.metrics import Metrics
from retrier.app.parts import (
    Parts,
    declares_missing,
    make_archiving,
    make_audit,
    make_feed,
    make_ingestor,
    make_lease,
    make_metrics,
    make_processor,
    make_provider,
    make_sender,
    make_transport,
    open_database,
)
from retrier.app.policies import make_policy_source
from retrier.app.process import StopSignals, make_clock, make_crash_switch, start_part
from retrier.app.readiness import (
    ReadinessBoard,
    describe_database,
    describe_ingestion,
    describe_processor,
    look_at_queues,
)
from retrier.app.reports import ProcessReport, ReadReport
from retrier.app.schedule import Ticks
from retrier.app.server import Listening, make_health_server, make_page_state, make_server
from retrier.clock import Clock
from retrier.domain.wire import PropertyCodec
from retrier.errors import BrokerUnavailable, DatabaseUnavailable
from retrier.events.event import Emit, EventStream, Harmless, ignore
from retrier.events.ingestion import DeliveryLimitFound
from retrier.events.service import (
    ApiListening,
    BrokerReached,
    BrokerUnreachable,
    CertificateRefused,
    CertificateRenewed,
    DatabaseReached,
    DatabaseUnreachable,
    DefaultDatabaseUsed,
    HealthListening,
    KnobUsed,
    PlacesKnown,
    PromisesKept,
    PromisesNotKept,
    ServiceStarted,
    ServiceStarting,
    ServiceStopped,
    ServiceStopping,
    TracingUnavailable,
)
from retrier.ingestion.ingestor import Ingestor, describe_limit
from retrier.processor.broker import Progress
from retrier.processor.lease import Lease
from retrier.settings import Role, Settings, find_used_knobs, is_database_named
from retrier.store.outgoing import is_any_outgoing
from retrier.store.upgrade import find_revision, upgrade_schema
from retrier.store.upkeep import get_installation_id, probe_read
from retrier.transport.capabilities import list_kept, list_not_kept
from retrier.transport.seam import CountsRequests
from retrier.web.parts import Addition, QueueState

_WAITS = (0.5, 1.0, 2.0, 5.0, 10.0)
_UNREACHABLE = {"database": DatabaseUnreachable, "broker": BrokerUnreachable}
_REACHED = {"database": DatabaseReached, "broker": BrokerReached}


@dataclass(slots=True, kw_only=True)
class Startup:
    """Prepares what the parts need before they can work.

    Everything that the parts need from the database is read here: the wait for the broker may be
    long, and the database may be away again after it.
    """

    parts: Parts
    board: ReadinessBoard
    installation_id: str = field(init=False, default="")
    has_outgoing: bool = field(init=False, default=False)
    """Whether copies are sent: a log queue is set, or some wait from the time when one was."""

    def prepare(self) -> bool:
        """Wait for the database, then for the broker; false if the service is stopped first."""
        return self._wait_for("database", self._prepare_database) and self._wait_for(
            "broker", self._prepare_queues
        )

    def _wait_for(self, part: str, prepare: Callable[[], None]) -> bool:
        failures, told = 0, ""
        while not self.parts.stop.is_set():
            try:
                prepare()
            except (DatabaseUnavailable, BrokerUnavailable) as error:
                if str(error) != told:
                    told = self._report(part, str(error))
                self.parts.stop.wait(_WAITS[min(failures, len(_WAITS) - 1)])
                failures += 1
            else:
                self.board.put(part, ready=True, reason="reached")
                if failures:
                    self.parts.emit(_REACHED[part]())
                return True
        return False

    def _report(self, part: str, reason: str) -> str:
        """Tell a new reason, and return it: a server may come back and then refuse us."""
        self.board.put(part, ready=False, reason=reason)
        self.parts.emit(_UNREACHABLE[part](reason=reason))
        return reason

    def _prepare_database(self) -> None:
        db = self.parts.db
        if self.parts.settings.database.upgrade:
            upgrade_schema(db)
        else:
            self._check_revision()
        self.installation_id = get_installation_id(db)
        copies = self.parts.settings.ingestion.forward_to is not None
        # A file of policies that is read again may name a queue for notices at any time.
        notices = self.parts.policies.may_change
        self.has_outgoing = copies or notices or is_any_outgoing(db)

    def _check_revision(self) -> None:
        db = self.parts.db
        revision = find_revision(db)
        if not revision.is_current:
            raise DatabaseUnavailable(
                f"the database at {db.place} is at revision {revision.current or 'none'} and "
                f"this version needs {revision.wanted}: run `retrier db upgrade`"
            )

    def _prepare_queues(self) -> None:
        """Declare missing error queues if the settings say so; else ingestion waits for them."""
        wanted = declares_missing(self.parts.settings, self.parts.transport)
        queues = self.parts.transport.queues()
        try:
            for queue in self.parts.error_queues:
                declared = wanted and queues.declare_error_queue(queue)
                limit = None if declared else queues.delivery_limit(queue)
                if limit is not None:
                    why = describe_limit(queues, queue, limit)
                    found = DeliveryLimitFound(queue=queue, limit=limit.most, reason=why)
                    self.parts.emit(found)
            self.parts.metrics.queues.reached({})
        finally:
            queues.close()


_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def make_stream(
    environ: Mapping[str, str],
    writer: LineWriter,
    clock: Clock,
    metrics: Metrics,
    codec: PropertyCodec,
) -> EventStream:
    """Return the stream of a service. Only the crash switch may stop the work that emits."""
    # `ignore`: if the log itself fails, nothing is left that could report it.
    log = Harmless(Log(writer.write, clock), ignore)
    counting = (
        metrics.ingestion,
        metrics.retries,
        metrics.retention,
        metrics.archives,
        metrics.policies,
    )
    reporting = (*counting, make_traces(environ, codec, log))
    return EventStream(
        make_crash_switch(environ), log, *(Harmless(each, report=log) for each in reporting)
    )


def make_traces(environ: Mapping[str, str], codec: PropertyCodec, report: Emit) -> Emit:
    """Return the subscriber that makes traces; `ignore` if the environment configures none."""
    if not _wants_traces(environ):
        return ignore
    try:
        from retrier.app.tracing import Tracing, make_provider  # noqa: PLC0415 - an extra
    except ImportError as error:
        report(TracingUnavailable(reason=f"{error}; install retrier[otel]"))
        return ignore
    return Tracing(codec, make_provider())


def _wants_traces(environ: Mapping[str, str]) -> bool:
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if environ.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return False
    return any(environ.get(name) for name in _ENDPOINTS)


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
    is_asked = Role.API in roles
    audit = make_audit(settings, db, transport, clock, stream.emit) if is_asked else None
    parts = Parts(
        settings=settings,
        db=db,
        transport=transport,
        emit=stream.emit,
        metrics=metrics,
        clock=clock,
        policies=make_policy_source(settings, config, os.environ, clock, stream.emit),
        running_audit=audit,
        provider=make_provider(settings, clock),
    )
    service = Service(parts, roles, additions)
    StopSignals(service.begin_stop, renew=service.renew).listen()
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
        if parts.provider is not None:
            self._board.watch("log-in", parts.provider.describe)
        parts.metrics.watch_readiness(self._board.read)
        parts.metrics.process.watch_policies(lambda: not parts.policies.in_force.problems)
        if isinstance(parts.transport, CountsRequests):
            parts.metrics.watch_requests(parts.transport.count_requests)
        self._ingestors: list[Ingestor] = []
        self._reads: ReadReport | None = None
        self._process = ProcessReport(parts, roles)
        self._page = make_page_state(parts, self._look_at_queues, additions)
        counts = self._page.counts if Role.API in roles else None
        self._listening = Listening(parts)
        self._ticks = Ticks(parts, self._board, self._listening, counts)
        self._feed = make_feed(parts)
        self._audit = parts.running_audit
        if self._audit is not None:
            self._audit.journal.start()
            parts.metrics.watch_audit(self._audit.journal)
        self._server = make_server(parts, roles, self._board.read, self._feed, self._page)
        self._health_server = make_health_server(parts, self._board.read, self._feed)
        self._threads: list[threading.Thread] = []
        self._sender: threading.Thread | None = None
        self._probe = CachedQuery(partial(probe_read, parts.db.apart(1)), parts.clock, _PROBE)

    def begin_stop(self, reason: str) -> None:
        """Ask every part to end."""
        self._parts.emit(ServiceStopping(reason=reason))
        self._parts.stop.set()
        self._parts.wake.set()
        self._parts.wake_archiving.set()

    def renew(self) -> None:
        """Read anew what a signal asks to be read: the certificate of the API."""
        if self._server is not None:
            why_not = self._server.renew_certificate()
            told = CertificateRenewed() if why_not is None else CertificateRefused(reason=why_not)
            self._parts.emit(told)

    def run(self) -> int:
        """Start everything, wait for the stop, stop everything."""
        roles = ", ".join(sorted(self._roles))
        instance = self._parts.settings.instance
        self._parts.emit(ServiceStarting(version=__version__, instance=instance, roles=roles))
        self._log_addresses()
        if self._server is not None:
            self._server.start()
            host, port = self._server.address
            if Role.API in self._roles:
                page = _page_of(self._server.scheme, host, port)
                self._parts.emit(ApiListening(host=host, port=port, page=page))
            else:
                self._parts.emit(HealthListening(host=host, port=port))
        if self._health_server is not None:
            self._health_server.start()
            host, port = self._health_server.address
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

    def _log_addresses(self) -> None:
        """Report where the data is, as whole paths, as defaults are relative; and what is promised."""
        broker, db = self._parts.transport.place, self._parts.db
        self._parts.emit(PlacesKnown(broker=broker, database=db.place))
        told = self._parts.transport.capabilities
        kept, not_kept = "; ".join(list_kept(told)), "; ".join(list_not_kept(told))
        if kept:
            self._parts.emit(PromisesKept(broker=told.broker, promises=kept))
        if not_kept:
            self._parts.emit(PromisesNotKept(broker=told.broker, promises=not_kept))

    def _start_parts(self, startup: Startup) -> None:
        self._board.watch("database", self._look_at_database)
        lease = make_lease(self._parts) if Role.PROCESSOR in self._roles else None
        self._ticks.start(lease, judges=bool(self._roles - {Role.API}))
        self._board.watch("processes", self._process.describe)
        self._ticks.report_process(self._process)
        if self._audit is not None:
            self._ticks.keep_audit(self._audit)
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
        if self._health_server is not None:
            self._health_server.stop(max(0.0, end - self._parts.clock.monotonic()))
        if self._audit is not None:
            self._audit.stop()
        self._feed.wait(max(0.0, end - self._parts.clock.monotonic()))
        self._parts.db.dispose()

    def _look_at_database(self) -> tuple[bool, str]:
        try:
            self._probe.read()
        except DatabaseUnavailable as error:
            return False, str(error)
        ticks = self._ticks
        return True, describe_database(
            ticks.imports, recovering=ticks.recovering, words=ticks.words, vacuum=ticks.vacuum
        )


def _page_of(scheme: str, host: str, port: int) -> str:
    """Return where a person of this machine opens the page."""
    if host in ("0.0.0.0", "::", ""):  # noqa: S104 - it is looked at, not listened on
        return f"{scheme}://localhost:{port}/"
    return f"{scheme}://[{host}]:{port}/" if ":" in host else f"{scheme}://{host}:{port}/"

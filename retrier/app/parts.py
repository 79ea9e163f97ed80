"""What all parts of the service share, and what is built from it: the only code that knows all of it."""

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from datetime import timedelta
from functools import partial
from glob import escape
from pathlib import Path
from random import SystemRandom
from threading import Event
from uuid import uuid4

from retrier import __version__
from retrier.api.live import LiveFeed
from retrier.api.middleware import Callers
from retrier.app.audit import AuditFile, AuditJournal, HeadSender, RunningAudit, StandardOutput
from retrier.app.cached_query import CachedQuery, CacheTimes
from retrier.app.metrics import Metrics
from retrier.app.policies import PolicySource
from retrier.app.process import describe_holder, is_dead
from retrier.app.queue_looks import LOOK_SECONDS, QueueLooks, WholeNames
from retrier.archives import Archives
from retrier.audit import Audit
from retrier.clock import Clock
from retrier.domain.breakers import BreakerRules
from retrier.domain.classifiers import Fold, as_it_is
from retrier.domain.copies import SendingTerms
from retrier.domain.dialects import BUILT_IN
from retrier.domain.dialects.dialect import have_none
from retrier.domain.hosts import Hosts, Proxies, parse_host, parse_network, parse_origin
from retrier.domain.retention import SecondLook, find_ages
from retrier.domain.values import dataclass
from retrier.errors import ConfigurationError
from retrier.events.event import Emit
from retrier.gateway import Gateway
from retrier.http.login import LoginProvider
from retrier.imports import FailedImports
from retrier.ingestion.ingestor import Ingestor
from retrier.ingestion.parsing import QueueMapping, read_import
from retrier.policy.patterns import Generated
from retrier.policy.policy_set import Judge
from retrier.processor.archive import Archiving
from retrier.processor.broker import AttendedTransport, Broker, Progress
from retrier.processor.lease import HolderContext, Lease
from retrier.processor.outgoing import OutgoingSender
from retrier.processor.processor import Processor
from retrier.processor.retention import RetentionJob
from retrier.processor.stage_context import BreakerWatch, RetryParameters, StageContext
from retrier.processor.staging_queue import get_probe_ready
from retrier.settings import Api, ErrorQueue, Settings, name_settings_queues
from retrier.store.engine.database import Database, DatabaseClock, DatabaseOptions
from retrier.store.figures import read_figures
from retrier.store.recording import record_received
from retrier.store.upkeep import probe_write
from retrier.transport import transports
from retrier.transport.seam import Transport
from retrier.transport.sender import BrokerSender
from retrier.transport.transports import Tls, TransportOptions

_SCRAPE = CacheTimes(
    wait=timedelta(seconds=2), keep=timedelta(seconds=5), hang=timedelta(seconds=10)
)
"""How long a scrape waits for the database: well below the 10 s after which Prometheus gives up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Objects that all parts of the service share."""

    settings: Settings
    db: Database
    transport: Transport
    emit: Emit
    metrics: Metrics
    clock: Clock
    policies: PolicySource = field(default_factory=PolicySource)
    running_audit: RunningAudit | None = None
    provider: LoginProvider | None = None
    """Where people log in, if the settings name a provider."""
    session_id: str = field(default_factory=lambda: str(uuid4()))
    stop: Event = field(default_factory=Event)
    wake: Event = field(default_factory=Event)
    wake_archiving: Event = field(default_factory=Event)

    @property
    def judge(self) -> Judge:
        """Who is asked what becomes of a failure."""
        return Judge(in_force=self.policies.current, dice=SystemRandom().random)

    @property
    def audit(self) -> Audit | None:
        """What keeps acts and refusals; None without `access` in the settings."""
        return None if self.running_audit is None else self.running_audit.audit

    @property
    def error_queues(self) -> tuple[str, ...]:
        """The names of the error queues."""
        return tuple(each.queue for each in self.settings.ingestion.error_queues)

    @property
    def counted_as(self) -> str:
        """The name under which this process counts in the ledger."""
        return f"{self.settings.instance}@{describe_holder(self.session_id).host}"


def open_database(settings: Settings) -> Database:
    """Return the database the settings name; nothing is connected yet."""
    options = DatabaseOptions(url=settings.database.url, lease=settings.processor.lease)
    return Database(options)


def make_transport(settings: Settings) -> Transport:
    """Return the transport the broker's URLs name; nothing is connected yet."""
    options = TransportOptions(
        urls=tuple(settings.broker.url),
        staging_queue_type=settings.broker.staging_queue_type,
        connection_name=settings.instance,
        dice=SystemRandom(),
        tls=Tls(**settings.broker.tls.model_dump()),
        kombu=settings.broker.transport_options,
    )
    return transports.make_transport(options)


def declares_missing(settings: Settings, transport: Transport) -> bool:
    """Return whether a missing error queue is declared.

    Always where nobody else declares queues before the first failure.
    """
    return settings.ingestion.declare_missing or transport.capabilities.nobody_declares


def make_metrics(settings: Settings, db: Database, clock: Clock) -> Metrics:
    """Return the metrics of this process; the database is read only when they are scraped."""
    return Metrics(
        version=__version__,
        error_queues=[each.queue for each in settings.ingestion.error_queues],
        staging_queue=settings.staging_queue,
        read_figures=CachedQuery(partial(read_figures, db.apart(1)), clock, _SCRAPE).read,
    )


def make_callers(api: Api) -> Callers:
    """Return who may ask the API; the page is asked by its own pages only."""
    origins = (parse_origin(each) for each in api.allowed_origins)
    networks = (parse_network(each) for each in api.trusted_proxies)
    return Callers(
        hosts=make_hosts(api),
        origins=frozenset(each for each in origins if each is not None),
        proxies=Proxies(frozenset(each for each in networks if each is not None)),
    )


def make_hosts(api: Api) -> Hosts:
    """Return the hosts that requests to the API and to the page may name."""
    address = f"[{api.host}]" if ":" in api.host else api.host
    named = map(parse_host, (address, *api.allowed_hosts))
    return Hosts(frozenset(host for host in named if host is not None))


ANSWER_LIMIT = timedelta(seconds=5)
"""How long one statement of a list, or of anything else that the API reads, may take."""

_SQLITE_PAUSE = 0.01
"""Seconds between two received batches on SQLite: it has one writer at a time, and others wait."""


def make_gateway(parts: Parts) -> Gateway:
    """Return the gateway for whatever people ask."""
    own_queues = name_settings_queues(parts.settings)
    settings = parts.settings
    queues = settings.ingestion.error_queues
    exists = _names(parts).exists
    mappings = {each.queue: make_mapping(settings, each, exists) for each in queues}
    imports = FailedImports(
        db=parts.db,
        emit=parts.emit,
        own_queues=own_queues,
        read=partial(read_import, codec=parts.transport.codec, mappings=mappings),
        sender=BrokerSender(parts.transport, parts.clock),
        instance=parts.counted_as,
        forward_to=parts.settings.ingestion.forward_to,
        judge=parts.judge,
        keep_transient=settings.retries.keep_transient,
        dialects=(*(each.name for each in settings.ingestion.dialects), *BUILT_IN),
        audit=parts.audit,
    )
    archives = Archives(
        parts.db,
        parts.wake_archiving.set,
        parts.emit,
        notices=lambda: parts.policies.current().notices,
        audit=parts.audit,
    )
    wake = parts.wake.set
    access = settings.access
    approval = access.approval if access is not None else None
    gateway = Gateway(
        parts.db,
        wake,
        own_queues,
        parts.emit,
        imports=imports,
        archives=archives,
        audit=parts.audit,
        approval=None if approval is None else approval.rules,
    )
    gateway.fields = settings.search.declared
    gateway.terms_of = partial(_terms_of, parts, _find_dropped(settings))
    if access is not None:
        gateway.tokens_given = frozenset(each.name for each in access.tokens)
    return gateway


def _find_dropped(settings: Settings) -> Mapping[str, tuple[str, ...]]:
    """Return the headers that messages of each error queue are sent back without."""
    stripped = _stripped(settings)
    queues = settings.ingestion.error_queues
    return {each.queue: (*each.drop_headers, *stripped) for each in queues}


def _terms_of(
    parts: Parts, dropped: Mapping[str, tuple[str, ...]], error_queue: str
) -> SendingTerms:
    return SendingTerms(
        acknowledgement_queue=error_queue,
        own_user=parts.transport.user,
        keep_transient=parts.settings.retries.keep_transient,
        leave_out=dropped.get(error_queue, ()),
    )


def make_audit(
    settings: Settings, db: Database, transport: Transport, clock: Clock, emit: Emit
) -> RunningAudit | None:
    """Return the audit of this process; None if nobody has to log in. Nothing is written yet."""
    if settings.access is None:
        return None
    section, instance = settings.access.audit, settings.instance
    lines = AuditFile(Path(section.file)) if section.file else StandardOutput()
    place = section.file or "standard output"
    journal = AuditJournal(lines, place, instance, clock, emit)
    head = None
    if section.head_to is not None:
        sender = BrokerSender(transport, clock)
        head = HeadSender(journal, sender, section.head_to, instance, clock)
    return RunningAudit(audit=Audit(journal, clock), journal=journal, db=db.apart(1), head=head)


def make_feed(parts: Parts) -> LiveFeed:
    """Return what serves those who follow the event log, with database connections of its own."""
    return LiveFeed(parts.db.apart(1, ANSWER_LIMIT), parts.emit)


def make_mapping(
    settings: Settings, queue: ErrorQueue, exists: Callable[[str], bool] = have_none
) -> QueueMapping:
    """Return an error queue as ingestion knows it.

    Headers that its retries go without are volatile: a retry that fails again lacks them.
    """
    return QueueMapping(
        queue=queue.queue,
        dialect=queue.dialect,
        destination=queue.destination,
        take_from_work_queue=queue.take_from_work_queue,
        stream_header=queue.stream_header or settings.ingestion.stream_header,
        volatile=(
            *(each.casefold() for each in settings.ingestion.volatile_headers),
            *(each.casefold() for each in queue.drop_headers),
            *(each.casefold() for each in _stripped(settings)),
            escape((queue.stream_header or settings.ingestion.stream_header).casefold()),
        ),
        own_queues=frozenset(each.queue for each in settings.ingestion.error_queues),
        stream_order_header=settings.ingestion.stream_order_header,
        destinations=queue.destinations,
        own=tuple(each.dialect for each in settings.ingestion.dialects),
        fields=settings.search.declared,
        exists=exists,
        fold=_fold(settings),
    )


def _fold(settings: Settings) -> Fold:
    """Return what folds names; without patterns it costs nothing but the call."""
    patterns = settings.ingestion.generated_names
    return Generated(patterns).fold if patterns else as_it_is


def _stripped(settings: Settings) -> tuple[str, ...]:
    """Return what retries leave out for all dialects of the settings, whatever read the message."""
    return tuple(each for own in settings.ingestion.dialects for each in own.strip)


def _names(parts: Parts) -> WholeNames:
    """Return what knows queues with `@` in their names; its looks hold up no previews."""
    looks = QueueLooks(parts.transport, parts.clock, LOOK_SECONDS)
    return WholeNames(looks.look_at, parts.clock)


def make_ingestor(parts: Parts, queue: ErrorQueue) -> Ingestor:
    """Return the ingestor of one error queue."""
    return Ingestor(
        mapping=make_mapping(parts.settings, queue, _names(parts).exists),
        transport=parts.transport,
        record=partial(
            record_received,
            parts.db,
            instance=parts.counted_as,
            forward_to=parts.settings.ingestion.forward_to,
            judge=parts.judge,
        ),
        probe=partial(probe_write, parts.db),
        # The clock of the database: stored times are compared, and the clocks of hosts differ.
        clock=DatabaseClock(parts.db, parts.clock),
        emit=parts.emit,
        declare_missing=declares_missing(parts.settings, parts.transport),
        prefetch=parts.settings.ingestion.prefetch,
        pause=_SQLITE_PAUSE if parts.db.is_sqlite else 0.0,
    )


def make_lease(parts: Parts) -> Lease:
    """Return the processor's lease, not held yet."""
    holder = describe_holder(parts.session_id)
    duration = parts.settings.processor.lease
    return Lease(parts.db, holder, duration, parts.clock, is_dead, parts.emit)


def make_retention(parts: Parts, lease: Lease, second_look: SecondLook) -> RetentionJob:
    """Return what deletes for its age, while this process holds the lease."""
    return RetentionJob(
        context=_context(parts, lease, parts.db),
        ages=find_ages(parts.settings.retention.times),
        instance=parts.counted_as,
        second_look=second_look,
    )


def make_archiving(parts: Parts, lease: Lease) -> Archiving:
    """Return what archives, unarchives and resolves many, with a database connection of its own."""
    return Archiving(_context(parts, lease, parts.db.apart(1)), parts.wake_archiving)


def make_sender(parts: Parts, lease: Lease) -> OutgoingSender:
    """Return the sender of copies to the log queue, with a database connection of its own."""
    retries = parts.settings.retries
    return OutgoingSender(
        _context(parts, lease, parts.db.apart(1)),
        parts.transport,
        window=retries.forwarding_window,
        window_bytes=retries.forwarding_window_bytes,
    )


def _context(parts: Parts, lease: Lease, db: Database) -> HolderContext:
    return HolderContext(db=db, lease=lease, clock=parts.clock, emit=parts.emit, stop=parts.stop)


def make_processor(
    parts: Parts, lease: Lease, installation_id: str, progress: Progress
) -> Processor:
    """Return the processor of an installation; it writes its progress to `progress`."""
    retries = parts.settings.retries
    parameters = RetryParameters(
        staging_queue=parts.settings.staging_queue,
        error_queues=parts.error_queues,
        alike=parts.settings.broker.alike,
        installation_id=installation_id,
        session_id=parts.session_id,
        window=retries.forwarding_window,
        window_bytes=retries.forwarding_window_bytes,
        drain_timeout=retries.drain_timeout,
        idle_wait=retries.idle_wait,
        keep_transient=retries.keep_transient,
        drop_headers=_find_dropped(parts.settings),
    )
    transport = AttendedTransport(parts.transport, progress)
    probe = partial(get_probe_ready, parts.db, lease, transport, parameters, parts.emit)
    context = StageContext(
        db=parts.db,
        broker=Broker(transport, parts.settings.staging_queue, probe),
        lease=lease,
        clock=parts.clock,
        retries=parameters,
        emit=parts.emit,
        stop=parts.stop,
        progress=progress,
        breakers=BreakerWatch(partial(find_breaker_rules, parts)),
        judge=parts.judge,
        per_second=lambda: parts.policies.current().definition.per_second,
    )
    return Processor(context, parts.wake)


def find_breaker_rules(parts: Parts) -> BreakerRules:
    """Return when breakers open, by the policies and the settings in force."""
    return replace(parts.settings.breaker_rules, rules=parts.policies.current().breakers)


def make_provider(settings: Settings, clock: Clock) -> LoginProvider | None:
    """Return where people log in, if the settings name a provider; it is not asked yet.

    Raises ConfigurationError.
    """
    if settings.access is None or settings.access.oidc is None:
        return None
    from retrier.http.oidc import Provider  # noqa: PLC0415 - what reads tokens is loaded for nobody else

    try:
        rules = settings.access.oidc.read_rules()
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
        raise ConfigurationError([f"access.oidc.client_secret_file: {reason}"]) from error
    return Provider(rules, clock)

"""What all parts of the service share, and how the database, the broker and the metrics are made."""

from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from random import SystemRandom
from threading import Event
from uuid import uuid4

from retrier import __version__
from retrier.app.cached_query import CachedQuery, CacheTimes
from retrier.app.metrics.instruments import Metrics
from retrier.app.policies import PolicySource
from retrier.app.process import describe_holder
from retrier.clock import Clock
from retrier.domain.hosts import Hosts, parse_host
from retrier.events.event import Emit
from retrier.policy.policy_set import Judge
from retrier.settings import Api, Settings
from retrier.store.engine.database import Database, DatabaseOptions
from retrier.store.figures import read_figures
from retrier.transport import transports
from retrier.transport.seam import Transport
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
    session_id: str = field(default_factory=lambda: str(uuid4()))
    stop: Event = field(default_factory=Event)
    wake: Event = field(default_factory=Event)
    wake_archiving: Event = field(default_factory=Event)

    @property
    def judge(self) -> Judge:
        """Who is asked what becomes of a failure."""
        return Judge(in_force=self.policies.current, dice=SystemRandom().random)

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
    )
    return transports.make_transport(options)


def make_metrics(settings: Settings, db: Database, clock: Clock) -> Metrics:
    """Return the metrics of this process; the database is read only when they are scraped."""
    return Metrics(
        version=__version__,
        error_queues=[each.queue for each in settings.ingestion.error_queues],
        staging_queue=settings.staging_queue,
        read_figures=CachedQuery(partial(read_figures, db.apart(1)), clock, _SCRAPE).read,
    )


def make_hosts(api: Api) -> Hosts:
    """Return the hosts that requests to the API and to the page may name."""
    address = f"[{api.host}]" if ":" in api.host else api.host
    named = map(parse_host, (address, *api.allowed_hosts))
    return Hosts(frozenset(host for host in named if host is not None))

"""Every key the operator may set, with its default."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Literal

from retrier.settings.addresses import AllowedHost, BrokerUrls, DatabaseUrl, LoopbackHost
from retrier.settings.fields import Count, Duration, Section, Size, at_least, between
from retrier.settings.queues import ErrorQueue, ErrorQueues, InstanceName, staging_queue


class Role(StrEnum):
    """What a process does; one process may do all of it."""

    INGESTION = "ingestion"
    PROCESSOR = "processor"
    API = "api"


class Broker(Section):
    """The broker that holds the error queues, the staging queue and the destinations."""

    url: BrokerUrls = ("embedded:///./retrier-data/broker.db",)
    """One URL for each node of the broker that may be connected to."""
    staging_queue_type: Literal["quorum", "classic"] = "quorum"

    @property
    def is_embedded(self) -> bool:
        """Whether it is a file, and no server."""
        return self.url[0].startswith("embedded:")


class Database(Section):
    """Where failed messages are kept."""

    url: DatabaseUrl = "sqlite:///./retrier-data/retrier.db"
    upgrade: bool = True


class Ingestion(Section):
    """How failed messages are taken off the error queues."""

    error_queues: ErrorQueues = (ErrorQueue(queue="error"),)
    prefetch: Annotated[Count, between(1, 65535)] = 1500


class Retries(Section):
    """How batches are forwarded."""

    forwarding_window: Annotated[Count, between(1, 1000)] = 200
    forwarding_window_bytes: Size = 16 * 1024 * 1024
    drain_timeout: Duration = timedelta(seconds=2)
    idle_wait: Duration = timedelta(seconds=30)


class Processor(Section):
    """How processes agree on the one that forwards."""

    lease: Annotated[Duration, at_least(timedelta(seconds=3))] = timedelta(seconds=15)


class Api(Section):
    """Where the HTTP API listens; port 0 takes a free one. And the hosts it is asked as."""

    host: LoopbackHost = "127.0.0.1"
    port: Annotated[Count, between(0, 65535)] = 33333
    allowed_hosts: tuple[AllowedHost, ...] = ()


class Retention(Section):
    """How long things are kept."""

    events: Duration = timedelta(days=14)


class Log(Section):
    """What is logged, and in which form."""

    format: Literal["auto", "console", "json"] = "auto"
    level: Literal["info", "warning", "error"] = "info"


class Settings(Section):
    """All of it, checked."""

    instance: InstanceName = "retrier"
    broker: Broker = Broker()
    database: Database = Database()
    ingestion: Ingestion = Ingestion()
    retries: Retries = Retries()
    processor: Processor = Processor()
    api: Api = Api()
    retention: Retention = Retention()
    log: Log = Log()

    @property
    def staging_queue(self) -> str:
        """Name the staging queue of this instance."""
        return staging_queue(self.instance)

"""How the work begins: failures stored, their retry asked for, more failures on their way."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from retrier.app.composition import make_ingestor
from retrier.app.parts import Parts
from retrier.domain.retry_operation import RetryRequest, RetryType
from retrier.domain.selection import Selection
from retrier.settings import Settings, load_settings
from retrier.store.operation_requests import create_operation
from retrier.store.upgrade import upgrade_schema
from tests.faults.work import ARRIVING, RETRIED, STORED, Figures, Work
from tests.journeys.conftest import Site
from tests.support.parts import make_parts
from tests.support.service import Service
from tests.support.waiting import wait_until

FAST = 500


def begin_work(site: Site, broker_url: str, name: str, service: Service | None = None) -> Work:
    """Have messages stored and their retry asked for, put more on the error queue, then start.

    `broker_url` is the broker itself, whatever line the service takes to it.
    """
    retried = put_failures(site, RETRIED)
    with opened_parts(site) as parts:
        ingest(parts, site)
        every = Selection()
        create_operation(
            parts.db,
            RetryRequest(
                retry_type=RetryType.ALL, selection=every, originator="a test", requested_by="ada"
            ),
        )
    arriving = put_failures(site, ARRIVING)
    return Work(
        site, broker_url, service or site.host.start(), retried, arriving, Figures(name=name)
    )


def put_failures(site: Site, count: int) -> frozenset[str]:
    """Put failed messages on the error queue; return their ids when the broker has them all."""
    failed = frozenset(site.shop.fail(count))
    wait_until(lambda: site.shop.depth(site.shop.error) == count, 30, "all are on the error queue")
    return failed


@contextmanager
def opened_parts(site: Site) -> Iterator[Parts]:
    """Give the parts of a service on this site, which ingests fast."""
    settings = make_fast(load_settings(site.host.config, {}))
    parts = make_parts(settings)
    upgrade_schema(parts.db)
    try:
        yield parts
    finally:
        parts.db.dispose()


def make_fast(settings: Settings) -> Settings:
    """Return the settings of the site without the prefetch that slows ingestion down."""
    ingestion = settings.ingestion.model_copy(update={"prefetch": FAST})
    return settings.model_copy(update={"ingestion": ingestion})


def ingest(parts: Parts, site: Site) -> None:
    """Ingest all there is, here and now."""
    ingestor = make_ingestor(parts, parts.settings.ingestion.error_queues[0])
    while site.count(STORED) < RETRIED:
        ingestor.ingest_once()
    stopped = Event()
    stopped.set()
    ingestor.run(stopped)

"""The parts of a service inside the test's own process."""

from retrier.app.parts import Parts, make_metrics, make_transport, open_database
from retrier.clock import SystemClock
from retrier.events.event import Emit, ignore
from retrier.settings import Settings
from retrier.store.engine.database import Database


def make_parts(settings: Settings, emit: Emit = ignore, db: Database | None = None) -> Parts:
    """Return parts on the database of the settings or on another."""
    clock, opened = SystemClock(), db or open_database(settings)
    return Parts(
        settings=settings,
        db=opened,
        transport=make_transport(settings),
        emit=emit,
        metrics=make_metrics(settings, opened, clock),
        clock=clock,
    )

"""The start waits for database and broker, and tells why."""

from pathlib import Path
from threading import Timer

from retrier.app.parts import Parts, make_metrics, make_transport, open_database
from retrier.app.readiness import ReadinessBoard
from retrier.app.startup import Startup
from retrier.clock import SystemClock
from retrier.events.event import Event
from retrier.events.ingestion import DeliveryLimitFound
from retrier.events.service import DatabaseUnreachable
from retrier.settings import load_settings
from retrier.store.upgrade import upgrade_schema
from retrier.transport.seam import DeliveryLimit
from tests.support.scripted_transport import ScriptedTransport

DEADLINE = 20.0


def test_a_reason_that_changes_is_told_again(tmp_path: Path) -> None:
    # Given a database in a folder that is a file, and nobody upgrades it
    folder = tmp_path / "data"
    folder.touch()
    environ = {
        "RETRIER_BROKER__URL": f"embedded:///{tmp_path / 'broker.db'}",
        "RETRIER_DATABASE__URL": f"sqlite:///{folder / 'retrier.db'}",
        "RETRIER_DATABASE__UPGRADE": "false",
    }
    settings, clock = load_settings(None, environ), SystemClock()
    db = open_database(settings)
    reasons: list[str] = []

    # When the folder is made after the first reason, and the tables after the second one
    def mend(event: Event) -> None:
        if isinstance(event, DatabaseUnreachable):
            reasons.append(event.reason)
            if len(reasons) == 1:
                folder.unlink()
                folder.mkdir()
            else:
                upgrade_schema(db)

    parts = Parts(
        settings=settings,
        db=db,
        transport=make_transport(settings),
        emit=mend,
        metrics=make_metrics(settings, db, clock),
        clock=clock,
    )
    # A start that never tells the second reason would wait for ever.
    deadline = Timer(DEADLINE, parts.stop.set)
    deadline.start()
    prepared = Startup(parts=parts, board=ReadinessBoard()).prepare()
    deadline.cancel()

    # Then both were told
    assert prepared
    first, second = reasons
    assert "cannot open or make the database file" in first
    assert "run `retrier db upgrade`" in second
    db.dispose()


def test_a_delivery_limit_is_told_with_its_number(tmp_path: Path) -> None:
    environ = {"RETRIER_DATABASE__URL": f"sqlite:///{tmp_path / 'retrier.db'}"}
    settings, clock = load_settings(None, environ), SystemClock()
    transport = ScriptedTransport()
    transport.broker.declare("error")
    transport.limits["error"] = DeliveryLimit(most=3)
    transport.dead_letters["error"] = False
    db = open_database(settings)
    told: list[Event] = []
    parts = Parts(
        settings=settings,
        db=db,
        transport=transport,
        emit=told.append,
        metrics=make_metrics(settings, db, clock),
        clock=clock,
    )

    prepared = Startup(parts=parts, board=ReadinessBoard()).prepare()
    db.dispose()

    assert prepared
    (found,) = [each for each in told if isinstance(each, DeliveryLimitFound)]
    assert (found.queue, found.limit) == ("error", 3)
    assert found.reason.endswith("is dropped, because its arguments name no dead-letter exchange")

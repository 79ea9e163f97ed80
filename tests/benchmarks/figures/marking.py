"""Figure b: a bulk of a million is cut into batches and claimed, with nothing else at work.

The stage itself runs here, on a database filled for it; after each cut the batch is set down as
forwarded, as it would be, which is not counted.
"""

from collections.abc import Iterator
from statistics import median
from time import perf_counter
from uuid import uuid4

import psycopg

from retrier.app.parts import make_lease
from retrier.clock import SystemClock
from retrier.domain.wire import Outgoing
from retrier.processor.broker import Broker, Progress
from retrier.processor.marking import Marking
from retrier.processor.stage_context import RetryParameters, StageContext
from retrier.settings import Settings
from retrier.store.engine.database import Database
from retrier.store.processor_work import look_ahead
from tests.benchmarks.filling import Filling, fill
from tests.benchmarks.options import Options
from tests.benchmarks.place import Place
from tests.benchmarks.results import Row
from tests.benchmarks.site import ask_for_all
from tests.benchmarks.targets import MARKING_GROWTH, MARKING_SECONDS
from tests.support.databases import open_upgraded, temporary_postgres
from tests.support.parts import make_parts
from tests.support.servers import psycopg_url

BODY = 200
SHORT_TRACE = 1
SAMPLE = 20
"""So many batches at the beginning are compared with as many at the end."""
FORWARDED = (
    """
    UPDATE failed_messages SET status = 'retry_issued', last_retry_id = retry_id
    FROM failed_message_retries AS claims
    WHERE claims.number = failed_messages.number
          AND claims.batch_id = %(batch)s
    """,
    """
    UPDATE failed_message_retries SET sending_since = now(), forwarded_at = now()
    WHERE batch_id = %(batch)s
    """,
    """
    UPDATE retry_operations SET forwarded = forwarded + initial_size
    FROM retry_batches
    WHERE retry_batches.operation_id = retry_operations.operation_id AND batch_id = %(batch)s
    """,
    "DELETE FROM retry_batches WHERE batch_id = %(batch)s",
)
"""What remains of a batch when it is forwarded. By its id: no plan may look at all claims."""


def measure_marking(options: Options, place: Place) -> Iterator[Row]:
    """Measure all cuts together, and the last ones beside the first."""
    with temporary_postgres(place.postgres_url) as url:
        db = open_upgraded(url)
        with psycopg.connect(psycopg_url(url), autocommit=True) as conn:
            filling = Filling(
                count=options.many, queue="o", error_queue="e", body_size=BODY, depth=SHORT_TRACE
            )
            fill(url, conn, filling)
            seconds = mark_all(db, conn)
        db.dispose()
    total = f"marking {options.many:,}"
    yield Row(figure="b", what=total, value=sum(seconds), unit="s", target=MARKING_SECONDS)
    sample = min(SAMPLE, len(seconds) // 2)
    yield Row(
        figure="b",
        what="marking: cost of the last batches beside the first",
        value=1000 * median(seconds[-sample:]),
        unit="ms",
        rival="the first batches",
        rival_value=1000 * median(seconds[:sample]),
        target=MARKING_GROWTH,
    )


def mark_all(db: Database, conn: psycopg.Connection) -> list[float]:
    """Ask for a retry of everything, cut it into batches; return the seconds of each cut."""
    ask_for_all(db)
    marking = Marking(make_context(db))
    seconds: list[float] = []
    while True:
        begin = perf_counter()
        worked, _ = marking.run_once(db.read(look_ahead))
        spent = perf_counter() - begin
        batches = conn.execute("SELECT batch_id FROM retry_batches").fetchall()
        if not (worked and batches):
            return seconds
        seconds.append(spent)
        with conn.transaction():
            for statement in FORWARDED:
                conn.execute(statement, {"batch": batches[0][0]})


def no_probe() -> Outgoing:
    """Give nothing to send: nothing is."""
    raise NotImplementedError


def make_context(db: Database) -> StageContext:
    """Return what the stage needs; it never talks to the broker."""
    parts = make_parts(Settings(), db=db)
    lease = make_lease(parts)
    lease.acquire()
    return StageContext(
        db=db,
        broker=Broker(parts.transport, "unused", no_probe),
        lease=lease,
        clock=SystemClock(),
        retries=RetryParameters(
            staging_queue="unused", error_queues=(), installation_id="-", session_id=str(uuid4())
        ),
        emit=parts.emit,
        stop=parts.stop,
        progress=Progress(SystemClock()),
    )

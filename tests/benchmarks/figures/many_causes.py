"""Part of figure a: storing failures of which each has a cause of its own, without a broker.

The worst case of causes: the titles of all groups by exception differ from message to message.
"""

from collections.abc import Iterator, Sequence
from time import perf_counter
from uuid import uuid4

from retrier.clock import SystemClock
from retrier.domain.failed_message import Received
from retrier.domain.wire import Delivery
from retrier.ingestion.arrival import QueueMapping
from retrier.ingestion.parsing import Reading
from retrier.store.recording import record_received
from retrier.transport.rabbitmq.properties.codec import AmqpPropertyCodec
from tests.benchmarks.messages import ID, make_body, make_templates
from tests.benchmarks.options import BODIES, Options
from tests.benchmarks.place import Place
from tests.benchmarks.results import Row
from tests.benchmarks.targets import TARGET_BODY
from tests.support.databases import open_upgraded, temporary_postgres

BATCH = 166
"""How many failures ingestion stores at once when it is pipelined."""
MOST = 20_000
EXCEPTION = b"OutOfStockException"
SHORT = 9
"""Characters of the id that stand in the exception instead: no more than it has itself."""


def measure_many_causes(options: Options, place: Place) -> Iterator[Row]:
    """Store as many messages with 20 causes in all, and with a cause each."""
    count = min(MOST, options.messages)
    few, many = (_measure(place, count, each=each) for each in (False, True))
    yield Row(
        figure="a",
        what="storing, a cause for each failure",
        body=TARGET_BODY,
        value=many,
        unit="/s",
        rival="20 causes in all",
        rival_value=few,
    )


def _measure(place: Place, count: int, *, each: bool) -> float:
    batches = [_read_batch(each=each) for _ in range(max(1, count // BATCH))]
    with temporary_postgres(place.postgres_url) as url:
        db = open_upgraded(url)
        record_received(db, _read_batch(each=each), instance="benchmark")
        begin = perf_counter()
        for batch in batches:
            record_received(db, batch, instance="benchmark")
        seconds = perf_counter() - begin
        db.dispose()
    return len(batches) * BATCH / seconds


def _read_batch(*, each: bool) -> Sequence[Received]:
    templates = make_templates("orders")
    deliveries = []
    for number in range(BATCH):
        message_id = str(uuid4())
        raw = templates[number % len(templates)]
        if each:
            raw = raw.replace(EXCEPTION, EXCEPTION[:-SHORT] + message_id[:SHORT].encode())
        deliveries.append(
            Delivery(
                tag=None,
                queue="error",
                raw=raw.replace(ID.encode(), message_id.encode()),
                body=make_body(message_id, BODIES[TARGET_BODY]),
                redelivered=False,
            )
        )
    mapping = QueueMapping(queue="error")
    return Reading(deliveries, AmqpPropertyCodec(), mapping, SystemClock().now()).finish()

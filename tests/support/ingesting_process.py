"""A process that ingests one queue; it freezes itself the n-th time that it has a batch in hand.

Arguments: the URLs of broker and database, the queue, and n, or 0. It has one thread, so nothing
else of it can be frozen in the middle of a transaction. SIGTERM stops it.
"""

import os
import signal
import sys
import threading
from functools import partial

from retrier.clock import SystemClock
from retrier.events.event import Event
from retrier.events.ingestion import BatchReceived
from retrier.ingestion.ingestor import Ingestor
from retrier.ingestion.parsing import QueueMapping
from retrier.store.recording import record_received
from retrier.transport.rabbitmq import RabbitMQTransport
from tests.support.databases import open_database

HEARTBEAT = 1
"""Seconds; the broker gives a frozen process up after two to three of them."""


def main(broker: str, database: str, queue: str, freeze_at: str) -> None:
    """Ingest until SIGTERM."""
    left = int(freeze_at)

    def be_told(event: Event) -> None:
        nonlocal left
        if isinstance(event, BatchReceived):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGSTOP)

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    db = open_database(database)
    Ingestor(
        mapping=QueueMapping(queue=queue),
        transport=RabbitMQTransport(broker, connection_name="frozen", heartbeat=HEARTBEAT),
        record=partial(record_received, db, instance="test"),
        probe=lambda: None,
        clock=SystemClock(),
        emit=be_told,
        prefetch=60,
    ).run(stop)
    db.dispose()


if __name__ == "__main__":
    main(*sys.argv[1:])

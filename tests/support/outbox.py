"""A bench for the sender of copies: the real store and sender over a scripted transport."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import select, update

from retrier.domain import headers
from retrier.events.event import Event
from retrier.events.processor import OutgoingPublished
from retrier.processor.lease import Lease
from retrier.processor.outgoing import LOOK, OutgoingContext, OutgoingSender
from retrier.store.engine.database import Database
from retrier.store.lease import Holder
from retrier.store.recording import record_received
from retrier.store.schema import outgoing
from tests.support.bench import is_gone
from tests.support.factories import failure, unique_id
from tests.support.frozen_clock import FrozenClock
from tests.support.scripted_transport import ScriptedTransport
from tests.support.told import Told

LOG = "log"
MOST_TURNS = 100


class Outbox:
    """One database, one scripted broker, and a sender that can be killed and started anew."""

    def __init__(self, db: Database, transport: Any = None, **bounds: Any) -> None:
        self.db = db
        self.clock = FrozenClock()
        self.told = Told(self.clock)
        self.transport = transport or ScriptedTransport()
        if transport is None:
            self.transport.broker.declare(LOG)
        self.stop = threading.Event()
        self.on_published: Callable[[], None] = lambda: None
        self._bounds = bounds
        self.start()

    def start(self, host: str = "here") -> None:
        """Start a process that holds the lease, if nobody alive does."""
        session = str(uuid4())
        holder = Holder(session_id=session, host=host, pid=1, process_started=session)
        self.lease = Lease(self.db, holder, timedelta(seconds=15), self.clock, is_gone)
        self.lease.acquire()
        context = OutgoingContext(
            db=self.db,
            transport=self.transport,
            lease=self.lease,
            clock=self.clock,
            emit=self._emit,
            stop=self.stop,
            **self._bounds,
        )
        self.sender = OutgoingSender(context)

    def fail(self, count: int = 1, queue: str = LOG, **changes: Any) -> list[str]:
        """Store failures that are to be forwarded; return the ids of their messages."""
        failures = [failure(**changes) for _ in range(count)]
        record_received(self.db, failures, instance="test", forward_to=queue)
        return [unique_id(each) for each in failures]

    def turn(self) -> float:
        """Take one turn as the loop does; return how long it would wait."""
        return self.sender._turn()  # noqa: SLF001 - one turn of the loop, without its thread

    def work(self, turns: int = MOST_TURNS) -> None:
        """Take turns until nothing is due."""
        for _ in range(turns):
            pause = self.turn()
            if pause == LOOK and not self.due():
                return
            self.clock.advance(pause)

    def due(self) -> int:
        """Return how many rows wait for nothing but their turn."""
        return sum(row["not_before"] is None for row in self.rows())

    def rows(self) -> list[dict[str, Any]]:
        with self.db.engine.connect() as conn:
            query = select(outgoing).order_by(outgoing.c.outgoing_id)
            return [dict(row) for row in conn.execute(query).mappings()]

    def end_waits(self) -> None:
        """Let the minute of what was put off pass."""
        past = self.clock.now() - timedelta(days=3650)
        with self.db.engine.begin() as conn:
            put_off = outgoing.c.not_before.is_not(None)
            conn.execute(update(outgoing).where(put_off).values(not_before=past))

    def logged(self, queue: str = LOG) -> list[str]:
        """Return the ids that the copies on a queue say, in their order."""
        lying = self.transport.broker.holds(queue)
        read = self.transport.codec.read
        return [read(each.raw).text(headers.LOGGED_ID) or "" for each in lying]

    def _emit(self, event: Event) -> None:
        self.told.tell(event)
        if event.name == OutgoingPublished.name:
            self.on_published()

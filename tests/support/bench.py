"""A bench for the processor: the real store and stages over a scripted transport.

bench = Bench(database)
ids = bench.fail(3)                 # three failed messages, stored
bench.ask_all()                     # a retry operation
bench.work()                        # turns until nothing is left to do
bench.restart()                     # the process died: connections, runs and lease are gone
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

from sqlalchemy import delete, select, update

from retrier.domain import headers
from retrier.domain.breakers import BreakerRules
from retrier.domain.retry_operation import (
    OPEN_STATES,
    CanaryState,
    Order,
    RetryRequest,
    RetryTerms,
    RetryType,
    Steered,
    SteeringRefusal,
)
from retrier.domain.selection import Selection
from retrier.errors import RetrierError
from retrier.events.event import Emit, Event, ignore
from retrier.policy.policy_set import WAITING, Judge
from retrier.processor.broker import Broker
from retrier.processor.lease import Lease
from retrier.processor.processor import Processor
from retrier.processor.progress import Progress
from retrier.processor.stage_context import BreakerWatch, RetryParameters, StageContext
from retrier.processor.staging_queue import get_probe_ready
from retrier.store.engine.database import Database
from retrier.store.lease import Holder
from retrier.store.operation_requests import CreatedOperation, create_operation, steer_operation
from retrier.store.recording import record_received
from retrier.store.schema import (
    error_queue_reads,
    failed_messages,
    retry_batch_now_forwarding,
    retry_batches,
    retry_operation_canaries,
    retry_operations,
)
from retrier.store.upkeep import get_installation_id
from tests.support.factories import ERROR_QUEUE, confirmation, failure, unique_id
from tests.support.frozen_clock import FrozenClock
from tests.support.scripted_transport import ScriptedTransport
from tests.support.stored import select_claims, select_messages
from tests.support.told import Told

STAGING = "retrier.staging"
QUEUE = "orders"
MOST_TURNS = 500
PLAIN = RetryTerms()
READER = "0f0f0f0f-0000-4000-8000-000000000001"


def is_gone(holder: Holder) -> bool:
    """Say that processes started here are dead, so that the next one takes over at once."""
    return holder.host == "here"


class Killed(BaseException):
    """The process dies here; nothing in it may catch this."""


class Bench:
    """One database, one scripted broker, and a processor that can be killed and started anew."""

    def __init__(
        self,
        db: Database,
        *,
        transport: ScriptedTransport | None = None,
        subscriber: Emit = ignore,
        judge: Judge = WAITING,
        **retries: Any,
    ) -> None:
        self.db = db
        self.subscriber = subscriber
        self.judge = judge
        self.clock = FrozenClock()
        self.told = Told(self.clock)
        self.transport = transport or ScriptedTransport()
        self.transport.on_idle = self.clock.advance
        for queue in (ERROR_QUEUE, QUEUE):
            self.transport.broker.declare(queue)
        self.crash_at: Callable[[str], None] = lambda _point: None
        self.per_second: int | None = None
        """How many automatic retries the policies allow a second."""
        self.reads_all = True
        """Whether the error queue counts as read to its end, as a canary needs it."""
        self.told_of_lease: Emit = ignore
        """Is told how long each transaction has held the lease."""
        self._retries = retries
        self.breaker_rules = BreakerRules()
        self.start()

    def start(self) -> None:
        """Start a process: it has a new session and holds no lease yet."""
        session = str(uuid4())
        retries = RetryParameters(
            staging_queue=STAGING,
            error_queues=(ERROR_QUEUE,),
            installation_id=get_installation_id(self.db),
            session_id=session,
            redeclare_pause=timedelta(0),
        )
        holder = Holder(session_id=session, host="here", pid=1, process_started=session)
        seconds = timedelta(seconds=15)
        lease = Lease(self.db, holder, seconds, self.clock, is_gone, self._tell_of_lease)
        retries = replace(retries, **self._retries)
        self.probe = partial(get_probe_ready, self.db, lease, self.transport, retries, self.emit)
        self.context = StageContext(
            db=self.db,
            broker=Broker(self.transport, STAGING, self.probe),
            lease=lease,
            clock=self.clock,
            retries=retries,
            emit=self.emit,
            stop=threading.Event(),
            progress=Progress(self.clock),
            breakers=BreakerWatch(lambda: self.breaker_rules),
            judge=self.judge,
            per_second=lambda: self.per_second,
        )
        self.wake = threading.Event()
        self.processor = Processor(self.context, self.wake)
        lease.acquire()

    def restart(self) -> None:
        """Let the process die and another one take over."""
        self.crash_at = lambda _point: None
        self.transport.drop_connections()
        self.start()

    def kill_at(self, point: str, *, time: int = 1) -> None:
        """Let the process die the n-th time it comes to this crash point."""

        def die() -> None:
            raise Killed(point)

        self.at(point, die, time=time)

    def at(self, point: str, act: Callable[[], object], *, time: int = 1) -> None:
        """Let something happen the n-th time the process comes to this crash point."""
        left = time

        def reach(reached: str) -> None:
            nonlocal left
            left -= reached == point
            if reached == point and left == 0:
                act()

        self.crash_at = reach

    def emit(self, event: Event) -> None:
        """Be told of an event: die there, or hand it on."""
        self.crash_at(event.name)
        self.told.tell(event)
        self.subscriber(event)

    def _tell_of_lease(self, event: Event) -> None:
        self.told_of_lease(event)

    def lose_lease(self) -> Lease:
        """Let another process become the processor, after this one stood still for a while."""
        session = str(uuid4())
        holder = Holder(session_id=session, host="there", pid=2, process_started=session)
        other = Lease(self.db, holder, timedelta(seconds=15), self.clock, is_gone)
        other.acquire()
        self.clock.advance(6)
        return other

    def fail(self, count: int = 1, **changes: Any) -> list[str]:
        """Store failed messages; return their unique message ids in order of failure."""
        failures = [failure(**{"queue": QUEUE, **changes}) for _ in range(count)]
        record_received(self.db, failures, instance="test", judge=self.judge)
        return [unique_id(each) for each in failures]

    def receive(self, *received: Any) -> None:
        """Let ingestion record something."""
        record_received(self.db, received, instance="test", judge=self.judge)

    def confirm(self, unique_message_id: str, **changes: Any) -> None:
        """Let a consumer confirm a retry."""
        self.receive(confirmation(unique_message_id, **changes))

    def ask_all(self, terms: RetryTerms = PLAIN, **parts: Any) -> CreatedOperation:
        """Ask for a retry of all unresolved messages that match."""
        return self._ask(RetryType.ALL, Selection(**parts), terms)

    def ask(self, ids: Sequence[str], terms: RetryTerms = PLAIN) -> CreatedOperation:
        """Ask for a retry of these messages."""
        one = len(ids) == 1
        kind = RetryType.SINGLE_MESSAGE if one else RetryType.MULTIPLE_MESSAGES
        return self._ask(kind, Selection(ids=tuple(ids)), terms)

    def steer(self, created: CreatedOperation, *orders: Order) -> Steered | SteeringRefusal:
        """Let a person pause, resume or cancel an operation, or set its rate."""
        return steer_operation(self.db, created.operation_id, orders, "ada")

    def work(self, turns: int = MOST_TURNS) -> int:
        """Take turns until nothing is left to do; errors are met as the loop meets them.

        Whatever waits waits no longer than one turn.
        """
        for turn in range(turns):
            pause = self.take_turn()
            if pause and not self._is_waiting():
                return turn
            if pause:
                self.clock.advance(pause)
                self.end_waits()
        return turns

    def take_turn(self) -> float:
        """Take one turn as the loop does; return how long it would wait, in seconds."""
        self._read_all()
        return self.processor._turn()  # noqa: SLF001 - one turn of the loop, without its thread

    def _read_all(self) -> None:
        """Be the process that reads the error queue: at any time it has read all there is."""
        waiting = retry_operation_canaries.c.state == CanaryState.WAITING
        if not self.reads_all or not self.rows(select(retry_operation_canaries).where(waiting)):
            return
        now = self.db.read(lambda tx: tx.now)
        process = {"session_id": READER, "host": "here", "pid": 1, "process_started": "now"}
        row = {**process, "queue": ERROR_QUEUE}
        times = {"seen_at": now, "level_at": now + timedelta(days=1)}
        with self.db.engine.begin() as conn:
            conn.execute(delete(error_queue_reads))
            conn.execute(error_queue_reads.insert(), {**row, **times})

    def turn(self) -> bool:
        """Take one turn and let its error through."""
        self._read_all()
        return self.processor.run_once()

    def end_waits(self) -> None:
        """Let the time pass that batches and operations wait, by the database's clock."""
        with self.db.engine.begin() as conn:
            conn.execute(update(retry_batches).values(not_before=None))
            conn.execute(update(retry_operations).values(next_cut=None))

    def stop(self) -> None:
        """Stop the process in good order, as a signal does."""
        self.context.stop.set()
        self.processor.run()

    def sent(self, queue: str = QUEUE) -> list[str]:
        """Return the unique message ids of what lies in a queue, in order."""
        codec = self.transport.codec
        lying = self.transport.broker.holds(queue)
        return [codec.read(each.raw).text(headers.UNIQUE_MESSAGE_ID) or "" for each in lying]

    def retry_id(self, unique_message_id: str) -> str | None:
        """Return the retry id the message was last sent with."""
        return str(self.message(unique_message_id)["last_retry_id"])

    def message(self, unique_message_id: str) -> dict[str, Any]:
        """Return the row of a failed message."""
        key = failed_messages.c.unique_message_id == unique_message_id
        return self.rows(select_messages().where(key))[0]

    def statuses(self) -> dict[str, str]:
        """Return the status of every message."""
        columns = failed_messages.c
        rows = self.rows(select(columns.unique_message_id, columns.status))
        return {row["unique_message_id"]: row["status"] for row in rows}

    def operation(self, created: CreatedOperation) -> dict[str, Any]:
        """Return the row of an operation."""
        key = retry_operations.c.operation_id == created.operation_id
        return self.rows(select(retry_operations).where(key))[0]

    def batches(self) -> list[dict[str, Any]]:
        """Return the rows of all batches alive."""
        return self.rows(select(retry_batches))

    def pointer(self) -> str | None:
        """Return the id of the batch that is forwarding."""
        rows = self.rows(select(retry_batch_now_forwarding))
        return str(rows[0]["batch_id"]) if rows else None

    def claims(self) -> dict[str, dict[str, Any]]:
        """Return the rows of all claims by message."""
        rows = self.rows(select_claims())
        return {row["unique_message_id"]: row for row in rows}

    def in_doubt(self) -> set[str]:
        """Return the messages that a crash at this moment may send twice."""
        claims = self.claims().items()
        return {key for key, row in claims if row["sending_since"] and not row["forwarded_at"]}

    def set_status(self, unique_message_id: str, status: str) -> None:
        """Change a message's status behind the processor's back."""
        key = failed_messages.c.unique_message_id == unique_message_id
        with self.db.engine.begin() as conn:
            conn.execute(update(failed_messages).where(key).values(status=status))

    def rows(self, query: Any) -> list[dict[str, Any]]:
        """Return rows as dictionaries; a look from outside, which no fault can meet."""
        with self.db.engine.begin() as conn:
            return [dict(row) for row in conn.execute(query).mappings()]

    def _ask(self, kind: RetryType, selection: Selection, terms: RetryTerms) -> CreatedOperation:
        request = RetryRequest(
            retry_type=kind,
            selection=selection,
            originator="a test",
            requested_by="ada",
            terms=terms,
        )
        return create_operation(self.db, request)

    def _is_waiting(self) -> bool:
        troubled = self.processor.reason is not None or not self.context.lease.held
        later = retry_operations.c.next_cut.is_not(None)
        is_open = retry_operations.c.state.in_(sorted(OPEN_STATES))
        put_off = self.rows(select(retry_operations.c.operation_id).where(later, is_open))
        return troubled or bool(self.batches()) or bool(put_off)


__all__ = ["QUEUE", "STAGING", "Bench", "Killed", "RetrierError"]

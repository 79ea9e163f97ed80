"""The embedded broker as a transport: queues in one file, used by several processes, no server."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from retrier.domain.text import count_messages
from retrier.domain.wire import (
    Confirmed,
    Delivery,
    Outcome,
    Outgoing,
    PropertyCodec,
    Refused,
    Returned,
    Unknown,
    UnreadableProperties,
)
from retrier.errors import BrokerUnavailable, ConfigurationError, StagingQueueUnusable
from retrier.overlap import WhileInFlight, nothing_else
from retrier.processes import describe_process
from retrier.transport.capabilities import MARKER, Capabilities
from retrier.transport.embedded.broker_file import (
    BUSY_TIMEOUT,
    SCHEMA,
    BrokerFile,
    CommitUnknown,
    HeldRow,
    HoldLost,
    Parcel,
    QueueGone,
    Tag,
    why_too_large,
)
from retrier.transport.embedded.properties import EnvelopePropertyCodec
from retrier.transport.embedded.queues_db import QueuesDb
from retrier.transport.seam import QueueLook, TrialReport, Unsettled
from retrier.transport.transports import TransportOptions

LEASE = 30.0
"""Seconds after which a holder that may be dead or alive loses its messages."""
SURE = 0.9
"""The part of a lease for which a holder relies on its last renewal."""
WATCH_EVERY = 0.25
FAREWELL = 1.0


class HolderRow:
    """A holder's row, and the thread that renews its lease, however long a handler takes."""

    def __init__(self, db: QueuesDb, lease: float = LEASE) -> None:
        """Add the holder's row; `lease` is in seconds. Raises BrokerUnavailable."""
        self._db = db
        self._lease = lease
        self._stop = Event()
        self._watched = float("-inf")
        self._kept_at = monotonic()
        self.id = db.enter(lease)
        Thread(target=self._keep_renewing, name="embedded broker lease", daemon=True).start()

    def take(self, name: str, limit: int, queue_id: int | None = None) -> list[HeldRow]:
        """Take up to `limit` messages off a queue, without waiting.

        With `queue_id`, a queue that was deleted and declared again counts as gone. Raises
        QueueGone, HoldLost, BrokerUnavailable.
        """
        self._watch()
        queue = self._db.look(name)
        if queue is None or queue_id not in (None, queue.id):
            raise QueueGone(f"the embedded broker {self._db.place}: queue {name!r} was deleted")
        if not queue.has_ready or queue.active not in (None, self.id):
            return []
        return self._db.claim(queue, self.id, limit)

    def step_down(self, name: str) -> None:
        """Let another consumer be the active one of a queue. Raises BrokerUnavailable."""
        queue = self._db.look(name)
        if queue is not None and queue.active == self.id:
            self._db.step_down(queue)

    @property
    def is_sure(self) -> bool:
        """Whether the lease cannot have run out yet; nobody is asked, so nothing is waited for."""
        return monotonic() - self._kept_at <= SURE * self._lease

    def is_kept(self) -> bool:
        """Renew the lease; False if another process has ended it. Raises BrokerUnavailable."""
        return self._renew(FAREWELL)

    def close(self) -> None:
        """Give everything back; never raises, and waits some seconds at most for other writers."""
        self._stop.set()
        # If this fails, the messages are ready again once the lease has run out.
        with suppress(BrokerUnavailable):
            self._db.leave(self.id, FAREWELL)

    def _watch(self) -> None:
        """Remove dead holders from time to time: only then is what they held ready again."""
        now = monotonic()
        if now - self._watched < WATCH_EVERY:
            return
        self._watched = now
        if self._db.anyone_gone():
            self._db.reap()

    def _keep_renewing(self) -> None:
        kept = True
        while kept and not self._stop.wait(self._lease / 3):
            with suppress(BrokerUnavailable):
                kept = self._renew(self._lease / 6)

    def _renew(self, timeout: float) -> bool:
        began = monotonic()
        kept = self._db.renew(self.id, timeout)
        if kept:
            self._kept_at = began
        return kept


CODEC = EnvelopePropertyCodec()

Open = Callable[[], QueuesDb]


class EmbeddedPublisher:
    """Stores messages in queues; after an error the next window opens the file again."""

    def __init__(self, open_db: Open) -> None:
        """Open the file. Raises BrokerUnavailable."""
        self._open = open_db
        self._db: QueuesDb | None = open_db()

    @property
    def awaited(self) -> Unsettled:
        """Nothing: a commit confirms at once, so no queue is ever waited for."""
        return Unsettled()

    def publish(
        self,
        messages: Iterable[Outgoing],
        waiting: Callable[[], None],
        while_in_flight: WhileInFlight = nothing_else,
    ) -> tuple[Outcome, ...]:
        """Store all that can be stored, in one transaction. See the seam for what is promised.

        An error before the commit raises BrokerUnavailable, and nothing is stored. An error of the
        commit itself makes the whole window Unknown.
        """
        window = list(messages)
        problems = [_why_refused(message) for message in window]
        parcels = [
            _parcel(message) for message, why in zip(window, problems, strict=True) if not why
        ]
        settled = iter(self._store(parcels, waiting))
        while while_in_flight():
            pass
        return tuple(Refused(why, unsendable=True) if why else next(settled) for why in problems)

    def keep_alive(self) -> None:
        """Do nothing: a file needs no heartbeats."""

    def close(self) -> None:
        """Close the file; never hangs, never raises."""
        db, self._db = self._db, None
        if db is not None:
            db.close()

    def _store(self, parcels: Sequence[Parcel], waiting: Callable[[], None]) -> list[Outcome]:
        if not parcels:
            return []
        db = self._db = self._db or self._open()
        try:
            found = db.put(parcels, waiting)
        except CommitUnknown as lost:
            self.close()
            return [Unknown(str(lost)) for _ in parcels]
        except BrokerUnavailable:
            self.close()
            raise
        return [
            Confirmed() if stored else Returned(f"it is not in {db.place}")
            for parcel, stored in zip(parcels, found, strict=True)
        ]


def _parcel(message: Outgoing) -> Parcel:
    return Parcel(
        queue=message.queue,
        exchange="",
        routing_key=message.queue,
        raw=message.raw,
        body=message.body,
    )


def _why_refused(message: Outgoing) -> str | None:
    """Return why a message cannot be stored, or could not be read afterwards; else None."""
    try:
        message.queue.encode()
        CODEC.canonical(message.raw)
    except UnicodeEncodeError as error:
        return f"the name of the queue is no text: {error}"
    except UnreadableProperties as error:
        return str(error)
    return why_too_large(message.raw, message.body)


FIRST_PAUSE = 0.01
LONGEST_PAUSE = 0.05


class Idling:
    """Waits that grow from 10 ms: a busy queue is read quickly, an idle one costs little."""

    def __init__(self, longest: float = LONGEST_PAUSE) -> None:
        """`longest` is the longest wait in seconds."""
        self._longest = longest
        self._next = min(FIRST_PAUSE, longest)
        self._never = Event()

    def wait(self, left: float | None) -> None:
        """Wait once, no longer than `left` seconds."""
        self._never.wait(self._next if left is None else min(self._next, left))
        self._next = min(2 * self._next, self._longest)


T = TypeVar("T")


class EmbeddedConsumer:
    """One holder on a file of its own; the first error closes it for good."""

    def __init__(self, db: QueuesDb, queue: str, prefetch: int, lease: float) -> None:
        """Consume an existing queue; `close` closes the file. Raises BrokerUnavailable."""
        self._db = db
        self._queue = queue
        self._prefetch = prefetch
        self._unsettled: set[Tag] = set()
        self._counted: set[Tag] = set()
        """The unsettled tags that count against the prefetch: handed out since it was set."""
        try:
            self._queue_id = self._find()
            self._hold: HolderRow | None = HolderRow(db, lease)
        except BrokerUnavailable:
            db.close()
            raise

    def receive(self, limit: int, timeout: float) -> list[Delivery]:
        """Return up to `limit` messages. Raises BrokerUnavailable. See the seam."""
        deadline = monotonic() + timeout
        idling = Idling()
        while True:
            deliveries = self._guarded(lambda hold: self._take(hold, limit))
            left = deadline - monotonic()
            if deliveries or left <= 0:
                return deliveries
            idling.wait(left)

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge these messages, in one transaction. Raises BrokerUnavailable."""
        self._settle(deliveries, self._db.forget)

    def surely_holds(self) -> bool:
        """See the seam."""
        return self._hold is not None and self._hold.is_sure

    def put_back(self, deliveries: Sequence[Delivery]) -> None:
        """Put these messages back in their places in the queue. Raises BrokerUnavailable."""
        self._settle(deliveries, self._db.give_back)

    def cease(self) -> list[Delivery]:
        """Return nothing: what was not received was not handed over. Raises BrokerUnavailable."""
        self._guarded(lambda _hold: None)
        return []

    def rest(self) -> bool:
        """Return False: opening the file again takes no time."""
        return False

    def resume(self, prefetch: int) -> None:
        """Allow this many unacknowledged messages from now on, besides those handed out already.

        Raises BrokerUnavailable.
        """
        self._guarded(lambda _hold: None)
        self._prefetch = prefetch
        self._counted.clear()

    def keep_alive(self) -> None:
        """Do nothing: a file needs no heartbeats."""

    def close(self) -> None:
        """Give everything back, close the file; never raises, waits some seconds at most."""
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.close()
        self._db.close()

    def _find(self) -> int:
        queue = self._db.look(self._queue)
        if queue is None:
            raise QueueGone(f"the embedded broker {self._db.place}: no queue {self._queue!r}")
        return queue.id

    def _take(self, hold: HolderRow, limit: int) -> list[Delivery]:
        room = min(limit, self._prefetch - len(self._counted))
        if room <= 0:
            return []
        taken = hold.take(self._queue, room, self._queue_id)
        self._unsettled.update(held.tag for held in taken)
        self._counted.update(held.tag for held in taken)
        return [
            Delivery(
                tag=held.tag,
                queue=self._queue,
                raw=held.raw,
                body=held.body,
                redelivered=held.redelivered,
            )
            for held in taken
        ]

    def _settle(
        self, deliveries: Sequence[Delivery], settle: Callable[[Sequence[Tag]], int]
    ) -> None:
        tags = [
            each.tag
            for each in deliveries
            if isinstance(each.tag, Tag) and each.tag in self._unsettled
        ]
        self._guarded(lambda hold: _settle_held(hold, tags, settle))
        self._unsettled.difference_update(tags)
        self._counted.difference_update(tags)

    def _guarded(self, act: Callable[[HolderRow], T]) -> T:
        if self._hold is None:
            raise BrokerUnavailable(f"the embedded broker {self._db.place}: the consumer is closed")
        try:
            return act(self._hold)
        except BrokerUnavailable:
            self.close()
            raise


def _settle_held(
    hold: HolderRow, tags: Sequence[Tag], settle: Callable[[Sequence[Tag]], int]
) -> None:
    # Fewer are settled if the queue was deleted, which is fine, or if the lease was lost: then
    # other consumers get the messages.
    if settle(tags) < len(tags) and not hold.is_kept():
        raise HoldLost("the lease on the messages ran out: others are handed them")


class EmbeddedQueues:
    """Looks at queues, and declares the ones Retrier owns; each call is one transaction or two."""

    def __init__(self, db: QueuesDb) -> None:
        self._db = db

    def look(self, queue: str) -> QueueLook | None:
        """See the seam; consumers are not counted."""
        ready = self.depth(queue)
        return None if ready is None else QueueLook(ready=ready, consumers=0)

    def depth(self, queue: str) -> int | None:
        """Return how many messages are ready, or None when there is no such queue."""
        return self._db.count_ready(queue)

    def exists(self, queue: str) -> bool:
        """Return whether there is such a queue; none belongs to one connection."""
        return self._db.look(queue) is not None

    def declare_error_queue(self, queue: str) -> bool:
        """Declare it if it is missing; return whether it was missing."""
        missing = self._db.look(queue) is None
        self._db.declare(queue, single_active=False)
        return missing

    def why_not_declarable(self, _queue: str) -> None:
        """Return None: all queues can be declared."""

    def declare_staging_queue(self, queue: str) -> None:
        """Make sure that it exists as ours. Raises StagingQueueUnusable. See the seam."""
        messages = self._db.declare_single_active(queue)
        if messages:
            raise StagingQueueUnusable(
                f"the queue {queue!r} in {self._db.place} is not ours and in use: it holds "
                f"{count_messages(messages)}. Empty and delete it, or give this instance another name."
            )

    def delivery_limit(self, _queue: str) -> None:
        """Return None: no message is dropped, however often it is redelivered."""

    def dead_letters(self, _queue: str) -> bool:
        """Return False: there are no dead-letter exchanges here."""
        return False

    def why_not_ingestible(self, _queue: str) -> None:
        """Return None: all queues can be ingested."""

    def purge(self, queue: str) -> int:
        """Drop every ready message; return how many."""
        purged = self._db.purge(queue)
        if purged is None:
            raise BrokerUnavailable(f"the embedded broker {self._db.place}: no queue {queue!r}")
        return purged

    def find_risks(self) -> tuple[str, ...]:
        """Return nothing: a commit is on disk."""
        return ()

    def delete(self, queue: str) -> None:
        """Delete the queue with all it holds; a missing one is fine."""
        self._db.delete(queue)

    def keep_alive(self) -> None:
        """Do nothing: a file needs no heartbeats."""

    def close(self) -> None:
        """Close the file; never hangs, never raises."""
        self._db.close()


SCHEME = "embedded"
NOWHERE = frozenset({None, "localhost"})
"""Hosts that a URL may name: Kombu fills `localhost` in where there is none."""


def parse_address(url: str) -> Path:
    """Read `embedded:///PATH`, percent-encoded: PATH is relative, or absolute with a fourth slash.

    Raises ConfigurationError.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() != SCHEME:
        raise ConfigurationError([f"broker.url must begin with {SCHEME}:///"])
    try:
        # Parsed as Kombu does it (kombu.utils.url), or two programs would use two files.
        parts = urlsplit(f"http://{rest}")
    except ValueError as error:
        raise ConfigurationError([f"broker.url is not a URL: {error}"]) from error
    if parts.query or parts.fragment:
        raise ConfigurationError(["broker.url must end after the path: no ? and no # in it"])
    return find_file(parts.hostname, unquote(parts.path[1:]))


def find_file(host: str | None, path: str | None) -> Path:
    """Return the absolute path of the file that these parts of a URL name.

    Raises ConfigurationError.
    """
    if host not in NOWHERE:
        raise ConfigurationError(
            [f"broker.url names the host {host!r}; a path begins after three slashes: {SCHEME}:///"]
        )
    # "/" is what Kombu fills in for a URL without a path.
    if not path or path.endswith("/"):
        raise ConfigurationError([f"broker.url must name a file: {SCHEME}:///PATH"])
    return Path(path).absolute()


CAPABILITIES = Capabilities(
    broker="Embedded",
    confirms=True,
    returns=True,
    existence=True,
    ordered=True,
    single_consumer=True,
    redelivers=True,
    exact=True,
    visibility=LEASE,
    in_file=True,
    nobody_declares=True,
    told={
        "confirms": "a commit that is synced to disk",
        "returns": "is not stored, and that is told",
        "existence": "a row of the file",
        "ordered": "yes",
        "single_consumer": "a column of the queue",
        "counting": MARKER,
        "exact": "all",
        "attributes": "any number",
        "size": "128 MiB",
        "visibility": f"stays its own while its process lives; of one that cannot be seen, {LEASE:g} s",
        "redelivers": "comes back at once, in its place",
        "durable": "kept: there is no server",
        "dedup": "arrives twice",
        "delay": "-",
    },
)


class EmbeddedTransport:
    """Makes publishers, consumers and looks at queues, each with its own connection to the file."""

    capabilities = CAPABILITIES
    codec: PropertyCodec = EnvelopePropertyCodec()
    user: str | None = None

    def __init__(
        self, url: str, *, lease: float = LEASE, busy_timeout: float = BUSY_TIMEOUT
    ) -> None:
        """Open nothing yet. Raises ConfigurationError.

        `lease`: for how many seconds a frozen consumer keeps its messages (those of a dead one are
        back at once). `busy_timeout`: how many seconds to wait for other processes that write.
        """
        self.path = parse_address(url)
        self.place = str(self.path)
        self._lease = lease
        self._busy_timeout = busy_timeout

    def publisher(self, probe: Outgoing | None = None) -> EmbeddedPublisher:  # noqa: ARG002 - no alarms here
        """Open a publisher. Raises BrokerUnavailable.

        The probe is not used: it finds alarms, and this broker has none.
        """
        return EmbeddedPublisher(self._open)

    def consumer(self, queue: str, prefetch: int) -> EmbeddedConsumer:
        """Open a consumer of an existing queue. Raises BrokerUnavailable."""
        return EmbeddedConsumer(self._open(), queue, prefetch, self._lease)

    def queues(self) -> EmbeddedQueues:
        """Open the file to look at queues. Raises BrokerUnavailable."""
        return EmbeddedQueues(self._open())

    def try_out(self, _staging_queue: str) -> TrialReport:
        """See the seam: there are no rights here but those of the file, which was opened."""
        self.queues().close()
        return TrialReport()

    def _open(self) -> QueuesDb:
        return open_queues_db(self.path, self._busy_timeout)


def open_queues_db(path: Path, busy_timeout: float = BUSY_TIMEOUT) -> QueuesDb:
    """Open the file, or create a missing one. Raises BrokerUnavailable."""
    return QueuesDb(BrokerFile(path, SCHEMA, busy_timeout), describe_process())


def make_transport(options: TransportOptions) -> EmbeddedTransport:
    """Return the transport; the settings allow only one URL here. Raises ConfigurationError."""
    return EmbeddedTransport(options.urls[0])

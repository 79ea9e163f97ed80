"""Redis as a transport: queues are Kombu's lists, in one database of a server."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import field
from typing import Any
from uuid import uuid4

from redis.exceptions import NoPermissionError, OutOfMemoryError, RedisError, ResponseError

from retrier.domain.text import count_messages
from retrier.domain.values import dataclass
from retrier.domain.wire import (
    Confirmed,
    Outcome,
    Outgoing,
    PropertyCodec,
    Refused,
    Returned,
    Unknown,
)
from retrier.errors import BrokerUnavailable, StagingQueueUnusable
from retrier.overlap import WhileInFlight, nothing_else
from retrier.transport.capabilities import MARKER, Capabilities
from retrier.transport.embedded.properties import EnvelopePropertyCodec
from retrier.transport.embedded.transport import Idling
from retrier.transport.payloads import why_no_payload
from retrier.transport.redis import scripts
from retrier.transport.redis.consumer import RedisConsumer, find_run, take_from_the_gone
from retrier.transport.redis.line import Address, Line
from retrier.transport.seam import QueueLook, TrialReport, Unsettled
from retrier.transport.transports import TransportOptions

CODEC = EnvelopePropertyCodec()
LEASE = 30.0
"""Seconds for which a consumer that may be dead or alive keeps what it has in hand."""
AT_ONCE = 200
MOST_BYTES = 16 * 1024 * 1024
"""The most messages, and bytes, that are pushed before the answers are read."""
LARGEST = 128 * 1024 * 1024
"""Bytes of a payload: Redis takes no value of more than 512 MB, and base64 adds a third."""
BETWEEN_TRIES = 1.0
"""Longest pause in seconds before a server that has no memory left is tried again."""
_OF_THE_MESSAGE = ("WRONGTYPE", "ERR ", "string exceeds", "Protocol error")
_NO_MEMORY = "Redis takes no writes: its memory is full (maxmemory)"
_NO_DISK = "Redis takes no writes: it cannot write to its disk"
_NO_REPLICAS = "Redis takes no writes: too few replicas follow it (min-replicas-to-write)"


class _Broke(Exception):
    """The connection broke behind the first push: what has no answer is in doubt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcelled:
    """A message on its way: its list and payload, and its place in the window."""

    place: int
    message: Outgoing
    key: str
    payload: bytes


class RedisPublisher:
    """Pushes messages, each by a script that looks whether its queue was made by anybody."""

    def __init__(self, address: Address) -> None:
        """Connect. Raises BrokerUnavailable."""
        self._address = address
        self._line: Line | None = Line(address)
        self._bindings: dict[str, tuple[str, str]] = {}
        """What is known to name a queue, beside its lists and our own set."""
        self._missing: set[str] = set()
        """Queues that were looked for in vain for this window: to look walks over all keys."""
        self._blocked_by = ""
        self._waits_for: frozenset[str] = frozenset()

    @property
    def awaited(self) -> Unsettled:
        """What a server that takes no writes has not taken yet; nothing else is waited for."""
        why = self._blocked_by
        return Unsettled(queues=self._waits_for, blocked=bool(why), why=why)

    def publish(
        self,
        messages: Iterable[Outgoing],
        waiting: Callable[[], None],
        while_in_flight: WhileInFlight = nothing_else,
    ) -> tuple[Outcome, ...]:
        """Push all. See the seam. After a lost connection what has no answer is Unknown.

        An empty window waits until the server takes writes.
        """
        window = list(messages)
        if not window:
            self._prove(waiting)
        self._missing.clear()
        problems = {place: why for place, each in enumerate(window) if (why := _why_refused(each))}
        outcomes: dict[int, Outcome] = {
            place: Refused(why, unsendable=True) for place, why in problems.items()
        }
        good = [place for place in range(len(window)) if place not in problems]
        if good:
            self._push_all([(place, window[place]) for place in good], outcomes, waiting)
        while while_in_flight():
            pass
        return tuple(outcomes[place] for place in range(len(window)))

    def keep_alive(self) -> None:
        """Do nothing: a connection that has broken is noticed before the next window."""

    def close(self) -> None:
        """Close the connection; never hangs, never raises."""
        line, self._line = self._line, None
        if line is not None:
            line.close()

    def _prove(self, waiting: Callable[[], None]) -> None:
        line = self._line = self._line or Line(self._address)
        idling = Idling(BETWEEN_TRIES)
        try:
            while why := self._find_block(line):
                self._blocked_by = why
                waiting()
                idling.wait(None)
        except BrokerUnavailable:
            self._line = None
            raise
        finally:
            self._blocked_by = ""

    def _find_block(self, line: Line) -> str | None:
        """Return why the server takes no writes; None if it does. Raises BrokerUnavailable."""
        try:
            line.client.eval(scripts.PROVE, 1, line.key("probe", uuid4().hex))
        except (RedisError, OSError) as error:
            return _why_blocked(error) or line.fail(error)
        return None

    def _push_all(
        self,
        window: Sequence[tuple[int, Outgoing]],
        outcomes: dict[int, Outcome],
        waiting: Callable[[], None],
    ) -> None:
        line = self._line = self._line or Line(self._address)
        try:
            # What fails here has sent nothing; a failure below leaves messages in doubt.
            line.command("PING")
        except BrokerUnavailable:
            self._line = None
            raise
        published = line.publish([message for _, message in window])
        parcels = [
            Parcelled(place=place, message=message, key=key, payload=payload)
            for (place, _), (message, key, payload) in zip(window, published, strict=True)
        ]
        try:
            for some in _in_portions(parcels):
                self._push(line, some, outcomes, waiting)
                waiting()
        except _Broke as broke:
            self._line = None
            lost = Unknown(str(broke))
            outcomes.update({each.place: lost for each in parcels if each.place not in outcomes})

    def _push(
        self,
        line: Line,
        parcels: Sequence[Parcelled],
        outcomes: dict[int, Outcome],
        waiting: Callable[[], None],
    ) -> None:
        """Push until each has an outcome. Raises _Broke, and what `waiting` raises."""
        idling = Idling(BETWEEN_TRIES)
        left = list(parcels)
        try:
            while left:
                try:
                    left = self._push_once(line, left, outcomes)
                except BrokerUnavailable as error:
                    raise _Broke(str(error)) from error
                self._blocked_by = self._blocked_by if left else ""
                self._waits_for = frozenset(each.message.queue for each in left)
                if left:
                    waiting()
                    idling.wait(None)
        finally:
            self._blocked_by, self._waits_for = "", frozenset()

    def _push_once(
        self, line: Line, parcels: Sequence[Parcelled], outcomes: dict[int, Outcome]
    ) -> list[Parcelled]:
        """Push each once; return those that the server takes later. Raises BrokerUnavailable."""
        later = []
        for each, answer in zip(parcels, self._ask(line, parcels), strict=True):
            if (why := _why_blocked(answer)) is not None:
                self._blocked_by = why
                later.append(each)
            else:
                outcomes[each.place] = self._judge(line, each, answer)
        return later

    def _judge(self, line: Line, parcel: Parcelled, answer: object) -> Outcome:
        queue = parcel.message.queue
        if answer == 0 and queue not in self._missing:
            # Perhaps another exchange than usual names it.
            found = line.find_binding(queue)
            if found is None:
                self._missing.add(queue)
            else:
                self._bindings[queue] = found
                (answer,) = self._ask(line, [parcel])
        if isinstance(answer, ResponseError):
            if not _is_of_the_message(answer):
                line.fail(answer)
            return Refused(str(answer))
        return Confirmed() if answer == 1 else Returned(f"nobody has made it at {line.place}")

    def _ask(self, line: Line, parcels: Sequence[Parcelled]) -> list[object]:
        """Push each once, all in one go; return the answers. Raises BrokerUnavailable."""
        pipe = line.client.pipeline(transaction=False)
        for each in parcels:
            queue = each.message.queue
            binding, member = self._bindings.get(queue) or line.guess_binding(queue)
            keys = [each.key, line.known, binding, *line.lists(queue)]
            pipe.eval(scripts.PUSH, len(keys), *keys, queue, member, each.payload)
        try:
            return list(pipe.execute(raise_on_error=False))
        except (RedisError, OSError) as error:
            line.fail(error)


def _in_portions(parcels: Sequence[Parcelled]) -> Iterator[Sequence[Parcelled]]:
    some: list[Parcelled] = []
    size = 0
    for each in parcels:
        if some and (len(some) == AT_ONCE or size + len(each.payload) > MOST_BYTES):
            yield some
            some, size = [], 0
        some.append(each)
        size += len(each.payload)
    yield some


def _why_blocked(answer: object) -> str | None:
    """Return why a server takes no writes for now, whatever the message; None if it is not that."""
    if isinstance(answer, OutOfMemoryError):
        return _NO_MEMORY
    if isinstance(answer, ResponseError):
        begins = {"OOM ": _NO_MEMORY, "MISCONF": _NO_DISK, "NOREPLICAS": _NO_REPLICAS}
        return next((why for text, why in begins.items() if str(answer).startswith(text)), None)
    return None


def _is_of_the_message(answer: ResponseError) -> bool:
    """Say whether an error is about this message or its queue, and not about the server.

    A server that has become a replica, or is busy with a script, refuses whatever it is given, and
    one that forbids us a command forbids it for each message.
    """
    if isinstance(answer, NoPermissionError):
        return "keys" in str(answer)
    return str(answer).startswith(_OF_THE_MESSAGE)


def _why_refused(message: Outgoing) -> str | None:
    """Return why a message cannot be pushed; else None."""
    try:
        message.queue.encode()
    except UnicodeEncodeError as error:
        return f"the name of the queue is no text: {error}"
    size = len(message.raw) + len(message.body)
    if size > LARGEST:
        return f"it has {size:,} bytes, and Redis takes {LARGEST:,}"
    return why_no_payload(message.raw)


class RedisQueues:
    """Looks at queues, and declares the ones Retrier owns."""

    def __init__(self, line: Line, memory: "ServerMemory") -> None:
        self._line = line
        self._memory = memory

    def look(self, queue: str) -> QueueLook | None:
        """See the seam; consumers are not counted: Redis knows of none."""
        ready = self.depth(queue)
        return None if ready is None else QueueLook(ready=ready, consumers=0)

    def depth(self, queue: str) -> int | None:
        """Return how many messages are ready, or None when nobody has made the queue.

        Ready is also what a process had in hand that is gone by now.
        """
        line = self._line
        take_from_the_gone(line, queue)
        count, known = line.ask(scripts.COUNT, [line.known, *line.lists(queue)], [queue])
        is_there = count or known or line.find_binding(queue) is not None
        return int(count) if is_there else None

    def exists(self, queue: str) -> bool:
        """Return whether anybody has made the queue."""
        return self.depth(queue) is not None

    def declare_error_queue(self, queue: str) -> bool:
        """Declare it if it is missing; return whether it was missing."""
        missing = not self.exists(queue)
        self._line.declare(queue)
        return missing

    def why_not_declarable(self, _queue: str) -> None:
        """Return None: all queues can be declared."""

    def declare_staging_queue(self, queue: str) -> None:
        """Make sure that it exists as ours. Raises StagingQueueUnusable. See the seam."""
        line = self._line
        keys = [line.staging, *line.lists(queue)]
        messages = line.ask(scripts.DECLARE_STAGING, keys, [queue])
        if messages:
            raise StagingQueueUnusable(
                f"the queue {queue!r} at {line.place} is not ours and in use: it holds "
                f"{count_messages(messages)}. Empty and delete it, or give this instance another name."
            )
        line.declare(queue)

    def delivery_limit(self, _queue: str) -> None:
        """Return None: no message is dropped, however often it is redelivered."""

    def dead_letters(self, _queue: str) -> bool:
        """Return False: there are no dead-letter exchanges here."""
        return False

    def why_not_ingestible(self, _queue: str) -> None:
        """Return None: all queues can be ingested."""

    def purge(self, queue: str) -> int:
        """Drop every ready message; return how many."""
        return int(self._line.ask(scripts.PURGE, self._line.lists(queue)))

    def delete(self, queue: str) -> None:
        """Delete the queue with all it holds, and what consumers have in hand of it."""
        line = self._line
        keys = [line.key("leases", queue), line.key("active", queue), line.known]
        keys += line.lists(queue)
        line.ask(scripts.DELETE, keys, [queue, line.key("held", f"{queue}.")])
        while (binding := line.find_binding(queue)) is not None:
            line.command("SREM", *binding)

    def find_risks(self) -> tuple[str, ...]:
        """Return why this server may lose what it holds, or has lost some; a sentence each."""
        return self._memory.look(self._line)

    def keep_alive(self) -> None:
        """Do nothing: it is asked in one go."""

    def close(self) -> None:
        """Close the connection; never hangs, never raises."""
        self._line.close()


@dataclass(slots=True)
class ServerMemory:
    """What was seen of the server since this process began: that it forgot something, above all."""

    run: str = ""
    evicted: int = 0
    lost: list[str] = field(default_factory=list)

    def look(self, line: Line) -> tuple[str, ...]:
        """Return what may be lost at this server, and what was. Raises BrokerUnavailable."""
        about = line.find_out("INFO")
        if not isinstance(about, dict):
            return ("it does not say whether it keeps messages: INFO is forbidden",)
        risks = tuple(_find_risks(line, about))
        run, evicted = find_run(line), int(about.get("evicted_keys", 0))
        if self.run and run != self.run:
            self.evicted = 0
            if not about.get("aof_enabled"):
                self._note("it was started again without AOF: what it had not saved is gone")
        if evicted > self.evicted and self.run:
            self._note("it has evicted keys, and messages may be among them")
        self.run, self.evicted = run, evicted
        return (*risks, *self.lost)

    def _note(self, what: str) -> None:
        if what not in self.lost:
            self.lost.append(what)


def _find_risks(line: Line, about: Mapping[str, Any]) -> Iterator[str]:
    limit, policy = int(about.get("maxmemory", 0)), str(about.get("maxmemory_policy", ""))
    if limit and policy == "noeviction" and int(about.get("used_memory", 0)) >= limit:
        yield _NO_MEMORY
    broken_save = about.get("rdb_last_bgsave_status") == "err" and (
        _read_config(line, "stop-writes-on-bgsave-error") == "yes" and _read_config(line, "save")
    )
    if broken_save or about.get("aof_last_write_status") == "err":
        yield _NO_DISK
    if not about.get("aof_enabled"):
        yield "AOF is off (appendonly no): a restart loses what was not saved"
    elif (fsync := _read_config(line, "appendfsync")) not in ("always", ""):
        yield f"appendfsync is {fsync}: a crash of its machine loses up to a second or more"
    if policy and policy != "noeviction":
        when = "when its memory is full" if limit else "if maxmemory is ever set"
        yield f"maxmemory-policy is {policy}, and not noeviction: it drops messages {when}"


def _read_config(line: Line, name: str) -> str:
    """Return a parameter of the server; empty if it does not say."""
    found = line.find_out("CONFIG GET", name)
    return str(found.get(name, "")) if isinstance(found, dict) else ""


CAPABILITIES = Capabilities(
    broker="Redis",
    confirms=True,
    returns=True,
    existence=True,
    ordered=True,
    single_consumer=True,
    redelivers=True,
    exact=True,
    visibility=LEASE,
    nobody_declares=True,
    made_by_use=True,
    told={
        "confirms": "the answer of the server, which has it in memory: `check` says whether on disk",
        "returns": "is not pushed, and that is told",
        "existence": "a list, a binding of Kombu's, or Retrier's own set of queues",
        "ordered": "within a priority",
        "single_consumer": "a key that the holder of a lease has",
        "counting": MARKER,
        "exact": "all; JSON is written anew",
        "attributes": "any number",
        "size": "128 MiB",
        "visibility": f"stays its own while it is connected and renews its lease of {LEASE:g} s",
        "redelivers": "comes back within a second, in its place",
        "durable": "what the server kept: AOF",
        "dedup": "arrives twice",
        "delay": "-",
    },
)


class RedisTransport:
    """Makes publishers, consumers and looks at queues, each with its own connection."""

    capabilities = CAPABILITIES
    codec: PropertyCodec = CODEC
    user: str | None = None

    def __init__(self, address: Address, *, lease: float = LEASE) -> None:
        """Connect to nothing yet. `lease`: seconds for which a frozen consumer keeps its messages."""
        self.address = address
        self._lease = lease
        self._memory = ServerMemory()
        self.place = address.place

    def publisher(self, probe: Outgoing | None = None) -> RedisPublisher:  # noqa: ARG002 - see below
        """Connect a publisher. Raises BrokerUnavailable.

        The probe is not used: a server without memory refuses a message, and leaves no doubt.
        """
        return RedisPublisher(self.address)

    def consumer(self, queue: str, prefetch: int) -> RedisConsumer:
        """Connect a consumer of a queue that exists. Raises BrokerUnavailable."""
        line = Line(self.address)
        if RedisQueues(line, self._memory).depth(queue) is None:
            line.close()
            raise BrokerUnavailable(f"the broker at {line.place}: nobody has made {queue!r}")
        # Known from now on: while all of its messages are in hand there is no list of it.
        line.declare(queue)
        return RedisConsumer(line, queue, prefetch, self._lease)

    def queues(self) -> RedisQueues:
        """Connect to look at queues. Raises BrokerUnavailable."""
        return RedisQueues(Line(self.address), self._memory)

    def try_out(self, staging_queue: str) -> TrialReport:
        """Declare, fill, read and delete a queue that nobody else has, and look what may be lost.

        Raises BrokerUnavailable, also while the server takes no message.
        """
        queue = f"{staging_queue}.check.{uuid4().hex[:12]}"
        with (
            closing(self.queues()) as queues,
            closing(self.publisher()) as publisher,
        ):
            queues.declare_error_queue(queue)
            try:
                self._use(queue, publisher)
            finally:
                queues.delete(queue)
            return TrialReport(risks=queues.find_risks())

    def _use(self, queue: str, publisher: RedisPublisher) -> None:
        def give_up() -> None:
            if publisher.awaited.blocked:
                raise BrokerUnavailable(f"the broker at {self.place}: {publisher.awaited.why}")

        publisher.publish([Outgoing(queue=queue, raw=CODEC.empty, body=b"")], give_up)
        with closing(self.consumer(queue, 1)) as consumer:
            consumer.ack(consumer.receive(1, 0))


def make_transport(options: TransportOptions) -> RedisTransport:
    """Return the transport; the settings allow only one URL here. Raises ConfigurationError."""
    given = dict(options.kombu)
    lease = float(str(given.pop("visibility_timeout", LEASE)))
    return RedisTransport(Address(url=options.urls[0], options=given, tls=options.tls), lease=lease)

"""Takes messages off a queue in Redis: what is in hand is stored there, under a lease that is renewed."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from threading import Event, Thread
from time import monotonic
from typing import Any

from redis.exceptions import RedisError

from retrier.domain.wire import Delivery
from retrier.errors import BrokerUnavailable
from retrier.transport.embedded.transport import Idling
from retrier.transport.payloads import mark_redelivered, read_payload
from retrier.transport.redis import scripts
from retrier.transport.redis.line import Line, UntypedConsumer, UntypedQueue, make_client

SURE = 0.9
"""The part of a lease for which a holder relies on its last renewal."""
WATCH_EVERY = 1.0
"""Seconds between two looks for holders that are gone."""
AT_ONCE = 1000
"""Messages that one script settles: Lua has no room for many more arguments."""
MOST_BYTES = 32 * 1024 * 1024
"""Bytes of payload after which one take ends: the server keeps all of the answer in its memory."""

Field = str


class Holder:
    """A name among the holders of a queue, and the thread that renews its lease.

    The name has the server's run and the number of our connection: another process sees at once
    when a connection is gone, which a killed process leaves. Without the right to list connections
    it waits for the lease.
    """

    def __init__(self, line: Line, queue: str, lease: float) -> None:
        """Enter; `lease` is in seconds. Raises BrokerUnavailable."""
        self._line = line
        self._queue = queue
        self._lease = lease
        self._stop = Event()
        self._watched = float("-inf")
        self.kept_at = monotonic()
        self.leases = line.key("leases", queue)
        self.active = line.key("active", queue)
        self.name = f"{uuid.uuid4().hex}/{find_run(line)}/{line.find_out('CLIENT ID') or ''}"
        self.held = line.key("held", f"{queue}.{self.name}")
        line.ask(scripts.ENTER, [self.leases], [self.name, self._lease_ms])
        Thread(target=self._keep_renewing, name=f"redis lease {queue}", daemon=True).start()

    @property
    def _lease_ms(self) -> int:
        return int(1000 * self._lease)

    @property
    def is_sure(self) -> bool:
        """Whether the lease cannot have run out yet; nobody is asked, so nothing is waited for."""
        return monotonic() - self.kept_at <= SURE * self._lease

    def watch(self) -> None:
        """Give back what holders that are gone had in hand, from time to time.

        Raises BrokerUnavailable.
        """
        if monotonic() - self._watched >= WATCH_EVERY:
            self._watched = monotonic()
            take_from_the_gone(self._line, self._queue, besides=self.name)

    def end(self) -> None:
        """Give everything back and leave. Raises BrokerUnavailable."""
        self._stop.set()
        give_all_back(self._line, self._queue, self.name)

    def stop(self) -> None:
        """Renew no more."""
        self._stop.set()

    def _keep_renewing(self) -> None:
        client = make_client(self._line.channel)
        kept = True
        while kept and not self._stop.wait(self._lease / 3):
            began = monotonic()
            with suppress(RedisError, OSError):
                kept = bool(client.eval(scripts.RENEW, 1, self.leases, self.name, self._lease_ms))
                if kept:
                    self.kept_at = began


def take_from_the_gone(line: Line, queue: str, *, besides: str = "") -> None:
    """Give back what holders that are gone had in hand. Raises BrokerUnavailable."""
    now, found = line.ask(scripts.FIND_OTHERS, [line.key("leases", queue)])
    ends = dict(zip(found[::2], found[1::2], strict=True))
    others = {name.decode(): float(end) for name, end in ends.items()}
    others.pop(besides, None)
    if not others:
        return
    gone = _find_unconnected(line, list(others))
    for name, end in others.items():
        if end < float(now) or name in gone:
            give_all_back(line, queue, name, end=end)


def _find_unconnected(line: Line, names: Sequence[str]) -> set[str]:
    """Return the holders whose connections are gone for sure.

    A server that does not list our own connection says nothing: a proxy stands in between.
    """
    run, mine = find_run(line), line.find_out("CLIENT ID")
    if not run or mine is None:
        return set()
    numbers = {name: name.split("/")[1:] for name in names}
    asked = [number for of, number in numbers.values() if of == run and number]
    listed = line.find_out("CLIENT LIST", "ID", *asked, mine)
    if listed is None:
        return set()
    alive = {str(each["id"]) for each in listed}
    if str(mine) not in alive:
        return set()
    # A server that was started again has no connection of its earlier run.
    return {
        name for name, (of, number) in numbers.items() if of and (of != run or number not in alive)
    }


def find_run(line: Line) -> str:
    """Return what names this run of the server; empty if it does not say. Raises BrokerUnavailable."""
    about = line.find_out("INFO", "server")
    return str(about.get("run_id", "")) if isinstance(about, dict) else ""


def give_all_back(line: Line, queue: str, holder: str, *, end: float | None = None) -> None:
    """Put what a holder has in hand back where it was, marked, and forget the holder.

    `end`: of its lease as it was seen; a holder that has renewed it since keeps all. None for
    ourselves. Raises BrokerUnavailable.
    """
    held = line.key("held", f"{queue}.{holder}")
    in_hand: dict[bytes, bytes] = line.command("HGETALL", held)
    latest_first = sorted(in_hand, key=_number, reverse=True)
    put_back(
        line,
        queue,
        holder,
        [(field.decode(), mark_redelivered(in_hand[field])) for field in latest_first],
        end=end,
        ends=True,
    )


def put_back(
    line: Line,
    queue: str,
    holder: str,
    payloads: Sequence[tuple[Field, bytes]],
    *,
    end: float | None = None,
    ends: bool = False,
) -> None:
    """Put payloads back into their lists, the last first. Raises BrokerUnavailable."""
    keys = [line.key("leases", queue), line.key("held", f"{queue}.{holder}")]
    keys += [line.key("active", queue), *line.lists(queue)]
    arguments = [holder, "" if end is None else repr(end), "1" if ends else "0"]
    for some in _in_portions(payloads) if payloads else [()]:
        triples = [part for field, payload in some for part in (field, _place(field), payload)]
        line.ask(scripts.GIVE_BACK, keys, [*arguments, *triples])


def _in_portions(all_of: Sequence[tuple[Field, bytes]]) -> Iterator[Sequence[tuple[Field, bytes]]]:
    return (all_of[start : start + AT_ONCE] for start in range(0, len(all_of), AT_ONCE))


def _number(field: bytes) -> int:
    return int(field.partition(b":")[0])


def _place(field: Field) -> str:
    return field.partition(":")[2]


class RedisConsumer:
    """A holder on a connection of its own; the first error closes it for good."""

    def __init__(self, line: Line, queue: str, prefetch: int, lease: float) -> None:
        """Consume a queue that exists; `close` closes the line. Raises BrokerUnavailable."""
        self._line = line
        self._queue = queue
        self._prefetch = prefetch
        self._in_hand: dict[Field, bytes] = {}
        self._counted: set[Field] = set()
        """What counts against the prefetch: handed out since it was set."""
        self._next = 0
        self._inbox: list[Any] = []
        self._keys = [line.key("leases", queue)]
        self._holder: Holder | None = Holder(line, queue, lease)
        self._keys = [self._holder.leases, self._holder.held]
        self._consumer = UntypedConsumer(
            line.channel,
            [UntypedQueue(queue)],
            on_message=self._inbox.append,
            auto_declare=False,
        )
        self._consumer.consume()

    def receive(self, limit: int, timeout: float) -> list[Delivery]:
        """Return up to `limit` messages. Raises BrokerUnavailable. See the seam."""
        deadline = monotonic() + timeout
        idling = Idling()
        while True:
            found = self._take(limit)
            left = deadline - monotonic()
            if found or left <= 0:
                return found
            idling.wait(left)

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge these messages. Raises BrokerUnavailable."""
        holder = self._hold()
        fields = [str(each.tag) for each in deliveries if each.tag in self._in_hand]
        for start in range(0, len(fields), AT_ONCE):
            some = fields[start : start + AT_ONCE]
            self._ask(scripts.SETTLE, self._keys, [holder.name, *some])
            self._forget(some)

    def surely_holds(self) -> bool:
        """See the seam."""
        return self._holder is not None and self._holder.is_sure

    def put_back(self, deliveries: Sequence[Delivery]) -> None:
        """Put these messages back in their places in the queue. Raises BrokerUnavailable."""
        holder = self._hold()
        fields = [str(each.tag) for each in deliveries if each.tag in self._in_hand]
        fields.sort(key=lambda field: _number(field.encode()), reverse=True)
        marked = [(field, mark_redelivered(self._in_hand[field])) for field in fields]
        try:
            put_back(self._line, self._queue, holder.name, marked)
        except BrokerUnavailable:
            self.close()
            raise
        self._forget(fields)

    def cease(self) -> list[Delivery]:
        """Return nothing: what was not received was not handed over. Raises BrokerUnavailable."""
        self._hold()
        return []

    def rest(self) -> bool:
        """Return False: to connect again takes no time."""
        return False

    def resume(self, prefetch: int) -> None:
        """Allow this many unacknowledged messages from now on, besides those handed out already.

        Raises BrokerUnavailable.
        """
        self._hold()
        self._prefetch = prefetch
        self._counted.clear()

    def keep_alive(self) -> None:
        """Do nothing: the thread of the lease does it."""

    def close(self) -> None:
        """Give everything back; never raises. What cannot be given back now is so by the next holder."""
        holder, self._holder = self._holder, None
        if holder is None:
            return
        holder.stop()
        with suppress(BrokerUnavailable):
            holder.end()
        self._line.close()

    def _take(self, limit: int) -> list[Delivery]:
        holder = self._hold()
        room = min(limit, self._prefetch - len(self._counted))
        try:
            holder.watch()
        except BrokerUnavailable:
            self.close()
            raise
        if room <= 0:
            return []
        keys = [*self._keys, holder.active, self._line.staging, *self._line.lists(self._queue)]
        arguments = [holder.name, room, self._next, self._queue, MOST_BYTES]
        taken = self._ask(scripts.TAKE, keys, arguments)
        for field, payload in zip(taken[::2], taken[1::2], strict=True):
            name = field.decode()
            self._in_hand[name] = payload
            self._line.channel.connection._deliver((name, payload), self._queue)  # noqa: SLF001 - as Kombu's channels do
        self._next += len(taken) // 2
        deliveries = [self._read(message) for message in self._inbox]
        self._inbox.clear()
        self._counted.update(str(each.tag) for each in deliveries)
        return deliveries

    def _read(self, message: Any) -> Delivery:
        parcel = read_payload(message.body)
        return Delivery(
            tag=message.delivery_tag,
            queue=self._queue,
            raw=parcel.raw,
            body=parcel.body,
            redelivered=parcel.redelivered,
            routing_key=parcel.routing_key,
        )

    def _forget(self, fields: Sequence[Field]) -> None:
        for field in fields:
            self._in_hand.pop(field, None)
            self._line.channel.qos.ack(field)
        self._counted.difference_update(fields)

    def _hold(self) -> Holder:
        if self._holder is None:
            raise BrokerUnavailable(f"the broker at {self._line.place}: the consumer is closed")
        return self._holder

    def _ask(self, script: str, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        """Run a script; any error closes the consumer."""
        try:
            return self._line.ask(script, keys, arguments)
        except BrokerUnavailable:
            self.close()
            raise

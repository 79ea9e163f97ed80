"""What a worker makes of a message that arrives: how often it was started before, and if it may be again.

A broker counts, at the most, how often a message came back. Whether its handler was started is looked up
in what the processes of this machine have noted (`starts`). What they do not know of:

- It may have been on its way to a process of this machine that may have several messages in hand, and died.
  Where there are such processes, or were, the first times are forgiven, as `FORGIVEN` says.
- Else it was in the hands of another machine, and each time is taken as a start. How many messages are in
  hand there is not known: where it is one, the same copy is started again and again in its place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from retrier.clock import Clock
from retrier.domain import headers
from retrier.domain.dialects.dialect import count
from retrier.domain.wire import PropertyCodec
from retrier.worker.copies import find_id
from retrier.worker.hand import Held
from retrier.worker.handlers import Handler
from retrier.worker.line import Line, Received
from retrier.worker.options import Options
from retrier.worker.outcomes import Broken, Problem, Reason
from retrier.worker.starts import MOST_RETURNS, Keys, Starts, Trace

DELIVERY_COUNT = "x-delivery-count"
"""Written by a quorum queue: how often the message came back to it."""
FORGIVEN = 5
"""So often a message may come back without anybody knowing whether it was started; then it counts."""
MOST_UNSTARTED = 5
"""So often it may come back unstarted before a copy takes its place: the broker has a limit of its own."""
EARLY_FOR = 0.5
"""Seconds for which a message stays in hand that is tried again later; then others have their turn."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How often a message was started and did not finish; how often it came back, and why is unknown."""

    crashes: int = 0
    returns: int = 0


@dataclass(frozen=True, slots=True)
class Startable:
    """The handler may be started."""


@dataclass(frozen=True, slots=True)
class Uncounted:
    """The counts are to be written down first: the message is published anew with them."""


@dataclass(frozen=True, slots=True)
class Poison:
    """The handler was started as often as may be, and each time the process died."""


_NOTHING, _STARTABLE = Counts(), Startable()
Verdict = Startable | Uncounted | Poison
Arrived = Startable | Uncounted | Broken


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What has to be known of worker and queue to judge a message that came back.

    `alone`: never is more than one message in hand. `counted`: the queue counts how often a message
    comes back. `may_be_unseen`: a process of this machine that may have several in hand handles the same
    queue, or did, and died perhaps before it saw the message.
    """

    alone: bool
    counted: bool
    may_be_unseen: bool = False
    limit: int


def judge_delivery(known: Counts, traces: Sequence[Trace], site: Site) -> tuple[Counts, Verdict]:
    """Return the counts of a message, and what to do with it.

    `known` is what it says itself. `traces` has one for each time that it came back since.
    """
    found = _count_returns(known, traces, site)
    if found.crashes > site.limit:
        return found, Poison()
    if site.alone and site.counted:
        return found, Startable()  # the queue keeps count, and the message keeps its place
    if found != known or len(traces) > MOST_UNSTARTED:
        return found, Uncounted()
    return found, Startable()


def _count_returns(known: Counts, traces: Sequence[Trace], site: Site) -> Counts:
    # One copy may have been started several times: a worker with one message in hand leaves it in its
    # place, whatever workers beside it do.
    crashes = known.crashes + traces.count(Trace.STARTED)
    unknown = traces.count(Trace.UNKNOWN)
    if not site.may_be_unseen:
        return Counts(crashes + unknown, known.returns)
    returns = known.returns + unknown
    return Counts(crashes + max(0, returns - FORGIVEN), min(returns, FORGIVEN))


class Arrivals:
    """Reads the properties of messages, and judges how often they ended a process."""

    def __init__(
        self,
        options: Options,
        handlers: Mapping[str, Handler],
        codec: PropertyCodec,
        clock: Clock,
        starts: Starts,
    ) -> None:
        self._options = options
        self._handlers = handlers
        self._codec = codec
        self._clock = clock
        self._starts = starts
        self._keys = Keys(options.urls)
        self._is_alone = options.prefetch * len(handlers) == 1

    def take_in(self, line: Line, received: Received) -> tuple[Held, Arrived]:
        """Return the message, and what is to be done with it."""
        queue, source, delivery = received
        properties, unreadable = self._codec.read_what_can_be(delivery.raw)
        told = properties.headers
        known = _NOTHING
        if headers.WORKER_CRASHES in told or headers.WORKER_RETURNS in told:
            crashes = count(told.get(headers.WORKER_CRASHES)) or 0
            known = Counts(crashes, count(told.get(headers.WORKER_RETURNS)) or 0)
        held = Held(
            source=source,
            handler=self._handlers[queue],
            delivery=delivery,
            properties=properties,
            crashes=known.crashes,
            returns=known.returns,
            retry_id=properties.text(headers.RETRY_ID),
        )
        is_counted = queue in line.counted
        came_back = count(told.get(DELIVERY_COUNT)) or 0 if delivery.redelivered else 0
        if not is_counted:
            came_back = int(delivery.redelivered)
        arrived: Arrived = _STARTABLE
        if came_back or known != _NOTHING:
            arrived = self._judge(held, known, came_back, is_counted=is_counted)
        held.place = self._starts.receive(self._key(held, known, came_back if is_counted else 0))
        if headers.WORKER_TIMEOUTS in told and isinstance(arrived, Startable):
            arrived = self._judge_timeouts(held)
        if unreadable is not None:
            arrived = Broken(_unreadable(unreadable), held.starts)
        return held, arrived

    def _judge(self, held: Held, known: Counts, came_back: int, *, is_counted: bool) -> Arrived:
        traces: Sequence[Trace] = ()
        if came_back:
            times = range(max(0, came_back - MOST_RETURNS), came_back) if is_counted else (0,)
            traces = self._starts.look([self._key(held, known, time) for time in times])
        site = Site(
            alone=self._is_alone,
            counted=is_counted,
            may_be_unseen=Trace.UNKNOWN in traces and self._starts.may_be_unseen,
            limit=self._options.crash_limit,
        )
        found, verdict = judge_delivery(known, traces, site)
        held.crashes, held.returns = found.crashes, found.returns
        if isinstance(verdict, Poison):
            return Broken(_poison(self._name(held), found.crashes), held.starts)
        return verdict

    def _judge_timeouts(self, held: Held) -> Arrived:
        late = read_late(held.properties.headers, self._options.timeout, self._clock.now())
        now = self._clock.monotonic()
        held.timeouts = late.times
        held.seen_until = now + EARLY_FOR
        held.not_before = now + late.seconds if late.seconds else 0.0
        if held.timeouts > self._options.timeout_limit:
            problem = _too_slow(self._name(held), held.timeouts, self._options.timeout or 0)
            return Broken(problem, held.starts)
        return Startable()

    def _key(self, held: Held, known: Counts, came_back: int) -> bytes:
        name, body = find_id(held.properties), held.delivery.body
        counts = (known.crashes, known.returns, came_back)
        return self._keys.make(held.delivery.queue, name, body, counts)

    def _name(self, held: Held) -> str:
        return self._options.name or held.handler.name


def _poison(name: str, crashes: int) -> Problem:
    return Problem(
        reason=Reason.POISON,
        type="PoisonMessage",
        message=f"{name} was started {crashes} times with this message, and crashed each time",
    )


def _too_slow(name: str, times: int, seconds: float) -> Problem:
    return Problem(
        reason=Reason.TIMEOUT,
        type="HandlerTimeout",
        message=f"{name} took longer than {seconds:g} s with this message, each of {times} times",
    )


def _unreadable(why: str) -> Problem:
    return Problem(
        reason=Reason.INVALID,
        type="UnreadableProperties",
        message=f"the properties of the message cannot be read: {why}",
    )


LONGEST_PAUSE = 600.0
"""Seconds. Without effect if one try takes longer than that."""
_DOUBLED_AT_MOST = 30
_LONGEST_NUMBER = 12


@dataclass(frozen=True, slots=True)
class Late:
    """This often its handler took too long; it is not started again for `seconds`."""

    times: int
    seconds: float


def read_late(told: Mapping[str, object], timeout: float | None, now: datetime) -> Late:
    """Return what earlier workers wrote into a message; nothing is late for who has no timeout."""
    times = count(told.get(headers.WORKER_TIMEOUTS)) or 0
    if timeout is None or not times:
        return Late(0, 0)
    seconds = _read_time(told.get(headers.WORKER_NOT_BEFORE)) - now.timestamp()
    # More than it was ever meant to wait: somebody's clock was wrong.
    is_due = seconds <= 0 or seconds > find_pause(times, timeout) + 1
    return Late(times, 0 if is_due else seconds)


def stamp(times: int, timeout: float, now: datetime) -> Mapping[str, str]:
    """Return the headers for a message whose handler took too long, now for the `times`th time."""
    until = now.timestamp() + find_pause(times, timeout)
    return {headers.WORKER_TIMEOUTS: str(times), headers.WORKER_NOT_BEFORE: str(int(until))}


def find_pause(times: int, timeout: float) -> float:
    """Return the seconds between two tries: as long as a try, then twice that, and so on.

    So a message that takes too long holds the queue half of the time at most.
    """
    doubled = timeout * 2.0 ** min(times - 1, _DOUBLED_AT_MOST)
    return min(doubled, max(LONGEST_PAUSE, timeout))


def _read_time(value: object) -> float:
    text = value if isinstance(value, str) else ""
    is_time = text.isascii() and text.isdigit() and len(text) < _LONGEST_NUMBER
    return float(text) if is_time else 0

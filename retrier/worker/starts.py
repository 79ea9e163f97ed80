"""What this machine's workers have started, and what one makes of a message that arrives.

A broker says of a message that it came back. It does not say whether its handler was ever started:
all that a dead process had prefetched comes back alike. So each process keeps a small file of what it
has in hand. The file is memory that is shared with the kernel: it costs no call to the system, and is
there however the process dies. Whoever is handed a message that came back looks into the files of all.

Files hold digests only, never a body. Where none can be kept, or what came back is in none of them:

- It may have been on its way to a process of this machine that may have several messages in hand, and died.
  Where there are such processes, or were, the first times are forgiven, as `FORGIVEN` says.
- Else it was in the hands of another machine, and each time is taken as a start. How many messages are in
  hand there is not known: where it is one, the same copy is started again and again in its place.
"""

import json
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import IntEnum
from hashlib import blake2b
from pathlib import Path
from tempfile import gettempdir
from time import time
from uuid import uuid4

from retrier.clock import Clock
from retrier.domain import headers
from retrier.domain.dialects.dialect import count
from retrier.domain.text import count_of
from retrier.domain.wire import PropertyCodec
from retrier.private_files import make_private_folder
from retrier.processes import Owner, describe_process, is_gone
from retrier.worker.connections import Connections, Received
from retrier.worker.copies import find_id
from retrier.worker.hand import Held
from retrier.worker.handlers import Handler
from retrier.worker.log import LOG
from retrier.worker.options import Options
from retrier.worker.outcomes import Broken, Problem, Reason

KEY = 16
"""Bytes of the digest by which a delivery is known."""
_PLACE = KEY + 1
_HEAD = 512
_SPARE = 64
"""Places beside those that can be in use: what a broken connection took along is found for a while."""
KEPT = 3600.0
"""Seconds for which the file of a process that died is kept: its messages come back at once."""
KEPT_WITHOUT_OWNER = 7 * 86400.0
"""The same, where nobody can say whether the process is there."""
MOST_FILES = 200
"""A process that dies every second must not fill the disk."""
MOST_RETURNS = 50
"""So many returns of one message are looked up."""
_SUFFIX = ".starts"


class Trace(IntEnum):
    """What is known of an earlier delivery. The value is the byte in the file."""

    UNKNOWN = 0
    IN_HAND = 1
    STARTED = 2


class Keys:
    """Makes the digests: equal for one delivery of one message, in every process."""

    def __init__(self, urls: Sequence[str]) -> None:
        """`urls`: the same queue name on another broker is another queue."""
        self._broker = "\n".join(sorted(urls)).encode()
        self._begun: dict[str, blake2b] = {}

    def make(self, queue: str, name: str | None, body: bytes, counts: tuple[int, ...]) -> bytes:
        """Return the digest. `name` is the sender's id; `counts` tell deliveries of it apart."""
        begun = self._begun.get(queue)
        if begun is None:
            begun = blake2b(b"%s\n%s\n" % (self._broker, queue.encode()), digest_size=KEY)
            self._begun[queue] = begun
        made = begun.copy()
        made.update(f"{name}\n{counts}\n".encode())
        made.update(body)
        return made.digest()

    def of_site(self, queues: Sequence[str]) -> str:
        """Return how the files of these queues begin."""
        site = "\n".join(sorted(queues)).encode()
        return blake2b(self._broker + b"\n\n" + site, digest_size=KEY).hexdigest()


class Starts:
    """The file of this process, and a look into those of the others. Used by one thread at a time."""

    def __init__(self, site: str, room: int, folder: Path | None = None) -> None:
        """Make the file; without a place for it only this process's own memory is kept."""
        self._site = site
        self._me = describe_process()
        self._room = room
        self._places = _count_places(room)
        self._busy = bytearray(self._places)
        self._next = 0
        self._has_lost = False
        self._folder = folder or Path(gettempdir()) / f"retrier-worker-{os.getuid()}"
        self._file: Path | None = self._folder / f"{site}-{self._me.pid}-{uuid4().hex[:8]}{_SUFFIX}"
        self._memory: mmap.mmap | bytearray = bytearray(self._places * _PLACE)
        self._begin = 0
        try:
            self._open(self._file)
        except OSError as error:
            self._file = None
            LOG.info("what is started is not noted in a file: %s", error)

    @property
    def beside_others(self) -> bool:
        """Whether processes that died, or others, have left or keep files for the same queues here.

        If not, what comes back has been in the hands of another machine.
        """
        return self._has_lost or any(True for _ in self._find_others())

    @property
    def may_be_unseen(self) -> bool:
        """Whether a message may have been on its way to a process of this machine that never saw it.

        So it is where one that may have several messages in hand died, or is there, or lost its connection.
        """
        if self._has_lost and self._room > 1:
            return True
        return any(_has_room_for_several(file) for file in self._find_others())

    def receive(self, key: bytes) -> int:
        """Note a delivery that is in hand; return its place."""
        place = self._next
        for _ in range(self._places):
            if not self._busy[place]:
                break
            place = (place + 1) % self._places
        self._next = (place + 1) % self._places
        self._busy[place] = 1
        at = self._begin + place * _PLACE
        # The state last: a process that dies in between has only left an empty place.
        self._memory[at + 1 : at + _PLACE] = key
        self._memory[at] = Trace.IN_HAND
        return place

    def start(self, place: int) -> None:
        """Note, before it is, that a handler is started."""
        self._memory[self._begin + place * _PLACE] = Trace.STARTED

    def give_back(self, place: int) -> None:
        """Note that it is given back on purpose: what was started there is no crash."""
        self._memory[self._begin + place * _PLACE] = Trace.IN_HAND

    def settle(self, place: int) -> None:
        """Forget a delivery that was acknowledged."""
        self._memory[self._begin + place * _PLACE] = Trace.UNKNOWN
        self._busy[place] = 0

    def lose(self) -> None:
        """Note that the connection is gone: what was in hand comes back, and may be looked up."""
        self._has_lost = self._has_lost or any(self._busy)
        self._busy = bytearray(self._places)

    def look(self, keys: Sequence[bytes]) -> Sequence[Trace]:
        """Return what is known of these deliveries."""
        found = dict.fromkeys(keys, Trace.UNKNOWN)
        _search(self._read_near(), found)
        if Trace.UNKNOWN in found.values():
            # A worker that handles other queues as well has its own files: so a deploy that adds one.
            _search(_read(self._find_files("*")), found)
        return [found[key] for key in keys]

    def close(self) -> None:
        """Remove the file: this process ends well, and has given everything back."""
        if self._file is not None and os.getpid() == self._me.pid:
            with suppress(OSError):
                self._file.unlink()

    def _open(self, file: Path) -> None:
        make_private_folder(self._folder)
        about = self._folder.lstat()  # a link of somebody else's is open to all, and refused
        if about.st_uid != os.getuid() or about.st_mode & 0o077:
            raise PermissionError(f"{self._folder} is open to other users")
        self._tidy_up()
        head = json.dumps(asdict(self._me)).encode().ljust(_HEAD)[:_HEAD]
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, head + bytes(self._places * _PLACE))
            self._memory = mmap.mmap(descriptor, 0)
            self._begin = _HEAD
        finally:
            os.close(descriptor)

    def _find_others(self) -> Iterator[Path]:
        return self._find_files(f"{self._site}-*")

    def _find_files(self, name: str) -> Iterator[Path]:
        """Return the files of others whose names are like this."""
        if self._file is not None:
            for file in self._folder.glob(f"{name}{_SUFFIX}"):
                if file != self._file:
                    yield file

    def _read_near(self) -> Iterator[bytes | memoryview]:
        yield memoryview(self._memory)[self._begin :]
        yield from _read(self._find_others())

    def _tidy_up(self) -> None:
        """Remove the files of processes that died long ago, and the oldest of far too many."""
        ages: Mapping[Path, float] = {}
        with suppress(OSError):
            ages = {each: each.stat().st_mtime for each in self._folder.glob(f"*{_SUFFIX}")}
        crowd = [each for each in ages if each.name.startswith(self._site)]
        oldest = sorted(crowd, key=lambda each: ages[each])[:-MOST_FILES]
        for file, changed in ages.items():
            if (time() - changed > KEPT or file in oldest) and self._is_left(
                file, time() - changed
            ):
                with suppress(OSError):
                    file.unlink()

    def _is_left(self, file: Path, age: float) -> bool:
        try:
            owner = Owner(**json.loads(file.read_bytes()[:_HEAD]))
        except (OSError, ValueError, TypeError):
            return age > KEPT_WITHOUT_OWNER
        is_known = owner.started and self._me.started and owner.space == self._me.space
        return is_gone(owner, self._me) if is_known else age > KEPT_WITHOUT_OWNER


def _read(files: Iterator[Path]) -> Iterator[bytes]:
    for file in files:
        with suppress(OSError):
            yield file.read_bytes()[_HEAD:]


def _search(contents: Iterator[bytes | memoryview], found: dict[bytes, Trace]) -> None:
    """Note what these contents say of the deliveries that are asked for."""
    for content in contents:
        for start in range(0, len(content) - KEY, _PLACE):
            key, state = bytes(content[start + 1 : start + _PLACE]), content[start]
            if state and key in found:
                found[key] = max(Trace(state), found[key])


def _count_places(room: int) -> int:
    return 4 * room + _SPARE


def _has_room_for_several(file: Path) -> bool:
    """Return what the size of the file says: its head is read by workers of earlier versions too."""
    with suppress(OSError):
        return file.stat().st_size > _HEAD + _count_places(1) * _PLACE
    return False


DELIVERY_COUNT = "x-delivery-count"
"""Written by a quorum queue: how often the message came back to it."""
FORGIVEN = 5
"""So often a message may come back without anybody knowing whether it was started; then it counts."""
MOST_UNSTARTED = 5
"""So often it may come back unstarted before a copy takes its place: the broker has a limit of its own."""
EARLY_FOR = 0.5
"""Seconds for which a message stays in hand that is tried again later; then others have their turn."""


@dataclass(frozen=True, slots=True)
class StartCounts:
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


_NOTHING, _STARTABLE = StartCounts(), Startable()
StartVerdict = Startable | Uncounted | Poison
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


def judge_delivery(
    known: StartCounts, traces: Sequence[Trace], site: Site
) -> tuple[StartCounts, StartVerdict]:
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


def _count_returns(known: StartCounts, traces: Sequence[Trace], site: Site) -> StartCounts:
    # One copy may have been started several times: a worker with one message in hand leaves it in its
    # place, whatever workers beside it do.
    crashes = known.crashes + traces.count(Trace.STARTED)
    unknown = traces.count(Trace.UNKNOWN)
    if not site.may_be_unseen:
        return StartCounts(crashes + unknown, known.returns)
    returns = known.returns + unknown
    return StartCounts(crashes + max(0, returns - FORGIVEN), min(returns, FORGIVEN))


class StartCheck:
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

    def take_in(self, line: Connections, received: Received) -> tuple[Held, Arrived]:
        """Return the message, and what is to be done with it."""
        queue, source, delivery = received
        properties, unreadable = self._codec.read_what_can_be(delivery.raw)
        told = properties.headers
        known = _NOTHING
        if headers.WORKER_CRASHES in told or headers.WORKER_RETURNS in told:
            crashes = count(told.get(headers.WORKER_CRASHES)) or 0
            known = StartCounts(crashes, count(told.get(headers.WORKER_RETURNS)) or 0)
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

    def _judge(
        self, held: Held, known: StartCounts, came_back: int, *, is_counted: bool
    ) -> Arrived:
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

    def _key(self, held: Held, known: StartCounts, came_back: int) -> bytes:
        name, body = find_id(held.properties), held.delivery.body
        counts = (known.crashes, known.returns, came_back)
        return self._keys.make(held.delivery.queue, name, body, counts)

    def _name(self, held: Held) -> str:
        return self._options.name or held.handler.name


def _poison(name: str, crashes: int) -> Problem:
    return Problem(
        reason=Reason.POISON,
        type="PoisonMessage",
        message=f"{name} was started {count_of(crashes, 'time')} with this message, and crashed each time",
    )


def _too_slow(name: str, times: int, seconds: float) -> Problem:
    each = f", each of {times} times" if times > 1 else ""
    return Problem(
        reason=Reason.TIMEOUT,
        type="HandlerTimeout",
        message=f"{name} took longer than {seconds:g} s with this message{each}",
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

"""A process: its identity, clock and threads, its stop signals, and the tests' crash switch."""

import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from queue import SimpleQueue
from types import FrameType

from retrier.app.readiness import ReadinessBoard
from retrier.clock import Clock, SystemClock
from retrier.events.event import Emit, Event
from retrier.events.service import PartFailed
from retrier.processes import Owner, describe_process, is_gone
from retrier.store.verbs.leases import Holder

CRASH_AT = "RETRIER_TEST_CRASH_AT"
"""Test switch `name` or `name:n`: kill this process at the n-th event of this name."""
FREEZE_AT = "RETRIER_TEST_FREEZE_AT"
"""The same, but the process is frozen there (SIGSTOP) until a test wakes it (SIGCONT)."""
CLOCK_OFFSET = "RETRIER_TEST_CLOCK_OFFSET"
"""Test switch: seconds by which the clock of this process is ahead; behind if negative."""

_SEPARATOR = " "
_PARTS = 3


def describe_holder(session_id: str) -> Holder:
    """Return the description of this process that the lease stores while it holds it."""
    me = describe_process()
    return Holder(
        session_id=session_id,
        host=socket.gethostname(),
        pid=me.pid,
        process_started=_SEPARATOR.join((me.boot, me.space, me.started)),
    )


def is_dead(holder: Holder) -> bool:
    """Say whether a holder is a process of this host that has certainly ended.

    A process id of another boot, container or host cannot be judged: such a holder counts as
    alive until its lease runs out.
    """
    parts = holder.process_started.split(_SEPARATOR)
    if holder.host != socket.gethostname() or len(parts) != _PARTS:
        return False
    boot, space, started = parts
    me = describe_process()
    owner = Owner(boot=boot, space=space, pid=holder.pid, started=started)
    return boot == me.boot and is_gone(owner, me)


class WrongClock:
    """A clock that is ahead or behind; it measures durations like any other."""

    def __init__(self, clock: Clock, ahead: timedelta) -> None:
        self._clock = clock
        self._ahead = ahead

    def now(self) -> datetime:
        """Return the wrong time of day, in UTC."""
        return self._clock.now() + self._ahead

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start; never goes back."""
        return self._clock.monotonic()


def make_clock(environ: Mapping[str, str]) -> Clock:
    """Return the clock of this machine, unless a test asked for a wrong one."""
    offset = environ.get(CLOCK_OFFSET)
    clock = SystemClock()
    return WrongClock(clock, timedelta(seconds=float(offset))) if offset else clock


def make_crash_switch(environ: Mapping[str, str]) -> Emit:
    """Return a subscriber that kills or freezes this process, if a test asked for it."""
    switches = ((CRASH_AT, signal.SIGKILL), (FREEZE_AT, signal.SIGSTOP))
    asked = [_make_signal_at(environ[name], what) for name, what in switches if name in environ]

    def pass_on(event: Event) -> None:
        for each in asked:
            each(event)

    return pass_on


def _make_signal_at(place: str, what: signal.Signals) -> Emit:
    """Return a subscriber that sends this process a signal, once, at the n-th event of a name."""
    wanted, _, count = place.partition(":")
    left = int(count or 1)

    def count_down(event: Event) -> None:
        nonlocal left
        left -= event.name == wanted
        if event.name == wanted and left == 0:
            os.kill(os.getpid(), what)

    return count_down


def start_part(
    name: str, work: Callable[[], None], board: ReadinessBoard, emit: Emit
) -> threading.Thread:
    """Start the thread of a part and return it; an exception makes the part not ready."""

    def run() -> None:
        # Uncaught, Python would print the exception to stderr, with any message data it quotes.
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the edge of the thread
            board.put(name, ready=False, reason=f"ended by {type(error).__name__}")
            emit(PartFailed(part=name, error=error))

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


class StopSignals:
    """The first SIGTERM or SIGINT begins the stop, the second one ends the process at once.

    Python runs a signal handler in the main thread between any two instructions, also while that
    thread holds the lock of the log or of an Event. A handler that takes the same lock would
    deadlock. So the handler only puts the signal into a queue, and a thread reads it.
    """

    def __init__(self, begin: Callable[[str], None]) -> None:
        """Call `begin` with the name of the first signal."""
        self._begin = begin
        self._came = False
        self._received: SimpleQueue[int] = SimpleQueue()

    def listen(self) -> None:
        """Handle the signals from now on. Call it in the main thread: Python allows no other."""
        threading.Thread(target=self.take_up, name="signals", daemon=True).start()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.on_signal)

    def on_signal(self, number: int, _frame: FrameType | None) -> None:
        """Queue the signal: SimpleQueue.put is reentrant, so a handler may call it."""
        if self._came:
            os._exit(1)
        self._came = True
        self._received.put(number)

    def take_up(self) -> None:
        """Wait for the first signal, and begin the stop."""
        self._begin(signal.Signals(self._received.get()).name)

"""A process: its identity, clock and threads, its stop signals, and the tests' crash switch."""

import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from types import FrameType

from retrier.app.readiness import ReadinessBoard
from retrier.clock import Clock, SystemClock
from retrier.events.event import Emit, Event
from retrier.events.service import PartFailed
from retrier.processes import Owner, describe_process, is_gone
from retrier.store.lease import Holder

CRASH_AT = "RETRIER_TEST_CRASH_AT"
"""Test switch `name` or `name:n`: kill this process at the n-th event of this name."""
FREEZE_AT = "RETRIER_TEST_FREEZE_AT"
"""The same, but the process is frozen there (SIGSTOP) until a test wakes it (SIGCONT)."""
CLOCK_OFFSET = "RETRIER_TEST_CLOCK_OFFSET"
"""Test switch: seconds by which the clock of this process is ahead; behind if negative."""

_STOPS = frozenset({signal.SIGTERM, signal.SIGINT})
_ENDED_AT_ONCE = 1
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


def end_at_once() -> None:
    """End this process without any further step."""
    os._exit(_ENDED_AT_ONCE)


class StopSignals:
    """The first signal begins the stop, a later one ends the process at once.

    Python runs a handler in the main thread, when that runs Python code again. A signal that comes
    just before the main thread begins to wait is not seen as long as it waits: 8 of 30 services
    that were stopped as soon as they were up ran on. A handler that takes a lock which the main
    thread holds would wait for ever. So the interpreter only writes the number of the signal into
    a socket, whatever the main thread does, and a thread reads it.
    """

    def __init__(
        self,
        begin: Callable[[str], object],
        again: Callable[[], object] = end_at_once,
        renew: Callable[[], object] | None = None,
    ) -> None:
        """Call `begin` with the name of the first signal, and `again` for each later one.

        SIGHUP stops nothing if there is something to `renew`: that is called then.
        """
        self._renew = renew
        self._begin = begin
        self._again = again
        self._reading, self._writing = socket.socketpair()
        self._writing.settimeout(0)

    def listen(self) -> None:
        """Heed the signals from now on. Call it in the main thread: Python allows no other."""
        threading.Thread(target=self._take_up, name="signals", daemon=True).start()
        signal.set_wakeup_fd(self._writing.fileno(), warn_on_full_buffer=False)
        for number in _STOPS if self._renew is None else (*_STOPS, signal.SIGHUP):
            signal.signal(number, _leave_it_to_the_thread)

    def _take_up(self) -> None:
        begun = False
        while True:
            received = self._reading.recv(1)
            if signal.SIGHUP in received and self._renew is not None:
                self._renew()
            for number in _STOPS.intersection(received):
                if begun:
                    self._again()
                else:
                    begun = True
                    self._begin(signal.Signals(number).name)


def _leave_it_to_the_thread(_number: int, _frame: FrameType | None) -> None:
    """Do nothing. Without a handler of its own Python would write nothing into the socket."""

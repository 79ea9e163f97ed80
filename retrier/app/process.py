"""This process among others: who it is, whether another lives, what a test may do to it."""

import os
import signal
import socket
from collections.abc import Mapping
from datetime import datetime, timedelta

from retrier.clock import Clock, SystemClock
from retrier.crash_points import Reach
from retrier.processes import Owner, describe_process, is_gone
from retrier.store.verbs.leases import Holder

CRASH_AT = "RETRIER_TEST_CRASH_AT"
"""Test switch `point` or `point:n`: kill this process the n-th time it comes to a crash point."""
FREEZE_AT = "RETRIER_TEST_FREEZE_AT"
"""The same, but it is stopped there (SIGSTOP), and goes on when a test wakes it (SIGCONT)."""
CLOCK_OFFSET = "RETRIER_TEST_CLOCK_OFFSET"
"""Test switch: seconds by which the clock of this process is ahead; behind if negative."""

_SEPARATOR = " "
_PARTS = 3


def describe_holder(session_id: str) -> Holder:
    """Return what the lease keeps of the process that holds it."""
    me = describe_process()
    return Holder(
        session_id=session_id,
        host=socket.gethostname(),
        pid=me.pid,
        process_started=_SEPARATOR.join((me.boot, me.space, me.started)),
    )


def is_dead(holder: Holder) -> bool:
    """Say whether a holder is a process of this host that is gone for certain.

    The process ids of another boot, container or host cannot be judged: such a holder counts
    as alive until its lease runs out.
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


def make_crash_point(environ: Mapping[str, str]) -> Reach:
    """Return what is called at every crash point: nothing happens, unless a test asked for it."""
    switches = ((CRASH_AT, signal.SIGKILL), (FREEZE_AT, signal.SIGSTOP))
    asked = [_make_signal_at(environ[name], what) for name, what in switches if name in environ]

    def crash_point(point: str) -> None:
        for each in asked:
            each(point)

    return crash_point


def _make_signal_at(place: str, what: signal.Signals) -> Reach:
    """Send this process a signal the n-th time it comes to a place; once."""
    wanted, _, count = place.partition(":")
    left = int(count or 1)

    def come_to(point: str) -> None:
        nonlocal left
        left -= point == wanted
        if point == wanted and left == 0:
            os.kill(os.getpid(), what)

    return come_to

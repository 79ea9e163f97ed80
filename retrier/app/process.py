"""This process among others: who it is, whether another one lives, where a test may kill it."""

import os
import signal
import socket
from collections.abc import Mapping

from retrier.crash_points import Reach, pass_by
from retrier.processes import Owner, describe_process, is_gone
from retrier.store.lease import Holder

CRASH_AT = "RETRIER_TEST_CRASH_AT"
"""Test switch `point` or `point:n`: kill this process the n-th time it comes to a crash point."""


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


def make_crash_point(environ: Mapping[str, str]) -> Reach:
    """Return what is called at every crash point: nothing happens, unless a test asked for it."""
    wanted, _, count = environ.get(CRASH_AT, "").partition(":")
    if not wanted:
        return pass_by
    left = int(count or 1)

    def crash(point: str) -> None:
        nonlocal left
        left -= point == wanted
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return crash

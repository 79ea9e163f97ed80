"""This process among others: who it is, whether another one lives, where a test may kill it."""

import os
import signal
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from retrier.store.lease import Holder

CRASH_AT = "RETRIER_TEST_CRASH_AT"
"""Test switch `point` or `point:n`: kill this process the n-th time it comes to a crash point."""

_START_TIME_FIELD = 19
"""Where /proc/PID/stat has the start time, counted behind the command's closing bracket (proc(5))."""


def describe_process(session_id: str) -> Holder:
    """Return what the lease keeps of the process that holds it."""
    return Holder(
        session_id=session_id,
        host=socket.gethostname(),
        pid=os.getpid(),
        process_started=f"{_find_world()}{_find_start_time(os.getpid())}",
    )


def is_dead(holder: Holder) -> bool:
    """Say whether a holder is a process of this host that is gone for certain.

    The process ids of another boot, container or host cannot be judged: such a holder counts
    as alive until its lease runs out.
    """
    world = _find_world()
    if not world or holder.host != socket.gethostname():
        return False
    if not holder.process_started.startswith(world):
        return False
    return holder.process_started != f"{world}{_find_start_time(holder.pid)}"


def make_crash_point(environ: Mapping[str, str]) -> Callable[[str], None]:
    """Return what is called at every crash point: nothing happens, unless a test asked for it."""
    wanted, _, count = environ.get(CRASH_AT, "").partition(":")
    if not wanted:
        return _pass
    left = int(count or 1)

    def crash(point: str) -> None:
        nonlocal left
        left -= point == wanted
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return crash


def _pass(_point: str) -> None:
    """Do nothing."""


def _find_world() -> str:
    """Name the kernel run and process id space in which process ids mean something."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return ""
    return f"{boot} {space} "


def _find_start_time(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "gone"
    return stat.rpartition(")")[2].split()[_START_TIME_FIELD]

"""Describes a process that holds messages or a lease, and finds out if it has certainly ended."""

import os
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
# Fields of /proc/PID/stat, counted after the closing bracket of the command (proc(5)).
_STATE, _START_TIME = 0, 19
_DEAD = frozenset("ZX")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process. `started` distinguishes processes with the same pid; `space` is the pid namespace.

    Everything except the pid is empty on a system without /proc.
    """

    boot: str
    space: str
    pid: int
    started: str


def describe_process(proc: Path = PROC) -> Owner:
    """Describe this process."""
    pid = os.getpid()
    try:
        boot = (proc / "sys/kernel/random/boot_id").read_text().strip()
        space = str((proc / "self/ns/pid").readlink())
        _, started = _find_state(proc, pid)
    except OSError:
        return Owner(boot="", space="", pid=pid, started="")
    return Owner(boot=boot, space=space, pid=pid, started=started)


def is_gone(owner: Owner, me: Owner, proc: Path = PROC) -> bool:
    """Say whether a process has certainly ended, as seen from process `me`.

    All processes of an earlier boot have ended. One of another container cannot be judged: False.
    """
    if owner == me or not owner.started or not me.started:
        return False
    if owner.boot != me.boot:
        return True
    return owner.space == me.space and _has_ended(proc, owner)


def _has_ended(proc: Path, owner: Owner) -> bool:
    try:
        state, started = _find_state(proc, owner.pid)
    except OSError:
        # /proc may hide the processes of other users (hidepid); a signal still finds them.
        return not _exists(owner.pid)
    # A process that has ended is still listed until its parent waits for it: as a zombie.
    return state in _DEAD or started != owner.started


def _find_state(proc: Path, pid: int) -> tuple[str, str]:
    """Return a process's state, and when it started, in ticks."""
    fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return fields[_STATE], fields[_START_TIME]


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

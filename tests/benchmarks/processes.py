"""Memory and CPU of a process and its children, as Linux counts them."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

MIB = 1024 * 1024
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
LOOK_EVERY = 0.5
MACHINE = "the whole machine"


def find_family(pid: int) -> list[int]:
    """Return a process and all that descend from it."""
    family = [pid]
    for member in family:
        with suppress(OSError):
            for task in Path(f"/proc/{member}/task").iterdir():
                family += [int(child) for child in (task / "children").read_text().split()]
    return family


def cpu_seconds(pid: int) -> float:
    """Return the CPU time a process and its living children have used so far."""
    return sum(_cpu_ticks(member) for member in find_family(pid)) / TICKS


def machine_seconds() -> float:
    """Return the CPU time the whole machine has used so far, on all cores."""
    fields = [int(each) for each in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    idle, waiting = fields[3:5]
    return (sum(fields) - idle - waiting) / TICKS


class CpuClock:
    """The CPU time some processes, and the machine as a whole, use from now on."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = pids
        self._before = self._read()

    def per_thousand(self, count: int) -> dict[str, float]:
        """Return the seconds each has used for 1000 of so many messages."""
        now = self._read()
        return {name: 1000 * (now[name] - self._before[name]) / count for name in now}

    def _read(self) -> dict[str, float]:
        used = {name: cpu_seconds(pid) for name, pid in self._pids.items()}
        return {**used, MACHINE: machine_seconds()}


def memory(pid: int) -> float:
    """Return the memory of a process and its children in MiB; what they share counts once."""
    family = find_family(pid)
    if len(family) == 1:
        with suppress(OSError, IndexError):
            return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / MIB
        return 0.0
    return sum(_pss(member) for member in family)


class MemoryWatch:
    """The most memory seen since the last `reset`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._peak = 0.0

    def look(self) -> None:
        """Look once."""
        self._peak = max(self._peak, memory(self._pid))

    def reset(self) -> float:
        """Return the most seen, in MiB, and begin anew."""
        self.look()
        peak, self._peak = self._peak, 0.0
        return peak


@contextmanager
def watched_memory(pid: int) -> Iterator[MemoryWatch]:
    """Look at the memory of a process every half second, meanwhile."""
    watch, stop = MemoryWatch(pid), Event()

    def look() -> None:
        while not stop.wait(LOOK_EVERY):
            watch.look()

    thread = Thread(target=look, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        stop.set()
        thread.join()


def _cpu_ticks(pid: int) -> int:
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    return 0


def _pss(pid: int) -> float:
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    return 0.0

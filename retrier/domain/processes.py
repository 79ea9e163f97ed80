"""Processes that use one database: what they differ in, although all should have the same."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from retrier.domain.values import dataclass

NO_INGESTION = (
    "no process with the role ingestion has been seen for a minute: nothing is taken off the "
    "error queues"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningProcess:
    """A process, and what it should have in common with the others of its `instance`.

    `set_hash` is that of its policies; empty: it has none.
    """

    session_id: str
    instance: str
    host: str
    pid: int
    roles: tuple[str, ...]
    version: str
    set_hash: str
    error_queues: tuple[str, ...]


def find_differences(processes: Sequence[RunningProcess]) -> tuple[str, ...]:
    """Say in what the processes differ: versions at all, policies and error queues of an instance."""
    found = [*_compare("versions", processes, lambda each: each.version)]
    by_instance = sorted(processes, key=lambda each: each.instance)
    for _, group in groupby(by_instance, key=lambda each: each.instance):
        same = list(group)
        found += _compare("policies", same, _name_policies)
        found += _compare("error queues", same, lambda each: ", ".join(each.error_queues))
    return tuple(found)


def is_ingesting(processes: Sequence[RunningProcess]) -> bool:
    """Say whether any of them takes messages off error queues."""
    return any("ingestion" in each.roles for each in processes)


def _name_policies(process: RunningProcess) -> str:
    return f"set {process.set_hash[:8]}" if process.set_hash else "none"


def _compare(
    what: str, processes: Sequence[RunningProcess], read: Callable[[RunningProcess], str]
) -> Iterator[str]:
    values = sorted({read(each) for each in processes})
    if len(values) > 1:
        parts = (
            f"{value} ({_name([p for p in processes if read(p) == value])})" for value in values
        )
        yield f"{what} differ: {'; '.join(parts)}"


def _name(processes: Sequence[RunningProcess]) -> str:
    """Name the first of them, and how many more there are."""
    first, more = min(processes, key=lambda each: (each.host, each.pid)), len(processes) - 1
    name = f"process {first.pid} on {first.host}" if first.pid else first.host
    return f"{name} and {more} more" if more else name

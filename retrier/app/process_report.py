"""Writes that this process runs, and says in what the running processes differ."""

from collections.abc import Sequence
from contextlib import suppress

from retrier import __version__
from retrier.app.parts import Parts
from retrier.app.process import describe_holder
from retrier.domain.processes import (
    NO_INGESTION,
    RunningProcess,
    find_differences,
    is_ingesting,
)
from retrier.errors import DatabaseUnavailable
from retrier.events.service import ProcessesAgree, ProcessesDiffer
from retrier.settings import Role
from retrier.store.processes import SILENT, forget_process, list_processes, note_process

_SILENT = SILENT.total_seconds()


class ProcessReport:
    """One look every 10 seconds. What it says never makes a process unready: others are meant."""

    def __init__(self, parts: Parts, roles: frozenset[Role]) -> None:
        self._parts = parts
        self._roles = tuple(sorted(roles))
        self._holder = describe_holder(parts.session_id)
        self._words = "not looked at yet"
        self._differences: tuple[str, ...] = ()
        self._ingesting_at = parts.clock.monotonic()

    def __call__(self) -> None:
        """Write and look. Raises DatabaseUnavailable."""
        note_process(self._parts.db, self._describe())
        found = list_processes(self._parts.db)
        self._tell(find_differences(found))
        now = self._parts.clock.monotonic()
        if is_ingesting(found):
            self._ingesting_at = now
        # A restart of what ingests takes a moment, and is no reason to say anything.
        missing = (NO_INGESTION,) if now - self._ingesting_at >= _SILENT else ()
        number = "1 process" if len(found) == 1 else f"{len(found)} processes"
        self._words = "; ".join([number, *missing, *self._differences])

    def describe(self) -> tuple[bool, str]:
        """Return what is known of the processes; it is no reason not to be ready."""
        return True, self._words

    def stop(self) -> None:
        """Say that this process ends."""
        with suppress(DatabaseUnavailable):
            forget_process(self._parts.db, self._parts.session_id)

    def _describe(self) -> RunningProcess:
        in_force = self._parts.policies.in_force
        return RunningProcess(
            session_id=self._parts.session_id,
            instance=self._parts.settings.instance,
            host=self._holder.host,
            pid=self._holder.pid,
            roles=self._roles,
            version=__version__,
            set_hash=in_force.policies.hash if in_force.is_configured else "",
            error_queues=tuple(sorted(self._parts.error_queues)),
        )

    def _tell(self, found: Sequence[str]) -> None:
        before, self._differences = self._differences, tuple(found)
        if self._differences == before:
            return
        if found:
            self._parts.emit(ProcessesDiffer(reason="; ".join(found)))
        else:
            self._parts.emit(ProcessesAgree())

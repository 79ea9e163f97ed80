"""Processes that use one database, for tests of what they differ in."""

from typing import Any
from uuid import uuid4

from retrier import __version__
from retrier.domain.processes import RunningProcess


def process(**changes: Any) -> RunningProcess:
    """Make a process with all roles; `changes` are fields of it."""
    values: dict[str, Any] = {
        "session_id": str(uuid4()),
        "instance": "retrier",
        "host": "one",
        "pid": 1,
        "roles": ("api", "ingestion", "processor"),
        "version": __version__,
        "set_hash": "",
        "error_queues": ("error",),
    }
    return RunningProcess(**(values | changes))

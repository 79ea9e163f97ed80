"""`retrier db copy`: copies the database of the settings into another one; needs no service."""

import socket
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from threading import Event
from time import monotonic

from retrier.app.process import describe_holder, is_dead
from retrier.errors import CopyRefused, DatabaseUnavailable
from retrier.settings import Settings
from retrier.store.copying import CopiedDatabase, CopyStep, Users, copy_whole, find_users
from retrier.store.engine.database import Database, DatabaseOptions
from retrier.store.lease import Holder
from retrier.store.upgrade import find_revision

__all__ = ["CopiedDatabase", "CopyStep", "copy_database"]

_LONGEST_STATEMENT = timedelta(minutes=20)
"""Twice as long as one statement may take: comparing reads a page at a time, verifying does not."""

_SESSION_ENDS = 5.0
_LOOK = 0.2
"""Seconds to wait for the end of a session, and between two looks at it."""

_IN_USE = "stop every process of Retrier that works with it, and close what else has it open"


def copy_database(
    settings: Settings, target: Settings, tell: Callable[[CopyStep], None]
) -> CopiedDatabase:
    """Copy the database of the settings into that of `target`, which is empty or unfinished.

    Raises CopyRefused, DatabaseUnavailable, ConfigurationError, DataRefused.
    """
    source, into = (
        Database(DatabaseOptions(url=each.database.url, lease=_LONGEST_STATEMENT))
        for each in (settings, target)
    )
    try:
        if source.place == into.place:
            raise CopyRefused(f"the database at {source.place} cannot be copied into itself")
        _check_source(source)
        return copy_whole(source, into, tell)
    finally:
        source.dispose()
        into.dispose()


def _check_source(source: Database) -> None:
    """Raise if there is none, if it is of another version, or if anybody works with it."""
    if source.is_sqlite and not Path(source.place).exists():
        # Connecting would create an empty file.
        raise DatabaseUnavailable(f"there is no database at {source.place}")
    if source.is_open_elsewhere():
        raise CopyRefused(
            f"the database at {source.place} is in use: another process has it open; {_IN_USE}"
        )
    revision = find_revision(source)
    if not revision.is_current:
        raise DatabaseUnavailable(
            f"the database at {source.place} is at revision {revision.current or 'none'} and this "
            f"version needs {revision.wanted}: run `retrier db upgrade`"
        )
    users = _find_users(source)
    if users:
        raise CopyRefused(f"the database at {source.place} is in use: {users}; {_IN_USE}")


def _find_users(source: Database) -> Users:
    """Find them; the server needs a moment to notice that a process was killed."""
    begun = monotonic()
    users = find_users(source, is_dead, _is_alive)
    while users and not users.processes and monotonic() < begun + _SESSION_ENDS:
        Event().wait(_LOOK)
        users = find_users(source, is_dead, _is_alive)
    return users


def _is_alive(holder: Holder) -> bool:
    """Say whether a process of this boot of this machine works for certain."""
    me = describe_holder(holder.session_id)
    boot_and_space = [each.process_started.rpartition(" ")[0] for each in (holder, me)]
    is_here = holder.host == socket.gethostname() and len(set(boot_and_space)) == 1
    return is_here and not is_dead(holder)

"""Holders in the broker's file: the rows of consumers, each with its process and its lease.

When such a row goes, what it held is ready again, in its places, and no queue has it as its active
consumer any more.
"""

from collections.abc import Iterable

from retrier.processes import Owner, is_gone
from retrier.transport.embedded.broker_file import Connection

ENTER = "INSERT INTO holders (boot, space, pid, started, lease, until) VALUES (?, ?, ?, ?, ?, ?)"
RENEW = "UPDATE holders SET until = ? + lease WHERE id = ?"


def enter(conn: Connection, owner: Owner, lease: float, now: float) -> int:
    """Make a holder with a lease of so many seconds; return its number."""
    row = (owner.boot, owner.space, owner.pid, owner.started, lease, now + lease)
    return conn.execute(ENTER, row).lastrowid or 0


def renew(conn: Connection, holder: int, now: float) -> bool:
    """Begin the lease anew; false when the holder is no more."""
    return conn.execute(RENEW, [now, holder]).rowcount == 1


def leave(conn: Connection, holders: Iterable[int]) -> None:
    """End holders."""
    conn.executemany("DELETE FROM holders WHERE id = ?", [(holder,) for holder in holders])


def find_gone(conn: Connection, me: Owner, now: float) -> list[int]:
    """Return the holders that died or let their lease run out, as this process sees it."""
    rows = conn.execute(
        "SELECT id, boot, space, pid, started, lease, until FROM holders"
    ).fetchall()
    return [
        holder
        for holder, boot, space, pid, started, lease, until in rows
        if _has_run_out(lease, until - now)
        or is_gone(Owner(boot=boot, space=space, pid=pid, started=started), me)
    ]


def reap(conn: Connection, me: Owner, now: float, sparing: int | None = None) -> None:
    """End the holders that died or let their lease run out, but not this one."""
    leave(conn, [holder for holder in find_gone(conn, me, now) if holder != sparing])


def _has_run_out(lease: float, left: float) -> bool:
    # The clock begins anew with each boot: more left than there can be is of an earlier one.
    return not 0 <= left <= 2 * lease

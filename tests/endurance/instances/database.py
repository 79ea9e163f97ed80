"""What the database says, asked directly: who leads, what is in doubt, how all of it ended."""

from dataclasses import dataclass
from typing import Any

import psycopg

from tests.support.servers import psycopg_url

DOUBT = """
SELECT l.epoch, c.retry_id::text FROM processor_lease l CROSS JOIN failed_message_retries c
WHERE c.sending_since IS NOT NULL AND c.forwarded_at IS NULL
"""
BATCHES = "SELECT count(*) FROM retry_batches"
BLOCKED = """
SELECT DISTINCT h.state, h.wait_event_type, h.wait_event, left(h.query, 60), clock_timestamp() - h.query_start
FROM pg_stat_activity a, unnest(pg_blocking_pids(a.pid)) blocker
JOIN pg_stat_activity h ON h.pid = blocker WHERE a.datname = current_database() AND h.query_start < clock_timestamp() - interval '1 s'
"""
OPEN = """
SELECT (SELECT count(*) FROM retry_operations WHERE completed_at IS NULL)
     + (SELECT count(*) FROM retry_batches)
     + (SELECT count(*) FROM failed_messages WHERE status = 'unresolved')
"""


@dataclass(frozen=True, slots=True)
class Leader:
    """Who holds the lease; pid 0 when nobody does."""

    epoch: int
    pid: int


class DatabaseView:
    """A connection that no misfortune befalls; used by one thread."""

    def __init__(self, url: str) -> None:
        self._conn = psycopg.connect(psycopg_url(url), autocommit=True)

    def leader(self) -> Leader:
        """Return who holds the lease, expired or not."""
        rows = self.rows("SELECT epoch, coalesce(pid, 0), session_id FROM processor_lease")
        for epoch, pid, session in rows:
            return Leader(epoch, pid if session else 0)
        return Leader(0, 0)

    def in_doubt(self, epoch: int) -> set[str]:
        """Return the retries that are stamped and not recorded, while the epoch is this one."""
        return {retry_id for now, retry_id in self.rows(DOUBT) if now == epoch}

    def count(self, query: str) -> int:
        """Return the number a query answers with."""
        return int(self.rows(query)[0][0])

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return what a query answers with."""
        return self._conn.execute(query).fetchall()

    def blockers(self) -> list[str]:
        """Return the sessions that others wait for."""
        return [str(row) for row in self.rows(BLOCKED)]

    def close(self) -> None:
        """Let the connection go."""
        self._conn.close()

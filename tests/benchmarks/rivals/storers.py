"""What else brings messages from a queue into PostgreSQL; each returns the seconds it took."""

from time import perf_counter
from uuid import uuid4

import psycopg

from tests.benchmarks.raw_line import RawLine

BATCH = 500
TABLE = """
CREATE TABLE IF NOT EXISTS raw_failures (
    id text PRIMARY KEY, raw bytea NOT NULL, body bytea NOT NULL
)"""
UPSERT = """
INSERT INTO raw_failures SELECT * FROM unnest(%b::text[], %b::bytea[], %b::bytea[])
ON CONFLICT (id) DO UPDATE SET raw = excluded.raw, body = excluded.body
"""


def store_one_by_one(amqp_url: str, conninfo: str, source: str, count: int) -> float:
    """Store messages as a plain script does: take one, insert it, commit, ack it."""
    return _store(amqp_url, conninfo, source, count, batch=1)


def store_raw(amqp_url: str, conninfo: str, source: str, count: int) -> float:
    """Take 500 raw messages, upsert them in one statement, commit, ack them, and so on."""
    return _store(amqp_url, conninfo, source, count, batch=BATCH)


def _store(amqp_url: str, conninfo: str, source: str, count: int, batch: int) -> float:
    line = RawLine(amqp_url)
    with psycopg.connect(conninfo) as conn:
        conn.execute(TABLE)
        conn.commit()
        begin = perf_counter()
        line.consume(source, 2 * BATCH)
        stored = 0
        while stored < count:
            wanted = min(batch, count - stored)
            while len(line.inbox) < wanted:
                line.read()
            _upsert(conn, line, wanted)
            stored += wanted
        seconds = perf_counter() - begin
    line.close()
    return seconds


def _upsert(conn: psycopg.Connection, line: RawLine, wanted: int) -> None:
    taken = [line.inbox.popleft() for _ in range(wanted)]
    ids = [str(uuid4()) for _ in taken]
    conn.execute(UPSERT, (ids, [each.raw for each in taken], [each.body for each in taken]))
    conn.commit()
    line.ack(taken[-1].tag)

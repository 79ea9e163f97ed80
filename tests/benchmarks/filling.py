"""Failed messages as ingestion would have written them, copied by PostgreSQL itself.

One message of each cause is really ingested; all others are made of it with an id and a body of
their own. A million takes minutes, and `retrier verify` finds nothing.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from uuid import uuid4

import psycopg
from psycopg import sql

from retrier.clock import SystemClock
from retrier.domain.failed_message import Failure
from retrier.domain.wire import Delivery
from retrier.ingestion.parsing import QueueMapping, parse
from retrier.store.recording import record_received
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.benchmarks.messages import ENDPOINT, FRAMES, ID, POOL, make_body, make_templates
from tests.support.databases import open_database

CHUNK = 50_000
STARTS = 900_000
SAME = "cause_id, text_id, status, last_failure_known, attempts, failure_count, disposition, properties_size"
"""The columns that all messages of one cause have in common."""
TIMES = ("time_sent", "first_failure", "last_failure", "last_modified")
"""These are 20 ms apart: lists are sorted by them."""
SPREAD = ", ".join(f"{name} + made.n * interval '20 ms'" for name in TIMES)
PATTERNS = """
CREATE TEMPORARY TABLE patterns (cause integer, pattern_id text, message_id text, raw bytea[])
"""
MADE = """
CREATE TEMPORARY TABLE made AS
SELECT n, cause, message_id, body, sha256(body) AS body_hash,
       nextval('message_number') AS number, nextval('attempt_number') AS attempt_id,
       (substr(h,7,2)||substr(h,5,2)||substr(h,3,2)||substr(h,1,2)||'-'||substr(h,11,2)
       ||substr(h,9,2)||'-'||substr(h,15,2)||substr(h,13,2)||'-'||substr(h,17,4)||'-'
       ||substr(h,21,12))::uuid AS unique_id
FROM (
    SELECT n, n % %(causes)s AS cause, message_id, md5(message_id || %(endpoint)s) AS h,
           convert_to('{"order":"' || message_id || '","text":"', 'UTF8')
               || substr(%(pool)s::bytea, 1 + n % %(starts)s, %(text)s) || '"}' AS body
    FROM (SELECT n, gen_random_uuid()::text AS message_id
          FROM generate_series(%(first)s::int, %(last)s::int) AS n ORDER BY n) AS numbered
) AS hashed
""".replace(" % ", " %% ")
MESSAGES = f"""
INSERT INTO failed_messages (number, unique_message_id, failure_seq, message_id, attempt_id,
                             body_size, {", ".join(TIMES)}, {SAME})
SELECT made.number, made.unique_id, nextval('failure_seq'), made.message_id, made.attempt_id,
       length(made.body), {SPREAD}, {SAME}
FROM made JOIN patterns USING (cause)
     JOIN (SELECT unique_message_id, {", ".join(TIMES)}, {SAME} FROM failed_messages) AS pattern
          ON pattern.unique_message_id = patterns.pattern_id::uuid
ORDER BY made.n
"""  # noqa: S608 - names of columns, written above
ATTEMPTS = """
INSERT INTO processing_attempts (attempt_id, number, cause_id, fingerprint, body_hash,
    time_of_failure, received_at, dialect, error_queue, redelivered, raw_properties, body)
SELECT attempt_id, number, cause_id, substr(sha256(raw || body), 1, 16), body_hash,
       time_of_failure, received_at, dialect, error_queue, false, raw, body
FROM (
    SELECT made.attempt_id, made.number, made.n, made.body, made.body_hash, {raw} AS raw,
           pattern.cause_id, pattern.time_of_failure, pattern.received_at, pattern.dialect,
           pattern.error_queue
    FROM made JOIN patterns USING (cause)
         JOIN failed_messages AS first ON first.unique_message_id = patterns.pattern_id::uuid
         JOIN processing_attempts AS pattern ON pattern.attempt_id = first.attempt_id
) AS joined
ORDER BY n
"""
INDEXES = """
SELECT indexname, indexdef FROM pg_indexes
WHERE schemaname = 'public' AND indexname LIKE 'ix\\_%' AND tablename IN
      ('failed_messages', 'processing_attempts')
"""
COUNTS = """
INSERT INTO message_counts (cause_id, status, disposition, change)
SELECT cause_id, status, disposition, count(*) FROM failed_messages GROUP BY 1, 2, 3
"""
"""Triggers were off meanwhile, or have added a row for each chunk."""
LEDGER = "UPDATE ledger SET count = count + %(made)s WHERE entry IN ('taken_off', 'new')"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """So many messages that failed on a queue, and on others, and were taken off an error queue."""

    count: int
    queue: str
    error_queue: str
    body_size: int
    depth: int = FRAMES
    others: tuple[str, ...] = ()


def fill(url: str, conn: psycopg.Connection, filling: Filling) -> None:
    """Add the messages to the database of this URL, to which there is an open connection."""
    queues = (filling.queue, *filling.others)
    made = [each for queue in queues for each in make_templates(queue, filling.depth)]
    templates = made[: filling.count]
    patterns = _ingest_patterns(url, filling, templates)
    conn.execute(PATTERNS)
    for cause, (pattern, template) in enumerate(zip(patterns, templates, strict=True)):
        conn.execute(
            "INSERT INTO patterns VALUES (%s, %s, %s, %s)",
            (cause, pattern.computed_id, pattern.message_id, template.split(ID.encode())),
        )
    with _hastened(conn):
        for first in range(len(templates), filling.count, CHUNK):
            _fill_chunk(conn, filling, first, templates)
    conn.execute("DROP TABLE patterns")
    conn.execute("DELETE FROM message_counts")
    conn.execute(COUNTS)
    # As the server itself would have done meanwhile, if the messages had come one by one.
    conn.execute("VACUUM ANALYZE")


@contextmanager
def _hastened(conn: psycopg.Connection) -> Iterator[None]:
    """Let the server do without secondary indexes and without looking at foreign keys, meanwhile.

    Indexes are made anew afterwards, and the foreign keys hold by the way the rows are made.
    """
    indexes = conn.execute(INDEXES).fetchall()
    for name, _ in indexes:
        conn.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(name)))
    conn.execute("SET maintenance_work_mem = '256MB'")
    with suppress(psycopg.errors.InsufficientPrivilege):
        conn.execute("SET session_replication_role = replica")
    yield
    conn.execute("RESET session_replication_role")
    for _, definition in indexes:
        conn.execute(definition)


def _fill_chunk(
    conn: psycopg.Connection, filling: Filling, first: int, templates: Sequence[bytes]
) -> None:
    last = min(first + CHUNK, filling.count)
    text = filling.body_size - len(make_body(ID, 0))
    numbers = {
        "first": first,
        "last": last - 1,
        "made": last - first,
        "causes": len(templates),
        "endpoint": ENDPOINT,
        "pool": POOL[: STARTS + max(0, text)],
        "starts": STARTS,
        "text": max(0, text),
    }
    raw = _join_pieces(templates[0].count(ID.encode()) + 1)
    with conn.transaction():
        conn.execute(MADE, numbers)
        for statement in (MESSAGES, ATTEMPTS.replace("{raw}", raw)):
            conn.execute(statement)
        conn.execute(LEDGER, numbers)
        conn.execute("DROP TABLE made")


def _join_pieces(count: int) -> str:
    """Return an expression: the pieces of raw properties with the message id between them."""
    pieces = [f"patterns.raw[{number}]" for number in range(1, count + 1)]
    return " || convert_to(made.message_id, 'UTF8') || ".join(pieces)


def _ingest_patterns(url: str, filling: Filling, templates: Sequence[bytes]) -> list[Failure]:
    """Have one message of each cause recorded, as ingestion does."""
    db = open_database(url)
    mapping, now = QueueMapping(queue=filling.error_queue), SystemClock().now()
    made = []
    for template in templates:
        message_id = str(uuid4())
        delivery = Delivery(
            tag=None,
            queue=filling.error_queue,
            raw=template.replace(ID.encode(), message_id.encode()),
            body=make_body(message_id, filling.body_size),
            redelivered=False,
        )
        made.append(parse(delivery, AmqpPropertyCodec(), mapping, now))
    record_received(db, made, instance="benchmark")
    db.dispose()
    return [each for each in made if isinstance(each, Failure)]

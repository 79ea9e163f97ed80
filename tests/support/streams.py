"""Streams for tests: failures of one stream, the rule of its messages, and looks at what is held."""

from typing import Any

from sqlalchemy import update

from retrier.domain.streams import Released, Stream, StreamRule
from retrier.store.engine.database import Database
from retrier.store.schema import failed_messages, retry_operations
from retrier.store.streams import release_stream
from tests.support.bench import QUEUE, Bench

ORDER = "order 42"
STREAM = Stream(QUEUE, ORDER)


def make_strict(db: Database, rule: StreamRule | None = StreamRule.STRICT) -> None:
    """Give all messages of streams this rule, as a policy would at their last failure."""
    of_stream = failed_messages.c.stream_id.is_not(None)
    with db.engine.begin() as conn:
        conn.execute(update(failed_messages).where(of_stream).values(stream_rule=rule))


def fail_in_stream(bench: Bench, count: int, **changes: Any) -> list[str]:
    """Let messages of one strict stream fail; return their ids in order."""
    ids = bench.fail(count, **{"stream_id": ORDER, **changes})
    make_strict(bench.db)
    return ids


def look_now(bench: Bench) -> None:
    """Let the time pass until operations look again that streams hold."""
    waits = retry_operations.c.look_again_at.is_not(None)
    now = bench.db.read(lambda tx: tx.now)
    with bench.db.engine.begin() as conn:
        conn.execute(update(retry_operations).where(waits).values(look_again_at=now))


def release(db: Database, *ids: str, stream: Stream = STREAM) -> Released:
    """Release all that is held in a stream, or these."""
    done = release_stream(db, stream, ids or None, "ada")
    assert isinstance(done, Released)
    return done

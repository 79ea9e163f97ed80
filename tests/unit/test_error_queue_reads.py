"""When silence means that nothing failed: every error queue was read past the moment."""

from datetime import UTC, datetime, timedelta

import pytest

from retrier.domain.error_queue_reads import QueueRead, why_unread

NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
MOMENT = NOW - timedelta(seconds=5)
LEVEL, BEFORE = NOW - timedelta(seconds=2), NOW - timedelta(seconds=6)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def reader(queue: str = "error", seen: float = 1, **parts: object) -> QueueRead:
    return QueueRead(**{"queue": queue, "host": "a", "seen_at": ago(seen)} | parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reads", "why"),
    [
        ([], "no process that reads error queues has been heard of"),
        ([reader(level_at=LEVEL)], None),
        ([reader(level_at=MOMENT)], None),
        ([reader()], "error is not read to its end yet"),
        ([reader(level_at=BEFORE)], "error is not read to its end yet"),
        (
            [reader(level_at=BEFORE, ready=6017)],
            "error is not read to its end yet: 6,017 messages are on it",
        ),
        ([reader(level_at=LEVEL), reader("dead")], "dead is not read to its end yet"),
        ([reader(level_at=LEVEL), reader(level_at=BEFORE)], "error is not read to its end yet"),
        (
            [reader(level_at=LEVEL), reader(seen=60, host="b", level_at=LEVEL)],
            "b, which reads error, has said nothing since 2026-05-04 11:59:00Z",
        ),
        ([reader(seen=600)], "nobody has read error since 2026-05-04 11:50:00Z"),
        (
            [reader(stopped=True, level_at=LEVEL)],
            "nobody has read error since 2026-05-04 11:59:59Z",
        ),
        ([reader(level_at=LEVEL), reader(seen=600)], None),
        ([reader(level_at=LEVEL), reader(seen=3, stopped=True)], None),
        (
            [reader(level_at=ago(4)), reader(seen=3, stopped=True)],
            "error is not read to its end yet",
        ),
    ],
)
def test_what_is_not_read_is_said(reads: list[QueueRead], why: str | None) -> None:
    assert why_unread(reads, MOMENT, NOW) == why

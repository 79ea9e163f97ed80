"""Puts messages into what policies decide of them, by one UPDATE, past the store's own verbs."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import update

from retrier.domain.failed_message import Disposition
from retrier.store.engine.database import Database
from retrier.store.schema import failed_messages

WHY = "failed 3 of 3 times, by rule payments"
DUE = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


def make_dead(db: Database | None, *keys: str, **values: Any) -> None:
    """Let a policy have given up messages."""
    assert db is not None
    dead = {"disposition": Disposition.DEAD, "disposition_reason": WHY, "policy": "payments@5a1d"}
    _set(db, keys, dead | values)


def schedule(db: Database, *keys: str, at: datetime = DUE, **values: Any) -> None:
    """Let a policy have scheduled retries of messages."""
    scheduled = {
        "disposition": Disposition.SCHEDULED,
        "disposition_reason": "failed 1 of 3 times, by rule payments",
        "policy": "payments@5a1d",
        "retry_at": at,
    }
    _set(db, keys, scheduled | values)


def _set(db: Database, keys: tuple[str, ...], values: dict[str, Any]) -> None:
    those = failed_messages.c.unique_message_id.in_(keys)
    with db.engine.begin() as conn:
        conn.execute(update(failed_messages).where(those).values(values))

"""Claims as people see them: by the unique id of their message."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, select

from retrier.store.schema import failed_message_retries, failed_messages

claims = failed_message_retries.c


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownClaim:
    """The claim in force of a message; in doubt while it is stamped and not recorded."""

    unique_message_id: str
    batch_id: str
    operation_id: str
    retry_id: str
    sending_since: datetime | None
    forwarded_at: datetime | None


def shown_claims() -> Select[Any]:
    """Return the query of all claims, with the columns that a shown claim has."""
    return select(
        failed_messages.c.unique_message_id,
        claims.batch_id,
        claims.operation_id,
        claims.retry_id,
        claims.sending_since,
        claims.forwarded_at,
    ).join_from(failed_message_retries, failed_messages, failed_messages.c.number == claims.number)

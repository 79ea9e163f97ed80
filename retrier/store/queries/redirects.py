"""Redirects as people see them."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select

from retrier.domain.redirects import redirect_id
from retrier.store.engine.code_points import by_code_point
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import message_redirects


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    """Retries for one queue go to another."""

    from_queue: str
    to_queue: str
    modified_at: datetime

    @property
    def redirect_id(self) -> str:
        """The id, which is computed from `from_queue`."""
        return redirect_id(self.from_queue)


@reading
def list_redirects(tx: Transaction) -> tuple[Redirect, ...]:
    """Return all redirects, sorted by `from_queue`. Raises DatabaseUnavailable."""
    query = select(message_redirects).order_by(by_code_point(message_redirects.c.from_queue))
    return tuple(Redirect(**row) for row in tx.execute(query).mappings())

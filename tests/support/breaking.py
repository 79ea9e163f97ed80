"""Breakers on a bench: consumers that fail or confirm, and time that passes for breakers."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import func, select, update

from retrier.domain.archive_operation import Act
from retrier.domain.breakers import BreakerRules, BreakerState, BreakerTerms, parse_key
from retrier.store.archive import Action
from retrier.store.breakers import HandedBreaker, set_breaker
from retrier.store.engine.database import Database
from retrier.store.schema import breaker_counts, breakers, failed_message_retries
from tests.support.acting import apply_action
from tests.support.bench import Bench
from tests.support.factories import failure

OTHER = "payments"
FEW = BreakerTerms(least=4)
"""Terms that so few messages meet."""
EVERYTHING = BreakerRules(default=FEW)


class Breakdown(Bench):
    """A bench whose messages go to `orders` and `payments`, with a breaker for each."""

    def __init__(self, db: Database, *, rules: BreakerRules = EVERYTHING, **retries: Any) -> None:
        super().__init__(db, **retries)
        self.breaker_rules = rules
        self.transport.broker.declare(OTHER)

    def come_back(self, ids: Iterable[str]) -> None:
        """Let consumers fail what was sent to them."""
        known = [self.message(key) for key in ids]
        self.receive(
            *(
                failure(
                    stamped_id=row["unique_message_id"],
                    message_id=row["message_id"],
                    queue=row["queue"],
                    retry_id=row["last_retry_id"],
                    message_type=row["message_type"],
                )
                for row in known
            )
        )

    def confirm_all(self, ids: Iterable[str]) -> None:
        """Let consumers confirm what was sent to them."""
        for key in ids:
            self.confirm(key)

    def break_down(self, queue: str = "orders", **changes: Any) -> list[str]:
        """Let four messages fail, be retried and come back: enough to open the breaker."""
        ids = self.fail(4, queue=queue, **changes)
        self.ask(ids)
        self.work()
        self.come_back(ids)
        return ids

    def let_pass(self) -> None:
        """Let the time pass for which breakers wait."""
        let_pass(self)

    def breaker(self, key: str = "orders") -> dict[str, Any]:
        """Return the row of a breaker."""
        return self.rows(select(breakers).where(breakers.c.breaker_key == key))[0]

    def state(self, key: str = "orders") -> str:
        """Return the state of a breaker."""
        return str(self.breaker(key)["state"])

    def counted(self, key: str = "orders") -> tuple[int, int, int, int]:
        """Return what was counted for a breaker since it changed: sent, returned, back, confirmed."""
        counts = breaker_counts.c
        names = (counts.sent, counts.returned, counts.came_back, counts.confirmed)
        query = (
            select(*(func.coalesce(func.sum(each), 0).label(each.name) for each in names))
            .join(breakers, breakers.c.breaker_id == counts.breaker_id)
            .where(breakers.c.breaker_key == key, counts.since >= breakers.c.changed_at)
        )
        row = self.rows(query)[0]
        return row["sent"], row["returned"], row["came_back"], row["confirmed"]

    def set(self, key: str, state: BreakerState, **parts: Any) -> HandedBreaker:
        """Let a person open or close a breaker."""
        given = {"lasts": None, "who": "ada", "why": None, **parts}
        return set_breaker(self.db, parse_key(key), state, **given)

    def empty(self, queue: str) -> None:
        """Let consumers take what lies in a queue."""
        self.transport.broker.delete(queue)
        self.transport.broker.declare(queue)

    def age_trial(self) -> None:
        """Let the cooldown be over since the trial was sent."""
        with self.db.engine.begin() as conn:
            conn.execute(update(breakers).values(cooldown_ms=0))

    def archive_all_claimed(self) -> None:
        """Let a person archive everything that is claimed."""
        apply_action(self.db, Action(act=Act.ARCHIVE, who="ada"), tuple(self.claims()))

    def rows_of_breakers(self) -> int:
        """Return how many breakers there are."""
        return len(self.rows(select(breakers.c.breaker_id)))

    def sent_to(self, *queues: str) -> list[str]:
        """Return what lies in these queues."""
        return [key for queue in queues for key in self.sent(queue)]

    def claims_without_breaker(self) -> int:
        """Return how many claims no breaker counts."""
        claims = failed_message_retries.c
        return len(self.rows(select(claims.number).where(claims.breaker_id.is_(None))))


def let_pass(bench: Bench) -> bool:
    """Let the time pass for which breakers wait; say whether there was any."""
    now = select(func.max(breakers.c.changed_at)).scalar_subquery()
    waits = update(breakers).where(breakers.c.due_at.is_not(None)).values(due_at=now)
    held = update(breakers).where(breakers.c.hand.is_not(None)).values(hand_until=now)
    with bench.db.engine.begin() as conn:
        return bool(conn.execute(waits).rowcount + conn.execute(held).rowcount)

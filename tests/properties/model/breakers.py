"""Breakers as marking finds them, and what a cut may take of their queues, in the plainest words."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sqlalchemy import select

from retrier.domain.breakers import BreakerState
from retrier.store.engine.database import Database
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import breakers, failed_messages, message_redirects

rows = breakers.c
_NOT_CLOSED = select(
    rows.name,
    rows.state,
    rows.hand,
    rows.hand_until,
    rows.trial_number,
    failed_messages.c.unique_message_id,
).outerjoin_from(breakers, failed_messages, failed_messages.c.number == rows.trial_number)
_REDIRECTS = select(message_redirects.c.from_queue, message_redirects.c.to_queue)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Which queues get nothing, and which get one message: any, or the one that is named."""

    nothing: frozenset[str] = frozenset()
    one: Mapping[str, str | None] = field(default_factory=dict)
    redirects: Mapping[str, str] = field(default_factory=dict)

    def judge(self, taken: Iterable[tuple[str, str]]) -> Iterator[str]:
        """Yield what a cut may not have taken; messages come with the queues where they failed."""
        found = [(key, self.redirects.get(queue, queue)) for key, queue in taken]
        for key, target in found:
            if target in self.nothing:
                yield f"{key} was cut for {target}, whose breaker is open"
            wanted = self.one.get(target)
            if wanted is not None and wanted != key:
                yield f"{key} was cut for {target}, which {wanted} tries"
        numbers = Counter(target for _, target in found if target in self.one)
        for target, number in numbers.items():
            if number > 1:
                yield f"{number} messages were cut to try {target}"


def look_at_breakers(db: Database) -> Holding:
    """Return what they hold now; a look from outside, which no fault can meet."""
    return Database.read(db, _look)


def _look(tx: Transaction) -> Holding:
    nothing: set[str] = set()
    one: dict[str, str | None] = {}
    for name, state, hand, until, number, key in tx.execute(_NOT_CLOSED):
        by_hand = hand is not None and tx.now < until
        now = hand if by_hand else state
        if now == BreakerState.OPEN:
            nothing.add(name)
        elif now == BreakerState.HALF_OPEN:
            one[name] = None if number is None else key
    redirects = {row[0]: row[1] for row in tx.execute(_REDIRECTS)}
    return Holding(nothing=frozenset(nothing), one=one, redirects=redirects)

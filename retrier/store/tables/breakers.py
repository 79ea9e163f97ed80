"""Breakers (`breakers`): added when something is first counted or held, and turned."""

from collections.abc import Mapping, Sequence

from sqlalchemy import bindparam, or_, select, update

from retrier.domain.breaker import Breaker, BreakerKey, BreakerState, BreakerTerms
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.schema import breakers, failed_message_retries
from retrier.store.tables.event_log import short

columns = breakers.c
claims = failed_message_retries.c

GRAINS = 20
"""Into how many parts the time is divided in which what was sent counts."""
_NOT_CLOSED = or_(columns.state != BreakerState.CLOSED, columns.hand.is_not(None))
_BEGIN_TRIAL = (
    update(breakers)
    .where(
        columns.breaker_id == bindparam("breaker"),
        columns.state == BreakerState.HALF_OPEN,
        columns.trial_number.is_(None),
    )
    .values(
        trial_number=bindparam("number"),
        trial_retry_id=select(claims.retry_id)
        .where(claims.number == bindparam("number"), claims.batch_id == bindparam("batch"))
        .scalar_subquery(),
    )
)


def add_unknown(tx: Transaction, keys: Sequence[BreakerKey]) -> None:
    """Add a closed breaker for each of these keys that has none."""
    for key in sorted(keys):
        row = {
            "breaker_key": str(key),
            "per": key.per,
            "name": key.name,
            "state": BreakerState.CLOSED,
            "changed_at": tx.now,
        }
        tx.execute(tx.sql.insert(breakers).values(row).on_conflict_do_nothing())


def lock(tx: Transaction, keys: Sequence[BreakerKey]) -> Mapping[str, StoredRow]:
    """Lock the breakers of these keys; return their rows by key."""
    those = tx.sql.member(columns.breaker_key, sorted(map(str, keys)))
    query = select(breakers).where(those).order_by(columns.breaker_id).with_for_update()
    return {row.breaker_key: row for row in tx.execute(query)}


def lock_not_closed(tx: Transaction) -> Sequence[StoredRow]:
    """Lock the breakers that are not closed, or that a person has set; return their rows.

    Who closes one waits for the caller: so it finds what the caller left out because of it.
    """
    query = select(breakers).where(_NOT_CLOSED).order_by(columns.breaker_id).with_for_update()
    return tx.execute(query).all()


def follows(row: StoredRow, rule: str, terms: BreakerTerms) -> bool:
    """Whether a breaker follows these terms already."""
    return (row.rule, row.grain_ms, row.last_outcomes) == (rule, _grain(terms), terms.last)


def follow_rule(tx: Transaction, breaker_id: int, rule: str, terms: BreakerTerms) -> None:
    """Note whose terms a breaker follows, and how finely its outcomes are counted."""
    followed = {"rule": rule, "grain_ms": _grain(terms), "last_outcomes": terms.last}
    tx.execute(update(breakers).where(columns.breaker_id == breaker_id).values(followed))


def _grain(terms: BreakerTerms) -> int:
    return max(1, int(terms.time.total_seconds() * 1000) // GRAINS)


def write(tx: Transaction, breaker: Breaker) -> None:
    """Write a breaker that the caller has locked, as it is now."""
    trial, hand = breaker.trial, breaker.hand
    written = {
        "state": breaker.state,
        "changed_at": breaker.changed_at,
        "opened_at": breaker.opened_at,
        "due_at": breaker.due_at,
        "cooldown_ms": round(breaker.cooldown.total_seconds() * 1000),
        "sent": breaker.sent,
        "failed": breaker.failed,
        "confirms": breaker.confirms,
        "trial_number": None if trial is None else trial.number,
        "trial_retry_id": None if trial is None else trial.retry_id,
        "hand": None if hand is None else hand.state,
        "hand_until": None if hand is None else hand.until,
        "hand_who": None if hand is None else short(hand.who),
        "hand_why": None if hand is None else short(hand.why),
    }
    key = columns.breaker_id == breaker.breaker_id
    tx.execute(update(breakers).where(key).values(written))


def begin_trial(tx: Transaction, breaker_id: int, batch_id: str, number: int) -> None:
    """Note which claim of a batch tries a half-open breaker."""
    tx.execute(_BEGIN_TRIAL, {"breaker": breaker_id, "batch": batch_id, "number": number})

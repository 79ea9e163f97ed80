"""Breakers (`breakers`): added when something is first counted or held, and turned."""

from collections.abc import Mapping, Sequence

from sqlalchemy import bindparam, or_, select, update

from retrier.domain.breakers import Breaker, BreakerKey, BreakerState, BreakerTerms
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

# One statement that is sent once for each row, all at once: a round trip for each would take a
# second when a thousand breakers turn together.
_ONE = columns.breaker_id == bindparam("breaker")
_FOLLOW_RULE = (
    update(breakers)
    .where(_ONE)
    .values({name: bindparam(name) for name in ("rule", "grain_ms", "last_outcomes")})
)
_WRITTEN = (
    *("state", "changed_at", "opened_at", "due_at", "cooldown_ms", "sent", "failed", "confirms"),
    *("trial_number", "trial_retry_id", "hand", "hand_until", "hand_who", "hand_why"),
)
_WRITE = update(breakers).where(_ONE).values({name: bindparam(name) for name in _WRITTEN})


def add_unknown(tx: Transaction, keys: Sequence[BreakerKey]) -> None:
    """Add a closed breaker for each of these keys that has none."""
    if not keys:
        return
    known = sorted((str(key), key) for key in keys)
    columns_of = {
        "breaker_key": [text for text, _ in known],
        "per": [key.per.value for _, key in known],
        "name": [key.name for _, key in known],
    }
    same = {"state": BreakerState.CLOSED, "changed_at": tx.now}
    tx.sql.add_missing(tx.conn, breakers, columns_of, same)


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


def follow_rules(tx: Transaction, followed: Mapping[int, tuple[str, BreakerTerms]]) -> None:
    """Note whose terms breakers follow, and how finely their outcomes are counted."""
    rows = [
        {"breaker": key, "rule": rule, "grain_ms": _grain(terms), "last_outcomes": terms.last}
        for key, (rule, terms) in sorted(followed.items())
    ]
    if rows:
        tx.execute(_FOLLOW_RULE, rows)


def _grain(terms: BreakerTerms) -> int:
    return max(1, int(terms.time.total_seconds() * 1000) // GRAINS)


def write(tx: Transaction, turned: Sequence[Breaker]) -> None:
    """Write breakers that the caller has locked, as they are now."""
    if turned:
        tx.execute(_WRITE, [_row(each) for each in turned])


def _row(breaker: Breaker) -> dict[str, object]:
    trial, hand = breaker.trial, breaker.hand
    return {
        "breaker": breaker.breaker_id,
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


def begin_trials(tx: Transaction, batch_id: str, trials: Mapping[int, int]) -> None:
    """Note which claims of a batch try half-open breakers."""
    rows = [
        {"breaker": breaker_id, "batch": batch_id, "number": number}
        for breaker_id, number in sorted(trials.items())
    ]
    if rows:
        tx.execute(_BEGIN_TRIAL, rows)

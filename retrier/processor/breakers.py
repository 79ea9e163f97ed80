"""Breakers: decided before each cut, and applied to what is cut and staged."""

from collections.abc import Mapping, Sequence

from retrier.domain.breakers import (
    LONGEST_NAME,
    Breaker,
    BreakerKey,
    BreakerState,
    Close,
    EndHand,
    Open,
    Per,
    TryOne,
    Verdict,
    judge,
)
from retrier.domain.retry_batch import ClaimedMessage, RetryBatch
from retrier.events.processor import (
    BreakerClosed,
    BreakerHalfOpened,
    BreakerHandEnded,
    BreakerOpened,
    ClaimsHeldBack,
)
from retrier.processor.stage_context import StageContext
from retrier.store.breaker_lists import look_at_breakers, read_not_closed
from retrier.store.breakers import (
    CountedClaims,
    Counting,
    TurnedBreaker,
    hold_back,
    turn_breakers,
)
from retrier.store.forwarding import load_claimed

_AT_ONCE = 200
"""Breakers that one transaction turns at most."""


class Breaking:
    """Turns breakers, and keeps back what they hold; to be asked only while they are used."""

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self._watch = context.breakers
        self._decided_at: float | None = None

    def decide(self, *, at_most_every: float = 0) -> bool:
        """Decide about all breakers; return whether one was turned.

        Not again within so many seconds (`at_most_every`). Raises LeaseLost, DatabaseUnavailable.
        """
        context, rules, now = self._context, self._watch.rules(), self._context.clock.monotonic()
        if self._decided_at is not None and now < self._decided_at + at_most_every:
            return False
        self._decided_at = now
        looked = look_at_breakers(context.db, rules)
        verdicts = []
        for each in looked.seen:
            terms = rules.terms_of(each.breaker.rule)
            verdict = judge(each.breaker, terms, each.evidence, each.trial, looked.at)
            if verdict is not None:
                verdicts.append((each.breaker, verdict))
        if not verdicts:
            return False
        turned = False
        # Some at a time: all breakers of an outage turn together, and each has a row and an event.
        for begin in range(0, len(verdicts), _AT_ONCE):
            some = verdicts[begin : begin + _AT_ONCE]
            for one in turn_breakers(context.db, context.lease.fence, some):
                self._watch.may_hold |= one.breaker.state is not BreakerState.CLOSED
                self._tell(one)
                turned = True
        return turned

    def load(self, batch: RetryBatch) -> Sequence[ClaimedMessage]:
        """Load the claims of a batch in Staging, without those that a breaker holds.

        Raises LeaseLost, DatabaseUnavailable.
        """
        context = self._context
        claimed = load_claimed(context.db, batch.batch_id, for_breakers=True)
        held = _held(read_not_closed(context.db), claimed) if self._watch.may_hold else {}
        if not held:
            return claimed
        freed = hold_back(context.db, context.lease.fence, batch, held)
        if freed:
            key, operation_id = batch.batch_id, batch.operation_id
            context.emit(ClaimsHeldBack(batch_id=key, operation_id=operation_id, size=len(freed)))
        return [each for each in claimed if each.number not in freed]

    def count(self, claimed: Sequence[ClaimedMessage]) -> Counting:
        """Say which breakers count what becomes of these claims."""
        rules = self._watch.rules()
        numbers: dict[tuple[BreakerKey, str], list[int]] = {}
        for each in claimed:
            rule = rules.rule_of(each.policy)
            terms = rules.terms_of(rule)
            if rule is None or terms is None:
                continue
            key = key_of(each, terms.per)
            if key is not None:
                numbers.setdefault((key, rule), []).append(each.number)
        counted = (
            CountedClaims(key=key, rule=rule, numbers=tuple(found))
            for (key, rule), found in numbers.items()
        )
        return Counting(claims=tuple(counted), rules=rules)

    def _tell(self, turned: TurnedBreaker) -> None:
        event = _EVENTS.get(type(turned.verdict))
        if event is not None and turned.words is not None:
            self._context.emit(event(breaker=str(turned.breaker.key), words=turned.words))


_EVENTS: Mapping[
    type[Verdict],
    type[BreakerOpened | BreakerHalfOpened | BreakerClosed | BreakerHandEnded],
] = {
    Open: BreakerOpened,
    TryOne: BreakerHalfOpened,
    Close: BreakerClosed,
    EndHand: BreakerHandEnded,
}


def key_of(claimed: ClaimedMessage, per: Per) -> BreakerKey | None:
    """Return what a breaker of this kind is for with this message; None if there is no such one."""
    name = claimed.destination if per is Per.DESTINATION else claimed.message_type
    if not name or len(name) > LONGEST_NAME:
        return None
    return BreakerKey(per=per, name=name)


def _held(
    not_closed: Sequence[Breaker], claimed: Sequence[ClaimedMessage]
) -> Mapping[int, Sequence[int]]:
    """Return the numbers of what each of these breakers is for."""
    ids = {each.key: each.breaker_id for each in not_closed}
    held: dict[int, list[int]] = {}
    for message in claimed:
        for per in Per:
            key = key_of(message, per)
            if key in ids:
                held.setdefault(ids[key], []).append(message.number)
    return held

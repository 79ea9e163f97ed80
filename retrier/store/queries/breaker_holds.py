"""Which messages a cut leaves out because of breakers, and the one that tries a half-open one."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from sqlalchemy import ColumnElement, and_, exists, false, func, literal, or_, select

from retrier.domain.breaker import Breaker, BreakerState, Per, Trial
from retrier.domain.breaker_words import why_waiting
from retrier.domain.retry_operation import RetryOperation
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.breakers import NOT_CLOSED, breaker_from_row
from retrier.store.queries.cuts import free_messages, next_free
from retrier.store.queries.left_out import LeftOut
from retrier.store.queries.selections import MOST_CAUSES
from retrier.store.queries.stream_order import IS_HELD
from retrier.store.schema import breakers, causes, failed_messages, message_redirects

messages = failed_messages.c
redirects = message_redirects.c
_ID = breakers.c.breaker_id

_TO = func.coalesce(redirects.to_queue, causes.c.destination)
_CAUSES_WITH_TARGETS = select(causes.c.cause_id).outerjoin(
    message_redirects, redirects.from_queue == causes.c.destination
)
NO_RETRY = ""
"""Stands for the retry id of a trial that is not claimed yet."""


def find_left_out(
    tx: Transaction, operation: RetryOperation, not_closed: Sequence[Breaker]
) -> LeftOut | None:
    """Return what a cut of this operation leaves out because of these breakers; None if nothing.

    Of a half-open one, one message is not left out; `trials` says which.
    """
    held = [each for each in not_closed if each.state_at(tx.now) is not BreakerState.CLOSED]
    if not held:
        return None
    held = list(_with_trials(tx, operation, held))
    reasons = (why_waiting(each, tx.now) for each in held)
    return LeftOut(
        condition=or_(false(), *_conditions(tx, operation, held)),
        reason="; ".join(each for each in reasons if each is not None),
        trials=dict(_new_trials(held)),
        tell=partial(_tell_waiting, held),
    )


def hold_by_breakers(tx: Transaction, operation: RetryOperation) -> LeftOut | None:
    """Return what a cut of this operation leaves out; it locks the breakers that are not closed.

    Who closes one of them waits for this cut: then it finds what the cut has left out.
    """
    rows = tx.execute(select(breakers).where(NOT_CLOSED).order_by(_ID).with_for_update())
    return find_left_out(tx, operation, [breaker_from_row(row) for row in rows])


def held_by(
    tx: Transaction, destination: str | None, held: Sequence[Breaker]
) -> ColumnElement[bool]:
    """Return the condition that one of these is for a message of an operation with a destination.

    The causes are looked up before: with a subquery the database cannot know how many match.
    """
    queues = [each.key.name for each in held if each.key.per is Per.DESTINATION]
    types = [each.key.name for each in held if each.key.per is Per.MESSAGE_TYPE]
    if destination is not None and destination in queues:
        return literal(True)  # noqa: FBT003 - SQL
    to_queues = false() if destination is not None else _TO.in_(queues)
    wanted = _CAUSES_WITH_TARGETS.where(or_(to_queues, causes.c.message_type.in_(types)))
    found = tx.execute(wanted.limit(MOST_CAUSES + 1)).scalars().all()
    if len(found) > MOST_CAUSES:
        return messages.cause_id.in_(wanted)
    return tx.sql.member(messages.cause_id, found)


def _with_trials(
    tx: Transaction, operation: RetryOperation, held: Sequence[Breaker]
) -> Sequence[Breaker]:
    """Choose a trial for each of these that wants one, one after the other.

    None that another holds: it cannot go, and so cannot try. Who is still to choose excludes
    nothing, and may choose the same message: else two of the same messages would wait for ever.
    """
    untried = [each for each in held if _wants_trial(tx, each)]
    chosen = [each for each in held if each not in untried]
    for each in untried:
        chosen.append(_with_trial(tx, operation, each, chosen))
    return chosen


def _wants_trial(tx: Transaction, breaker: Breaker) -> bool:
    return breaker.state_at(tx.now) is BreakerState.HALF_OPEN and breaker.trial is None


def _with_trial(
    tx: Transaction, operation: RetryOperation, breaker: Breaker, others: Sequence[Breaker]
) -> Breaker:
    """Choose the first message that this operation may take and that none of the others holds."""
    query, known = next_free(tx, operation)
    mine = held_by(tx, operation.destination, [breaker])
    theirs = or_(false(), *_conditions(tx, operation, others))
    # What a stream holds cannot go, and so cannot try: the breaker would wait for it.
    query = query.where(mine, ~theirs, ~IS_HELD)
    number = tx.execute(query, {**known, "most": 1}).scalars().first()
    trial = None if number is None else Trial(number=number, retry_id=NO_RETRY)
    return replace(breaker, trial=trial)


def _conditions(
    tx: Transaction, operation: RetryOperation, held: Sequence[Breaker]
) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions that one of these holds a message, except what tries it."""
    # Those that nothing tries are one condition: one look-up, and one comparison for each message.
    plain = [each for each in held if each.trial is None]
    for each in held:
        if each.trial is not None:
            yield _except_trial(held_by(tx, operation.destination, [each]), each)
    if plain:
        yield held_by(tx, operation.destination, plain)


def _except_trial(condition: ColumnElement[bool], breaker: Breaker) -> ColumnElement[bool]:
    trial = breaker.trial
    return condition if trial is None else and_(condition, messages.number != trial.number)


def _tell_waiting(
    held: Sequence[Breaker], tx: Transaction, operation: RetryOperation
) -> str | None:
    """Say which of these breakers hold messages of an operation; None if none does.

    One that holds none of them must not be waited for: nobody would look again when others let go.
    """
    known = {"floor": 0, "cut_off": operation.cut_off}
    waited_for = []
    for each in held:
        mine = _except_trial(held_by(tx, operation.destination, [each]), each)
        query = select(exists().where(*free_messages(tx, operation), mine))
        why = why_waiting(each, tx.now)
        if why is not None and tx.execute(query, known).scalar_one():
            waited_for.append(why)
    return "; ".join(waited_for) or None


def _new_trials(held: Sequence[Breaker]) -> Iterator[tuple[int, int]]:
    for each in held:
        if each.trial is not None and each.trial.retry_id == NO_RETRY:
            yield each.breaker_id, each.trial.number

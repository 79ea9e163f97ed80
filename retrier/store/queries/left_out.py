"""What a cut leaves out because something else holds it: a breaker, or the order of a stream."""

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import ColumnElement, or_

from retrier.domain.retry_operation import RetryOperation
from retrier.store.engine.transaction import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Which messages a cut must leave out for now, and why: something else holds them.

    An operation is not completed while it has left out some; `look_again` lets it find them. With
    `looks_again` it does so by itself. `tell` gives the reason in the words of its first message
    that is left out, None if there is none any more. `skip` gives reasons against named messages:
    without it these are not left out. `trials` are half-open breakers, each with the message, not
    left out, that tries it. `parts` are the several things that hold.
    """

    condition: ColumnElement[bool]
    reason: str
    looks_again: bool = False
    tell: Callable[[Transaction, RetryOperation], str | None] | None = None
    skip: Callable[[Transaction, Sequence[int]], Mapping[int, str]] | None = None
    trials: Mapping[int, int] = field(default_factory=dict)
    parts: Sequence["LeftOut"] = ()


WhatHolds = Callable[[Transaction, RetryOperation], LeftOut | None]
"""Looks at what a cut of an operation must leave out now; None if nothing."""


def hold_nothing(tx: Transaction, operation: RetryOperation) -> None:
    """Hold no message."""


def join_left_out(*given: LeftOut | None) -> LeftOut | None:
    """Return what all of them leave out; None if none does."""
    parts = tuple(each for each in given if each is not None)
    if not parts:
        return None
    return LeftOut(
        condition=or_(*(each.condition for each in parts)),
        reason="; ".join(each.reason for each in parts),
        trials=dict(ChainMap(*(dict(each.trials) for each in parts))),
        parts=parts,
    )


def find_reasons(
    tx: Transaction, operation: RetryOperation, left_out: LeftOut
) -> Sequence[tuple[LeftOut, str]]:
    """Return what still holds messages of an operation, each with its reason."""
    told = (
        (part, part.reason if part.tell is None else part.tell(tx, operation))
        for part in left_out.parts or (left_out,)
    )
    return [(part, why) for part, why in told if why is not None]

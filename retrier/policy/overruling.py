"""What overrules a rule: a message that may be a copy, and a retry that was reverted."""

from dataclasses import replace

from retrier.domain.decision import Dead, Judgement, Manual, RetryAt
from retrier.domain.retry_batch import Ejected
from retrier.domain.text import clean

_BROKERS_WORDS = 600
"""Bytes of the broker's words where a decision adds its own: the column holds 1024."""


def unless_copy(judgement: Judgement, copy_of: str | None) -> Judgement:
    """Let a person decide about a message that may be a copy: a retry might do its work twice."""
    decision = judgement.decision
    if copy_of is None or not isinstance(decision, RetryAt):
        return judgement
    why = f"it may be a copy of the message {copy_of}, so it is not retried by itself"
    return replace(judgement, decision=Manual(why=why, policy=decision.policy))


def judge_revert(judgement: Judgement, item: Ejected, *, configured: bool) -> Judgement:
    """Return the judgement with why the retry was reverted; one that can never go is given up.

    A retry that the settings or the headers send to no queue, or to one of Retrier's own, would be
    ejected again each time: with policies the message is dead, without them a person decides.
    """
    decision = judgement.decision
    if item.hopeless and configured:
        dead = Dead(why=item.reason, policy=decision.policy)
        return replace(judgement, decision=dead)
    why = _both(item.reason, decision.why) if decision.why else item.reason
    return replace(judgement, decision=replace(decision, why=why))


def _both(reason: str, why: str) -> str:
    return f"{clean(reason, _BROKERS_WORDS)}; {why}"

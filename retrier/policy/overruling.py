"""What overrules a rule: what stood before, a message that may be a copy, a reverted retry."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import assert_never

from retrier.domain.decision import AGAIN, Dead, Decision, Judgement, Manual, RetryAt
from retrier.domain.failed_message import LastWord
from retrier.domain.receipt import Standing, Stands, what_stands
from retrier.domain.retry_batch import Ejected
from retrier.domain.text import COLUMN_BYTES, clean

_BROKERS_WORDS = 600
"""Bytes of the broker's words where a decision adds its own: the column holds 1024."""

_A_PERSON = ", so a person decides"
_SAID: Mapping[LastWord, str] = MappingProxyType(
    {
        LastWord.DEAD: "declared {} dead",
        LastWord.ARCHIVED: "archived {}",
        LastWord.RESOLVED: "resolved {}",
    }
)


def unless_copy(judgement: Judgement, copy_of: str | None) -> Judgement:
    """Let a person decide about a message that may be a copy: a retry might do its work twice."""
    decision = judgement.decision
    if copy_of is None or not isinstance(decision, RetryAt):
        return judgement
    why = f"it may be a copy of the message {copy_of}, so it is not retried by itself"
    return replace(judgement, decision=Manual(why=why, policy=decision.policy))


def unless_stands(judgement: Judgement, standing: Standing, before: Judgement) -> Judgement:
    """Leave what a person, or an earlier failure, has decided about the message as it was.

    `before` is what was decided; a message that is dead keeps its reason too.
    """
    decision, reason = before.decision, judgement.reason
    match what_stands(standing, decision):
        case Stands.NOTHING:
            return judgement
        case Stands.WORD:
            decision = Manual(why=_why_person(standing))
        case Stands.DECISION:
            reason = before.reason if isinstance(decision, Dead) and before.reason else reason
            decision = _told_again(decision)
        case _ as never:
            assert_never(never)
    own = judgement.failure_reason
    return replace(judgement, reason=reason, decision=decision, own_reason=own)


def _told_again(decision: Decision) -> Decision:
    """Add to the words of what is given up that it has failed again, once."""
    why = decision.why
    if why is None or isinstance(decision, RetryAt) or why.endswith((AGAIN, _A_PERSON)):
        return decision
    return replace(decision, why=clean(why, COLUMN_BYTES - len(AGAIN)) + AGAIN)


def _why_person(standing: Standing) -> str:
    if standing.word is None:
        return f"a second copy of a retry that had failed before failed, too{_A_PERSON}"
    said = _SAID[standing.word].format(standing.of or "it")
    then = "it failed again" if standing.of is None else "it came under a retry of that"
    return f"a person had {said}, and {then}{_A_PERSON}"


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

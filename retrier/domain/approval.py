"""Approval by a second person: what waits for it, who may give it, and what it is given for."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256

from retrier.domain.selection import Selection, WantedDisposition, chosen_parts
from retrier.domain.text import count_messages
from retrier.domain.times import show_time
from retrier.domain.values import dataclass


class ApprovedAct(StrEnum):
    """What waits for approval however few messages it is about.

    ALL   a retry of a selection without any condition.
    EDIT  an edit of a message, or a patch of many.
    """

    ALL = "all"
    EDIT = "edit"


class ApprovalState(StrEnum):
    """How far the approval of an operation is.

    ASKED     nobody has decided yet; nothing of the operation may be cut.
    APPROVED  a second person has approved it: it goes as any other.
    REFUSED   a second person has refused it: it is cancelled.
    LAPSED    nobody decided in time, or it was cancelled before: it is cancelled.
    """

    ASKED = "asked"
    APPROVED = "approved"
    REFUSED = "refused"
    LAPSED = "lapsed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRules:
    """What waits for a second person: more messages than `over`, or one of `acts`.

    What nobody decides about lapses after `lapses_after`, by the database's clock.
    """

    over: int | None = None
    acts: frozenset[ApprovedAct] = frozenset()
    lapses_after: timedelta = timedelta(hours=24)

    def ask_for(self, selection: Selection, total: int) -> bool:
        """Say whether a retry of these messages waits, of which so many were counted."""
        if self.over is not None and total > self.over:
            return True
        return ApprovedAct.ALL in self.acts and is_of_all(selection)

    @property
    def asks_for_edit(self) -> bool:
        """Whether an edit of one message, or a patch of any number, waits."""
        return ApprovedAct.EDIT in self.acts or self.over == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalTerms:
    """By what rules a request waits, and for whom.

    `asked_as` is who asks, as it is compared with who decides. `whole` is how many messages all
    requests are about together of which this is one; `of_all`: together they are about all.
    """

    rules: ApprovalRules
    asked_as: str
    whole: int = 0
    of_all: bool = False

    def ask_for(self, selection: Selection, total: int) -> bool:
        """Say whether a request waits, of which so many messages were counted."""
        by_act = self.of_all and ApprovedAct.ALL in self.rules.acts
        return by_act or self.rules.ask_for(selection, max(total, self.whole))


def is_of_all(selection: Selection) -> bool:
    """Say whether a selection has no condition; the queues of the asker's rights are none.

    To ask for dead messages, too, takes more and not less: that is no condition, either.
    """
    parts = dict(chosen_parts(selection))
    if parts.get("disposition") == WantedDisposition.ANY:
        del parts["disposition"]
    times = (selection.modified, selection.sent_before, selection.sent_to)
    return selection.ids is None and not parts and times == (None, None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """The approval of an operation as stored; its `plan_hash` stands for what is approved.

    `asked_as` and `decided_as` tell people apart, `asked_by` and `decided_by` are how they are shown.
    """

    state: ApprovalState
    plan_hash: str
    total: int
    asked_by: str
    asked_as: str
    asked_at: datetime
    lapses_at: datetime
    decided_at: datetime | None = None
    decided_by: str | None = None
    decided_as: str | None = None

    @property
    def is_asked(self) -> bool:
        """Whether nobody has decided yet."""
        return self.state is ApprovalState.ASKED

    @property
    def why_waiting(self) -> str:
        """Say what its operation waits for."""
        return (
            f"it waits for approval by a second person: {self.asked_by} asked for it, and without "
            f"one it lapses at {show_time(self.lapses_at)}"
        )


def hash_plan(request_hash: str, cut_off: int, total: int) -> str:
    """Return the hash of what is approved: what was asked for, up to where, and how many it was."""
    plan = {"request": request_hash, "cut_off": cut_off, "total": total}
    return sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()


class Verdict(StrEnum):
    """What a second person says of an operation that waits for approval."""

    APPROVE = "approve"
    REFUSE = "refuse"


class ApprovalRefusal(StrEnum):
    """Why a verdict is not taken."""

    UNKNOWN = "no operation has this id"
    NOBODY = "nobody has to show who they are here, so that two persons cannot be told apart"
    NOT_ASKED = "nobody has asked for its approval"
    OWN = "who asked for it decides nothing about it: another person must"
    ROLE = "about an edit or a patch only who may edit decides"
    OTHER_PLAN = "the plan that was named is another one: look again at what is to be approved"
    APPROVED = "it is approved already"
    REFUSED = "it was refused already"
    LAPSED = "its approval has lapsed: it is cancelled, and has to be asked for anew"


DECIDED: Mapping[ApprovalState, ApprovalRefusal] = {
    ApprovalState.APPROVED: ApprovalRefusal.APPROVED,
    ApprovalState.REFUSED: ApprovalRefusal.REFUSED,
    ApprovalState.LAPSED: ApprovalRefusal.LAPSED,
}
"""What is said to who comes after a decision."""

_OUTCOME = {Verdict.APPROVE: ApprovalState.APPROVED, Verdict.REFUSE: ApprovalState.REFUSED}


def outcome_of(verdict: Verdict) -> ApprovalState:
    """Return the state after this verdict."""
    return _OUTCOME[verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decider:
    """Who decides: who they are (`identity`), how they are shown, and which plan they have seen.

    Without a `plan_hash` they decide about the operation as it stands: it cannot change.
    """

    identity: str
    shown: str
    plan_hash: str | None = None
    may_edit: bool = False


FORBIDDEN = frozenset({ApprovalRefusal.OWN, ApprovalRefusal.NOBODY, ApprovalRefusal.ROLE})
"""Refusals because of who decides, and not because of how the operation stands."""


def why_not_decide(
    found: Approval | None, verdict: Verdict, who: Decider, at: datetime, *, of_edit: bool
) -> ApprovalRefusal | None:
    """Return why somebody's verdict is not taken at this time; None if it is, or was by them."""
    if found is None:
        return ApprovalRefusal.NOT_ASKED
    if not who.identity:
        return ApprovalRefusal.NOBODY
    if who.identity == found.asked_as:
        return ApprovalRefusal.OWN
    if of_edit and not who.may_edit:
        return ApprovalRefusal.ROLE
    if who.plan_hash is not None and who.plan_hash != found.plan_hash:
        return ApprovalRefusal.OTHER_PLAN
    if not found.is_asked:
        is_same = found.state is outcome_of(verdict) and found.decided_as == who.identity
        return None if is_same else DECIDED[found.state]
    return ApprovalRefusal.LAPSED if found.lapses_at <= at else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """An operation about which was decided; not `changed` if the same was said before."""

    operation_id: str
    changed: bool


def describe_asked(total: int) -> str:
    """Say what is asked for."""
    return f"approval by a second person is asked for, of {count_messages(total)}"

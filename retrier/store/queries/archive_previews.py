"""What an act on many messages would change, and what it would leave as it is."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import case, func, select

from retrier.domain.archive_operation import Act, ClaimStage, Refusal, distinct, select_for, why_not
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.identity import canonical, is_guid
from retrier.domain.retry_operation import Plan, hash_subject
from retrier.domain.selection import Selection
from retrier.store.engine.database import Database, reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.selections import Condition, conditions, take_cut_off
from retrier.store.schema import failed_message_retries, failed_messages

messages = failed_messages.c
claims = failed_message_retries.c

_STAGE = case(
    (claims.number.is_(None), ClaimStage.NONE.name),
    (claims.forwarded_at.is_not(None), ClaimStage.SENT.name),
    (claims.sending_since.is_(None), ClaimStage.CLAIMED.name),
    else_=ClaimStage.BEING_SENT.name,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePreview:
    """How many messages would change, and for each reason how many would not."""

    total: int
    skipped_because: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAct:
    """What an act would do, and the plan that holds it to that.

    `selection` is what was counted: nothing that comes to match it later.
    """

    preview: ArchivePreview
    plan: Plan
    selection: Selection


def plan_act(db: Database, act: Act, selection: Selection, at: datetime, *more: str) -> PlannedAct:
    """Count what the act would do, and plan it; changes nothing.

    `at` is the time from which the ages in the selection are counted, `more` says what they are.
    The cut-off is taken before: what is on its way into the selection is counted or left out, and
    not in between. Raises DatabaseUnavailable.
    """
    cut_off = take_cut_off(db)
    counted = selection if selection.ids is not None else replace(selection, counted_to=cut_off)
    found = preview_archive(db, act, counted)
    plan = Plan(
        subject=hash_subject(act, selection, *more),
        counted_to=cut_off,
        cut_off=cut_off,
        total=found.total,
        at=at,
    )
    return PlannedAct(preview=found, plan=plan, selection=counted)


@reading
def preview_archive(tx: Transaction, act: Act, selection: Selection) -> ArchivePreview:
    """Count what the act would do now; changes nothing. Raises DatabaseUnavailable."""
    found, unknown = _of(tx, act, selection)
    query = (
        select(messages.status, _STAGE, func.count())
        .outerjoin_from(failed_messages, failed_message_retries, claims.number == messages.number)
        .where(*found)
        .group_by(messages.status, _STAGE)
    )
    counted: Counter[Refusal | None] = Counter()
    for status, stage, number in tx.execute(query):
        counted[why_not(act, FailedMessageStatus(status), ClaimStage[stage])] += number
    if unknown:
        counted[Refusal.UNKNOWN] = unknown - sum(counted.values())
    because = {str(why): number for why, number in counted.items() if why is not None and number}
    return ArchivePreview(total=counted[None], skipped_because=because)


def _of(tx: Transaction, act: Act, selection: Selection) -> tuple[list[Condition], int]:
    """Return the conditions, and of named ids how many were named."""
    if selection.ids is None:
        return conditions(select_for(act, selection)), 0
    ids = distinct(selection.ids)
    known = [canonical(each) for each in ids if is_guid(each)]
    return [tx.sql.member(messages.unique_message_id, known)], len(ids)

"""The rules of verification, by their subject: each with the query for the rows that break it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Double,
    FromClause,
    Select,
    String,
    and_,
    case,
    cast,
    exists,
    func,
    literal,
    or_,
    select,
)

from retrier.domain.approval import ApprovalState
from retrier.domain.archive_operation import Act, ArchiveOperationState
from retrier.domain.copies import NOTICE_ID
from retrier.domain.edits import EditState
from retrier.domain.failed_message import Disposition, FailedMessageStatus, Resolution, RetryEnd
from retrier.domain.retry_batch import RetryBatchStatus
from retrier.domain.retry_operation import (
    STANDING_OPERATION,
    CanaryState,
    RetryOperationState,
    RetryType,
)
from retrier.store.approvals import waits
from retrier.store.schema import (
    SCHEDULED,
    approvals,
    archive_operations,
    breaker_counts,
    breakers,
    causes,
    ended_retries,
    failed_import_sends,
    failed_imports,
    failed_message_retries,
    failed_messages,
    message_edits,
    message_fields,
    message_texts,
    message_words,
    outgoing,
    processing_attempts,
    retry_batch_now_forwarding,
    retry_batches,
    retry_operation_canaries,
    retry_operation_outcomes,
    retry_operations,
)
from retrier.store.schema.operations import OUTCOME_COLUMNS

attempts = processing_attempts.c
ended = ended_retries.c
messages = failed_messages.c
operations = retry_operations.c
claims = failed_message_retries.c
counts = breaker_counts.c
archives = archive_operations.c
batches = retry_batches.c
canaries = retry_operation_canaries.c
edits = message_edits.c
fields = message_fields.c
outcomes = retry_operation_outcomes.c
pointer = retry_batch_now_forwarding.c


def _showing_no_attempt() -> Select[str]:
    own = exists().where(
        attempts.attempt_id == messages.attempt_id,
        attempts.number == messages.number,
        attempts.cause_id == messages.cause_id,
    )
    return select(messages.unique_message_id).where(~own)


def _of_no_message() -> Select[int]:
    known = exists().where(messages.number == attempts.number)
    return select(attempts.attempt_id).where(~known)


def _without_body() -> Select[int]:
    holder = processing_attempts.alias().c
    held = exists().where(
        holder.attempt_id == attempts.same_body_as,
        holder.number == attempts.number,
        holder.body_hash == attempts.body_hash,
        holder.body.is_not(None),
    )
    return select(attempts.attempt_id).where(attempts.same_body_as.is_not(None), ~held)


def _without_cause() -> Select[int]:
    known = exists().where(causes.c.cause_id == attempts.cause_id)
    return select(attempts.attempt_id).where(~known)


def _ended_of_none() -> Select[int]:
    known = exists().where(messages.number == ended.number)
    return select(ended.number).where(~known)


def _ended_though_claimed() -> Select[str]:
    """A retry has a claim or has ended, never both: its id is not used again."""
    claimed = exists().where(claims.number == ended.number, claims.retry_id == ended.retry_id)
    return select(ended.retry_id).where(claimed)


def _sent_of_none() -> Select[str]:
    """A foreign key forbids it; whoever deletes by hand on SQLite has it looked at by nobody."""
    sends = failed_import_sends.c
    kept = exists().where(failed_imports.c.import_id == sends.import_id)
    return select(sends.import_id).where(~kept)


def _copied_of_none() -> Select[int]:
    own = exists().where(
        attempts.attempt_id == outgoing.c.attempt_id, attempts.number == outgoing.c.number
    )
    return select(outgoing.c.outgoing_id).where(~own)


def _presumed_unsent() -> Select[str]:
    sent = exists().where(
        ended.number == messages.number,
        ended.retry_id == messages.last_retry_id,
        ended.outcome == RetryEnd.PRESUMED,
        ended.forwarded_at.is_not(None),
    )
    presumed = messages.resolution == Resolution.PRESUMED
    return select(messages.unique_message_id).where(presumed, ~sent)


def _without_text() -> Select[str]:
    known = exists().where(message_texts.c.text_id == messages.text_id)
    return select(messages.unique_message_id).where(~known)


CONTENT_RULES: Mapping[str, Select[Any]] = MappingProxyType(
    {
        "a message shows one of its own attempts, with the same cause": _showing_no_attempt(),
        "the text by which a message is found is there": _without_text(),
        "every attempt is of a message that is there": _of_no_message(),
        "an attempt without a body names one of its message's that has it": _without_body(),
        "the cause of every attempt is there": _without_cause(),
        "every outgoing row names an attempt that is there": _copied_of_none(),
        "every ended retry is of a message that is there": _ended_of_none(),
        "a retry that has ended has no claim": _ended_though_claimed(),
        "what is being sent of failed imports is kept until it is recorded": _sent_of_none(),
        "a message presumed to have succeeded was sent": _presumed_unsent(),
    }
)


def _dead_for_no_reason() -> Select[str]:
    dead = messages.disposition == Disposition.DEAD
    return select(messages.unique_message_id).where(dead, messages.disposition_reason.is_(None))


def _nameless() -> Select[int]:
    notice = outgoing.c.notice
    nameless = notice[NOTICE_ID].as_string().is_(None)
    return select(outgoing.c.outgoing_id).where(notice.is_not(None), nameless)


def _left_out_though_named() -> Select[str]:
    single = operations.retry_type == RetryType.SINGLE_MESSAGE
    return select(operations.operation_id).where(single, operations.dead_left_out > 0)


DEAD_RULES: Mapping[str, Select[Any]] = MappingProxyType(
    {
        "a dead message says why it is dead": _dead_for_no_reason(),
        "a notice that waits to be sent has its id": _nameless(),
        "an operation for one message leaves out no dead ones": _left_out_though_named(),
    }
)
"""Each query returns the ids of the rows that break the rule."""


_IS_STANDING = operations.operation_id == STANDING_OPERATION
_OVER = (RetryOperationState.COMPLETED, RetryOperationState.CANCELLED)


def _over_or_another() -> Select[str]:
    by_policy = operations.retry_type == RetryType.BY_POLICY
    ended = or_(operations.state.in_(_OVER), operations.cancel_asked)
    return select(operations.operation_id).where(
        or_(and_(_IS_STANDING, or_(ended, ~by_policy)), and_(by_policy, ~_IS_STANDING))
    )


def _miscounted() -> Select[str]:
    counted = operations.forwarded + operations.skipped + operations.failed
    waiting = operations.state == RetryOperationState.WAITING
    return select(operations.operation_id).where(_IS_STANDING, waiting, counted != operations.total)


def _claimed_unscheduled() -> Select[str]:
    """Whoever ends a schedule gives the message another status or failure number."""
    holds = and_(
        messages.status == FailedMessageStatus.UNRESOLVED,
        messages.failure_seq == claims.failure_seq,
    )
    return (
        select(messages.unique_message_id)
        .join_from(failed_message_retries, failed_messages, messages.number == claims.number)
        .where(claims.operation_id == STANDING_OPERATION, holds, ~SCHEDULED)
    )


def _outcomes_do_not_add_up() -> Select[str]:
    waiting = (
        select(claims.operation_id, func.count().label("number"))
        .where(claims.forwarded_at.is_not(None))
        .group_by(claims.operation_id)
        .subquery()
    )
    of_operation = outcomes.operation_id == operations.operation_id
    have_one = sum((outcomes[name] for name in (*OUTCOME_COLUMNS, "unknown")), literal(0))
    counted = func.coalesce(have_one, 0) + func.coalesce(waiting.c.number, 0)
    return (
        select(operations.operation_id)
        .outerjoin_from(retry_operations, retry_operation_outcomes, of_operation)
        .outerjoin(waiting, waiting.c.operation_id == operations.operation_id)
        .where(operations.forwarded != counted)
    )


OUTCOME_RULES: Mapping[str, Select[Any]] = MappingProxyType(
    {
        "what was sent of an operation has an outcome, or a claim that waits for it": (
            _outcomes_do_not_add_up()
        ),
    }
)
"""Each query returns the ids of the rows that break the rule."""


def _begun_unapproved() -> Select[str]:
    """Nothing of it may have been cut, whatever was decided, unless it was approved."""
    unapproved = approvals.c.state != ApprovalState.APPROVED
    return (
        select(operations.operation_id)
        .join_from(retry_operations, approvals)
        .where(unapproved, or_(operations.started_at.is_not(None), operations.batches > 0))
    )


def _asking_otherwise() -> Select[str]:
    """While nobody has decided it is paused; where nobody approved it, it ends."""
    asked = approvals.c.state == ApprovalState.ASKED
    approved = approvals.c.state == ApprovalState.APPROVED
    waits = and_(operations.state == RetryOperationState.PAUSED, ~operations.cancel_asked)
    return (
        select(operations.operation_id)
        .join_from(retry_operations, approvals)
        .where(~approved, or_(and_(asked, ~waits), and_(~asked, ~operations.cancel_asked)))
    )


APPROVAL_RULES: Mapping[str, Select[Any]] = MappingProxyType(
    {
        "nothing is cut off an operation that waits for approval, or did not get it": (
            _begun_unapproved()
        ),
        "an operation that waits for approval is paused, and one that did not get it is cancelled": (
            _asking_otherwise()
        ),
    }
)
"""Each query returns the ids of the rows that break the rule."""


STANDING_RULES: Mapping[str, Select[Any]] = MappingProxyType(
    {
        "the standing operation is the only one by policy, and is neither over nor cancelled": (
            _over_or_another()
        ),
        "while nothing is due, the counts of the standing operation add up to its total": (
            _miscounted()
        ),
        "what the standing operation has claimed and not issued yet is scheduled": (
            _claimed_unscheduled()
        ),
    }
)
"""Each query returns the ids of the rows that break the rule."""


_SCHEDULED = messages.disposition == Disposition.SCHEDULED


def _scheduled_by_none() -> Select[str]:
    return select(messages.unique_message_id).where(_SCHEDULED, messages.policy.is_(None))


def _scheduled_copies() -> Select[str]:
    return select(messages.unique_message_id).where(_SCHEDULED, messages.maybe_copy_of.is_not(None))


def _sent_against_a_word() -> Select[str]:
    on_its_way = messages.status == FailedMessageStatus.RETRY_ISSUED
    return select(messages.unique_message_id).where(
        or_(_SCHEDULED, on_its_way), messages.last_word.is_not(None)
    )


def _decided_though_settled() -> Select[str]:
    settled = messages.status != FailedMessageStatus.UNRESOLVED
    left = or_(messages.policy.is_not(None), messages.disposition_reason.is_not(None))
    return select(messages.unique_message_id).where(settled, left)


def _uncounted() -> Select[str]:
    """One that failed is counted; only a retry that a person asked for begins at 0."""
    decided = and_(messages.policy.is_not(None), messages.failure_count == 0)
    return select(messages.unique_message_id).where(decided)


def _attempts_half_decided() -> Select[int]:
    timed = attempts.retry_at.is_not(None)
    scheduled = attempts.disposition == Disposition.SCHEDULED
    decided, counted = attempts.disposition.is_not(None), attempts.failure_count.is_not(None)
    return select(attempts.attempt_id).where(
        or_(
            and_(decided, ~counted),
            and_(counted, ~decided),
            and_(scheduled, or_(~timed, attempts.policy.is_(None))),
            and_(timed, or_(~decided, ~scheduled)),
        )
    )


POLICY_RULES: Mapping[str, Select[Any]] = MappingProxyType(
    {
        "a message that is scheduled names the policy that decided": _scheduled_by_none(),
        "a message that may be a copy of another is not scheduled": _scheduled_copies(),
        "a message with a person's last word is neither scheduled nor on its way": (
            _sent_against_a_word()
        ),
        "a message that is not unresolved has no decision": _decided_though_settled(),
        "a message about which a policy decided counts a failure": _uncounted(),
        "an attempt has its decision with a count, and the time of a retry if it is scheduled": (
            _attempts_half_decided()
        ),
    }
)
"""Each query returns the ids of the rows that break the rule."""


def _in_half_a_stream() -> Select[str]:
    return select(messages.unique_message_id).where(
        messages.stream_id.is_(None) != messages.stream_queue.is_(None)
    )


def _looks_again_for_nothing() -> Select[str]:
    return select(operations.operation_id).where(
        operations.look_again_at.is_not(None), operations.passed_over.is_(False)
    )


STREAM_RULES: Mapping[str, Select[Any]] = MappingProxyType(
    {
        "a message of a stream names its queue": _in_half_a_stream(),
        "only an operation that is passed over looks again": _looks_again_for_nothing(),
    }
)
"""Each query returns the ids of the rows that break the rule."""


def _is_missing(breaker_id: ColumnElement[int]) -> ColumnElement[bool]:
    return ~exists().where(breakers.c.breaker_id == breaker_id)


def _claims_of_none() -> Select[str]:
    return (
        select(failed_messages.c.unique_message_id)
        .join_from(
            failed_message_retries, failed_messages, failed_messages.c.number == claims.number
        )
        .where(claims.breaker_id.is_not(None), _is_missing(claims.breaker_id))
    )


def _counts_of_none() -> Select[str]:
    return select(cast(counts.breaker_id, String)).where(_is_missing(counts.breaker_id))


BREAKER_RULES: Mapping[str, Select[Any]] = MappingProxyType(
    {
        "a claim that a breaker counts names one that is there": _claims_of_none(),
        "what was counted names a breaker that is there": _counts_of_none(),
    }
)


def _archived_by_none() -> Select[str]:
    known = exists().where(
        archives.operation_id == messages.archive_operation_id, archives.act == Act.ARCHIVE
    )
    named = messages.archive_operation_id.is_not(None)
    return select(messages.unique_message_id).where(named, ~known)


def _taking_more_than_counted() -> Select[str]:
    taken = (
        select(func.count())
        .where(messages.archive_operation_id == archives.operation_id)
        .correlate(archive_operations)
        .scalar_subquery()
    )
    return select(archives.operation_id).where(taken > archives.done)


def _keeping_though_not_archived() -> Select[str]:
    keeps = messages.archived_disposition.is_not(None)
    archived = messages.status == FailedMessageStatus.ARCHIVED
    return select(messages.unique_message_id).where(keeps, ~archived)


def _counting_wrong() -> Select[str]:
    completed = archives.state == ArchiveOperationState.COMPLETED
    settled = _archive_settled()
    wrong = or_(settled > archives.total, completed & (settled != archives.total))
    return select(archives.operation_id).where(wrong)


def _begun_though_waiting() -> Select[str]:
    waiting = archives.state == ArchiveOperationState.WAITING
    begun = or_(archives.cursor > 0, _archive_settled() > 0, archives.started_at.is_not(None))
    return select(archives.operation_id).where(waiting, begun)


def _archive_settled() -> ColumnElement[int]:
    return archives.done + archives.skipped


ARCHIVE_RULES: Mapping[str, Select[Any]] = MappingProxyType(
    {
        "a message that an operation archived names one that is there and archives": (
            _archived_by_none()
        ),
        "no more messages name an archive operation than it has changed": (
            _taking_more_than_counted()
        ),
        "only an archived message keeps what was decided about it before": (
            _keeping_though_not_archived()
        ),
        "the counts of an archive operation add up to its total when it is completed": (
            _counting_wrong()
        ),
        "an archive operation that waits has done nothing": _begun_though_waiting(),
    }
)
"""Each query returns the ids of the rows that break the rule."""


"""Each query returns the ids of the rows that break the rule."""
_UNSENT = (RetryBatchStatus.MARKING, RetryBatchStatus.STAGING)
_PENDING = (FailedMessageStatus.UNRESOLVED, FailedMessageStatus.RETRY_ISSUED)


def _issued_without_claim() -> Select[str]:
    own = exists().where(
        claims.number == messages.number,
        claims.retry_id == messages.last_retry_id,
    )
    issued = messages.status == FailedMessageStatus.RETRY_ISSUED
    return select(messages.unique_message_id).where(issued, ~own)


def _claimed_though_settled() -> Select[str]:
    """Marking locks no message: one settled as it is claimed has the claim until Staging."""
    unstamped = and_(batches.status.in_(_UNSENT), claims.sending_since.is_(None))
    dropped = exists().where(batches.batch_id == claims.batch_id, unstamped)
    return _claimed_messages().where(messages.status.not_in(_PENDING), ~dropped)


def _claimed_though_missing() -> Select[int]:
    known = exists().where(messages.number == claims.number)
    return select(claims.number).where(~known)


def _claimed_by_none() -> Select[str]:
    unsent = exists().where(batches.batch_id == claims.batch_id, batches.status.in_(_UNSENT))
    unresolved = messages.status == FailedMessageStatus.UNRESOLVED
    return _claimed_messages().where(unresolved, ~unsent)


def _unrecorded_of_none() -> Select[str]:
    alive = exists().where(batches.batch_id == claims.batch_id)
    return _claimed_messages().where(claims.forwarded_at.is_(None), ~alive)


def _claimed_later() -> Select[str]:
    """A claim has the failure number that its message had then, and a message's only grows."""
    return _claimed_messages().where(claims.failure_seq > messages.failure_seq)


def _sent_while_unsent() -> Select[str]:
    """A rest moved to a new batch keeps its stamps, so in Staging only a record is wrong."""
    stamped = and_(
        batches.status == RetryBatchStatus.MARKING,
        claims.sending_since.is_not(None),
    )
    recorded = and_(batches.status.in_(_UNSENT), claims.forwarded_at.is_not(None))
    return _claims_of_batches().where(or_(stamped, recorded))


def _claims_of_another_operation() -> Select[str]:
    return _claims_of_batches().where(claims.operation_id != batches.operation_id)


def _forwarding_without_pointer() -> Select[str]:
    pointed = exists().where(pointer.batch_id == batches.batch_id)
    forwarding = batches.status == RetryBatchStatus.FORWARDING
    return select(batches.batch_id).where(
        or_(and_(forwarding, ~pointed), and_(~forwarding, pointed))
    )


def _overfull() -> Select[str]:
    number = (
        select(func.count())
        .where(claims.batch_id == batches.batch_id)
        .correlate(retry_batches)
        .scalar_subquery()
    )
    return select(batches.batch_id).where(
        number > func.coalesce(batches.message_count, batches.initial_size)
    )


def _grown() -> Select[str]:
    return select(batches.batch_id).where(batches.message_count > batches.initial_size)


def _of_closed_operation() -> Select[str]:
    over = operations.state.in_(_OVER)
    return (
        select(batches.batch_id)
        .join_from(retry_batches, retry_operations)
        .where(or_(over, operations.state == RetryOperationState.WAITING))
    )


def _counting_too_much() -> Select[str]:
    unrecorded = _count_unrecorded()
    left = func.coalesce(unrecorded.c.number, 0)
    return (
        select(operations.operation_id)
        .outerjoin_from(
            retry_operations, unrecorded, unrecorded.c.operation_id == operations.operation_id
        )
        .where(_settled() + left > operations.total)
    )


def _count_unrecorded() -> FromClause:
    """Count all claims at once: no index has them by operation, so each would read them all."""
    return (
        select(claims.operation_id, func.count().label("number"))
        .where(claims.forwarded_at.is_(None))
        .group_by(claims.operation_id)
        .subquery()
    )


def _over_with_a_rest() -> Select[str]:
    counted = operations.forwarded + operations.skipped + operations.failed
    return select(operations.operation_id).where(
        operations.state.in_(_OVER), counted != operations.total
    )


def _settled() -> ColumnElement[int]:
    """Count what takes up room: with a limit, others are sent for those that are skipped."""
    limited = and_(operations.message_limit.is_not(None), operations.completed_at.is_(None))
    return operations.forwarded + operations.failed + case((limited, 0), else_=operations.skipped)


def _cancelled_by_nobody() -> Select[str]:
    cancelled = operations.state == RetryOperationState.CANCELLED
    return select(operations.operation_id).where(cancelled, operations.cancel_asked.is_(False))


def _sent_before_the_verdict() -> Select[str]:
    open_ = canaries.state.in_([CanaryState.SENDING, CanaryState.WAITING])
    unrecorded = _count_unrecorded()
    left = func.coalesce(unrecorded.c.number, 0)
    return (
        select(operations.operation_id)
        .join_from(retry_operations, retry_operation_canaries)
        .outerjoin(unrecorded, unrecorded.c.operation_id == operations.operation_id)
        .where(open_, operations.forwarded + operations.failed + left > canaries.size)
    )


def _passed_over_for_nothing() -> Select[str]:
    alive = operations.completed_at.is_(None)
    return select(operations.operation_id).where(
        alive, operations.passed_over, operations.left_out == 0
    )


def _acknowledged_too_early() -> Select[str]:
    return select(operations.operation_id).where(
        operations.acknowledged_at.is_not(None), operations.completed_at.is_(None)
    )


def _claimed_messages() -> Select[str]:
    return select(messages.unique_message_id).join_from(
        failed_message_retries, failed_messages, messages.number == claims.number
    )


def _claims_of_batches() -> Select[str]:
    return _claimed_messages().join(retry_batches, batches.batch_id == claims.batch_id)


def _waiting_without_claim() -> Select[str]:
    own = exists().where(
        claims.number == edits.number,
        claims.edit_id == edits.edit_id,
        claims.retry_id == edits.retry_id,
        claims.forwarded_at.is_(None),
    )
    asked = waits(edits.operation_id)
    unsent = edits.state == EditState.WAITING
    return select(edits.edit_id).where(unsent, or_(and_(~asked, ~own), and_(asked, own)))


def _claimed_for_no_edit() -> Select[str]:
    """An edit's operation has no claim that would send the message as it was."""
    waits = exists().where(edits.edit_id == claims.edit_id, edits.state == EditState.WAITING)
    of_edit = exists().where(
        operations.operation_id == claims.operation_id, operations.retry_type == RetryType.EDIT
    )
    named = claims.edit_id.is_not(None)
    return _claimed_messages().where(or_(and_(named, ~waits), and_(of_edit, ~named)))


def _edited_unsent() -> Select[str]:
    sent = exists().where(edits.number == messages.number, edits.state == EditState.SENT)
    edited = messages.resolution == Resolution.EDITED
    return select(messages.unique_message_id).where(edited, ~sent)


def _sent_unrecorded() -> Select[str]:
    recorded = exists().where(
        ended.number == edits.number,
        ended.retry_id == edits.retry_id,
        ended.outcome == RetryEnd.EDITED,
        ended.forwarded_at.is_not(None),
    )
    return select(edits.edit_id).where(edits.state == EditState.SENT, ~recorded)


def _edits_of_none() -> Select[str]:
    known = exists().where(messages.number == edits.number)
    return select(edits.edit_id).where(~known)


def _fields_of_none() -> Select[int]:
    known = exists().where(messages.number == fields.number)
    return select(fields.number).where(~known)


_SURE_DIGITS = 15
"""So many digits are a floating-point number of just that value."""


def _fields_of_another_number() -> Select[int]:
    is_whole = and_(
        func.length(fields.value) <= _SURE_DIGITS, func.rtrim(fields.value, "0123456789") == ""
    )
    # Only digits are cast: PostgreSQL refuses to make a number of anything else.
    number = case((is_whole, cast(fields.value, Double)))
    return select(fields.number).where(
        is_whole, or_(fields.comparable.is_(None), fields.comparable != number)
    )


def _words_of_none() -> Select[int]:
    known = exists().where(messages.number == message_words.c.number)
    return select(message_words.c.number).where(~known)


FIELD_RULES: Mapping[str, Select[Any]] = MappingProxyType(
    {
        "every value of a field is of a message that is there": _fields_of_none(),
        "a value of digits has the number that it is": _fields_of_another_number(),
    }
)
"""Each query returns the ids of the rows that break the rule."""


WORD_RULES: Mapping[str, Select[Any]] = MappingProxyType(
    {"words are of a message that is there": _words_of_none()}
)
"""Each query returns the ids of the rows that break the rule."""


EDIT_RULES: Mapping[str, Select[Any]] = MappingProxyType(
    {
        "an edit that waits has the claim of its message, or waits for approval": (
            _waiting_without_claim()
        ),
        "a claim of an edit sends one that waits": _claimed_for_no_edit(),
        "a message resolved as edited has an edit that was sent": _edited_unsent(),
        "an edit that was sent is recorded as forwarded": _sent_unrecorded(),
        "every edit is of a message that is there": _edits_of_none(),
    }
)
"""Each query returns the ids of the rows that break the rule."""


RULES: Mapping[str, Select[Any]] = MappingProxyType(
    {
        "a message whose retry was issued has the claim of that retry": _issued_without_claim(),
        "a message that is resolved or archived has no claim that could still be sent": (
            _claimed_though_settled()
        ),
        "every claim is of a message that is there": _claimed_though_missing(),
        "a claim was taken at the newest failure of its message, or at an earlier one": (
            _claimed_later()
        ),
        "the claim of an unresolved message is of a batch in Marking or Staging": (
            _claimed_by_none()
        ),
        "a claim without a batch alive is recorded as forwarded": _unrecorded_of_none(),
        "a claim of a batch in Marking is not stamped, and one in Staging is not recorded": (
            _sent_while_unsent()
        ),
        "a claim names the operation of its batch": _claims_of_another_operation(),
        "the batch in Forwarding, and no other, is the one now forwarding": (
            _forwarding_without_pointer()
        ),
        "a batch has no more claims than its size": _overfull(),
        "a batch in Forwarding has no more messages than it was marked with": _grown(),
        "every batch belongs to an operation that is under way": _of_closed_operation(),
        "an operation counts no more messages than it was asked for": _counting_too_much(),
        "the counts of an operation that is over add up to its total": _over_with_a_rest(),
        "an operation is cancelled only if somebody asked for it": _cancelled_by_nobody(),
        "before its canary is judged, an operation sends nothing else": _sent_before_the_verdict(),
        "an operation is passed over only if it left messages out": _passed_over_for_nothing(),
        "only an operation that is over is acknowledged": _acknowledged_too_early(),
        **STANDING_RULES,
        **APPROVAL_RULES,
        **OUTCOME_RULES,
        **ARCHIVE_RULES,
        **BREAKER_RULES,
        **POLICY_RULES,
        **CONTENT_RULES,
        **STREAM_RULES,
        **DEAD_RULES,
        **EDIT_RULES,
        **FIELD_RULES,
        **WORD_RULES,
    }
)
"""Each query returns the ids of the rows that break the rule."""

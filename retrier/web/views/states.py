"""Why a message is in its state, in one sentence. Its times stay times: each reader has a zone."""

from collections.abc import Sequence
from datetime import datetime

from retrier.domain.decision import AGAIN
from retrier.domain.failed_message import Disposition, FailedMessageStatus, Resolution
from retrier.store.queries.details import MessageDetails
from retrier.store.queries.messages import ListedMessage, ShownClaim
from retrier.web.wording import number, sentence

Sentence = Sequence[str | datetime]


def tell_state(found: MessageDetails, *, waits: bool) -> Sentence:
    """Return why the message is as it is, and what happens next.

    Of one that `waits`, for a breaker, in its stream or else, that is told beside.
    """
    message, claim = found.message, found.claim
    match message.status:
        case FailedMessageStatus.RETRY_ISSUED:
            return _of_retry(claim, found.sent_to)
        case FailedMessageStatus.RESOLVED:
            return _of_resolved(message.resolution, found.resolved_at or message.last_modified)
        case FailedMessageStatus.ARCHIVED:
            return ("It was archived at ", message.last_modified, ": no retry takes it.")
        case _ if claim is not None:
            return (f"{_failed(message)}; a retry has claimed it, and is about to be sent.",)
        case _:
            return _of_unresolved(message, waits=waits)


def tell_badge(message: ListedMessage) -> tuple[str, str]:
    """Return the state in one word, and its tone."""
    if message.status is not FailedMessageStatus.UNRESOLVED:
        return _BADGES[message.status]
    return _BADGES_OF_UNRESOLVED.get(message.disposition, ("unresolved", "bad"))


_BADGES = {
    FailedMessageStatus.RETRY_ISSUED: ("being retried", "wait"),
    FailedMessageStatus.RESOLVED: ("resolved", "good"),
    FailedMessageStatus.ARCHIVED: ("archived", ""),
}
_BADGES_OF_UNRESOLVED = {
    Disposition.DEAD: ("dead", "bad"),
    Disposition.SCHEDULED: ("scheduled", "wait"),
}


def _of_unresolved(message: ListedMessage, *, waits: bool) -> Sentence:
    why = message.disposition_reason
    told = sentence(why) if why else ""
    match message.disposition:
        case Disposition.SCHEDULED if message.retry_at is not None:
            # The time may have passed of one that waits.
            when = "It is due to be tried again at " if waits else "It will be tried again at "
            return (when, message.retry_at, f": {told}" if told else ".")
        case Disposition.DEAD:
            since = f": {told}" if told else "."
            if why is not None and why.endswith(AGAIN):
                # It was changed by its newest failure, and nobody knows any more when it died.
                return (f"Dead{since}", _ONLY_A_PERSON)
            return ("Dead since ", message.last_modified, since, _ONLY_A_PERSON)
        case _:
            ended = f": {told} " if told else ". "
            rest = ended.rstrip() if waits else f"{ended}It waits for a person."
            return (f"{_failed(message)}, last at ", message.last_failure, rest)


_ONLY_A_PERSON = " Only a person's retry takes it."


def _failed(message: ListedMessage) -> str:
    times = "once" if message.attempts == 1 else f"{number(message.attempts)} times"
    return f"It failed {times}"


def _of_retry(claim: ShownClaim | None, sent_to: str | None) -> Sentence:
    if claim is None or claim.sending_since is None:
        return ("Its retry was issued, and is about to be sent.",)
    to = f" to {sent_to}" if sent_to else ""
    if claim.forwarded_at is None:
        return (
            f"Its retry is being sent{to} since ",
            claim.sending_since,
            ", and nobody knows yet whether the broker has it.",
        )
    return (
        f"Its retry was sent{to} at ",
        claim.forwarded_at,
        " and neither succeeded nor failed yet.",
    )


def _of_resolved(resolution: Resolution | None, at: datetime) -> Sentence:
    match resolution:
        case Resolution.CONFIRMED:
            return ("It is resolved: a consumer confirmed at ", at, " that it was handled.")
        case Resolution.PRESUMED:
            return ("It is resolved since ", at, ": its retry was sent long ago, and is not back.")
        case _:
            return ("A person resolved it at ", at, ".")

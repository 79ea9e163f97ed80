"""One window of forwarding: its retries, and what their outcomes mean."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from retrier.domain.copies import StagedCopy
from retrier.domain.retry_batch import Ejected, RevertCause, WindowResult
from retrier.domain.wire import (
    ChannelClosed,
    Confirmed,
    Delivery,
    Outcome,
    Outgoing,
    Refused,
    Returned,
    Unknown,
)

_MOST_BREAKS = 3
"""How often in a row a message sent alone may break the connection before it is reverted."""
_EARLIER_TRY = "an earlier try was left in doubt and may have arrived"
"""Part of the reason, because a person who retries the message may have it handled twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedCopy:
    """A copy under the batch's staging id, the first of its message in this run."""

    delivery: Delivery
    stamps: StagedCopy

    @property
    def number(self) -> int:
        """The number of its message."""
        return self.stamps.number


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyRetry:
    """A copy, and the retry that is sent for it once its claim is stamped."""

    copy: WantedCopy
    outgoing: Outgoing

    @property
    def number(self) -> int:
        """The number of its message."""
        return self.copy.number


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The outcomes of a window, sorted by what to do next.

    `result` is to be recorded, `settled` to be acked after that, and `doubtful` to be sent again
    one by one. `lost` is why the connection broke; None if it did not.
    """

    result: WindowResult
    settled: tuple[ReadyRetry, ...]
    doubtful: tuple[ReadyRetry, ...]
    lost: str | None


@dataclass(frozen=True, slots=True)
class Suspect:
    """The message sent alone that last broke the connection, and how often in a row it did."""

    number: int | None = None
    breaks: int = 0

    def blame(self, number: int, outcome: Outcome) -> tuple["Suspect", Outcome]:
        """Turn the outcome of a message sent alone into Refused, where the message is at fault.

        Only messages in doubt are sent alone, so the reason of one that is returned or refused
        says that an earlier try may have arrived.
        """
        breaks = self.breaks + 1 if self.number == number else 1
        suspect = Suspect(number, breaks) if isinstance(outcome, Unknown) else Suspect()
        return suspect, _judge(outcome, breaks)


def settle(window: Sequence[ReadyRetry], outcomes: Sequence[Outcome]) -> Settlement:
    """Sort a window by its outcomes.

    What a closed channel left unsettled is `doubtful`. What a lost connection left unsettled is in
    none of the parts: the next run reads it from the database as in doubt.
    """
    forwarded, reverted, settled, doubtful = [], [], [], []
    lost = None
    for retry, outcome in zip(window, outcomes, strict=True):
        match outcome:
            case Confirmed():
                forwarded.append(retry.number)
                settled.append(retry)
            case Returned() | Refused():
                reverted.append(_revert(retry, outcome))
                settled.append(retry)
            case ChannelClosed():
                doubtful.append(retry)
            case Unknown(reason):
                lost = reason
            case _ as never:
                assert_never(never)
    return Settlement(
        result=WindowResult(forwarded=tuple(forwarded), reverted=tuple(reverted)),
        settled=tuple(settled),
        doubtful=tuple(doubtful),
        lost=lost,
    )


def _judge(outcome: Outcome, breaks: int) -> Outcome:
    match outcome:
        case ChannelClosed(reason):
            return Refused(reason)
        case Returned(reason):
            return Returned(f"{reason}; {_EARLIER_TRY}")
        case Refused(reason):
            return Refused(f"{reason}; {_EARLIER_TRY}")
        case Unknown(reason) if breaks >= _MOST_BREAKS:
            return Refused(
                f"the connection broke {breaks} times in a row while nothing else was "
                f"sent; it may have arrived: {reason}"
            )
        case _:
            return outcome


def _revert(retry: ReadyRetry, outcome: Returned | Refused) -> Ejected:
    target = retry.outgoing.queue
    is_returned = isinstance(outcome, Returned)
    return Ejected(
        number=retry.number,
        unique_message_id=retry.copy.stamps.unique_message_id,
        reason=_explain(target, outcome),
        cause=RevertCause.RETURNED if is_returned else RevertCause.REFUSED,
        destination=target,
    )


def _explain(target: str, outcome: Returned | Refused) -> str:
    match outcome:
        case Returned(reason):
            return f"queue {target} does not exist ({reason})"
        case Refused(reason):
            return f"the broker would not take the retry to {target}: {reason}"
        case _ as never:
            assert_never(never)

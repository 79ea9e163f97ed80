"""One window of forwarding: the retries it is made of, and what their outcomes mean."""

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
"""So often in a row a message sent alone may break the connection."""
_EARLIER_TRY = "an earlier try was left in doubt and may have arrived"
"""Whoever retries such a message by hand must know that it might be handled twice."""


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
    """What will be sent for a copy, once its claim is stamped."""

    copy: WantedCopy
    outgoing: Outgoing

    @property
    def number(self) -> int:
        """The number of its message."""
        return self.copy.number


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What became of a window: to be recorded, to be acked after that, to be sent once more.

    `lost` is why the connection left some of it unsettled; None if it did not.
    """

    result: WindowResult
    settled: tuple[ReadyRetry, ...]
    doubtful: tuple[ReadyRetry, ...]
    lost: str | None


@dataclass(frozen=True, slots=True)
class Suspect:
    """The message sent alone that broke the connection last, and how often in a row it did."""

    number: int | None = None
    breaks: int = 0

    def blame(self, number: int, outcome: Outcome) -> tuple["Suspect", Outcome]:
        """Turn what befell a message sent alone into a refusal, where it is the message's fault.

        Only what is in doubt is sent alone, so the reason of one that is not taken now says so.
        """
        breaks = self.breaks + 1 if self.number == number else 1
        suspect = Suspect(number, breaks) if isinstance(outcome, Unknown) else Suspect()
        return suspect, _judge(outcome, breaks)


def settle(window: Sequence[ReadyRetry], outcomes: Sequence[Outcome]) -> Settlement:
    """Sort a window by its outcomes.

    What a closed channel leaves unsettled is sent again. What a lost connection leaves unsettled
    is in none of the parts: the next run finds it in the database, in doubt.
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
        reason=f"the broker would not take the retry to {target}: {outcome.reason}",
        cause=RevertCause.RETURNED if is_returned else RevertCause.REFUSED,
        destination=target,
    )

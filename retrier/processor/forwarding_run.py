"""The values of Forwarding: a batch while its copies come, its windows, and their outcomes."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, takewhile
from typing import assert_never

from retrier.domain.copies import StagedCopy
from retrier.domain.retry_batch import (
    NOTHING_FINISHED,
    Ejected,
    RetryBatch,
    RevertCause,
    WindowResult,
)
from retrier.domain.values import dataclass
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
    edited: bool = False

    @property
    def number(self) -> int:
        """The number of its message."""
        return self.copy.number


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSettlement:
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


def settle(window: Sequence[ReadyRetry], outcomes: Sequence[Outcome]) -> WindowSettlement:
    """Sort a window by its outcomes.

    What a closed channel left unsettled is `doubtful`. What a lost connection left unsettled is in
    none of the parts: the next run reads it from the database as in doubt.
    """
    forwarded, reverted, settled, doubtful, edited = [], [], [], [], []
    lost = None
    for retry, outcome in zip(window, outcomes, strict=True):
        match outcome:
            case Confirmed():
                forwarded.append(retry.number)
                settled.append(retry)
                if retry.edited:
                    edited.append(retry.number)
            case Returned() | Refused():
                reverted.append(_revert(retry, outcome))
                settled.append(retry)
            case ChannelClosed():
                doubtful.append(retry)
            case Unknown(reason):
                lost = reason
            case _ as never:
                assert_never(never)
    return WindowSettlement(
        result=WindowResult(
            forwarded=tuple(forwarded), reverted=tuple(reverted), edited=tuple(edited)
        ),
        settled=tuple(settled),
        doubtful=tuple(doubtful),
        lost=lost,
    )


def _judge(outcome: Outcome, breaks: int) -> Outcome:
    match outcome:
        case ChannelClosed(reason):
            return Refused(reason, unsendable=outcome.unsendable)
        case Returned(reason):
            return Returned(f"{reason}; {_EARLIER_TRY}", may_have_arrived=True)
        case Refused(reason):
            told = f"{reason}; {_EARLIER_TRY}"
            return replace(outcome, reason=told, may_have_arrived=True)
        case Unknown(reason) if breaks >= _MOST_BREAKS:
            return Refused(
                f"the connection broke {breaks} times in a row while nothing else was "
                f"sent; it may have arrived: {reason}",
                may_have_arrived=True,
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
        may_have_arrived=outcome.may_have_arrived,
        unsendable=isinstance(outcome, Refused) and outcome.unsendable,
    )


def _explain(target: str, outcome: Returned | Refused) -> str:
    match outcome:
        case Returned(reason):
            return f"queue {target} does not exist ({reason})"
        case Refused(reason, unsendable=True):
            return f"no retry of it can be sent to {target}: {reason}"
        case Refused(reason):
            return f"the broker would not take the retry to {target}: {reason}"
        case _ as never:
            assert_never(never)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardingRun:
    """One batch while its copies come out of the staging queue; ends with the connection.

    With `counting`, the frozen count says when the batch may be done. Otherwise the end marker
    with the nonce `marker` does, and with neither, a time without copies. `seen` has the numbers
    of messages whose copies came. `inbox` has copies not made into retries yet. `ready` is the
    next window, not stamped yet. `doubtful` retries may have been sent already, or shared a window
    with one that closed the channel: they go one by one. `finished` is settled but not recorded,
    `unacked` has its deliveries. `droppable` deliveries may be acked at once. A run that is not
    `connected` is kept only until `finished` is recorded.
    """

    batch: RetryBatch
    counting: bool
    marker: str | None
    began: float
    quiet_since: float
    seen: frozenset[int] = frozenset()
    inbox: tuple[WantedCopy, ...] = ()
    ready: tuple[ReadyRetry, ...] = ()
    doubtful: tuple[ReadyRetry, ...] = ()
    droppable: tuple[Delivery, ...] = ()
    finished: WindowResult = NOTHING_FINISHED
    unacked: tuple[Delivery, ...] = ()
    marker_seen: bool = False
    made_progress: bool = False
    connected: bool = True

    @property
    def arrived(self) -> int:
        """How many copies of the batch have arrived, plus one for the end marker."""
        return len(self.seen) + self.marker_seen

    @property
    def expects_copies(self) -> bool:
        """Whether waiting for copies is all there is to do."""
        return not (self.inbox or self.ready or self.finished or self.marker_seen)

    @property
    def misses_marker(self) -> bool:
        """Whether an end marker was published and has not arrived."""
        return self.marker is not None and not self.marker_seen

    @property
    def got_nothing(self) -> bool:
        """Whether this process staged the batch itself, and no copy of it has come."""
        return self.counting and not self.seen

    @property
    def may_be_done(self) -> bool:
        """Whether to ask the database if all is recorded: count reached, or marker seen."""
        if self.inbox or self.ready:
            return False
        return self.marker_seen or (self.counting and len(self.seen) >= self._expected)

    @property
    def outstanding(self) -> int:
        """How many copies are still to come by the count; 0 without counting."""
        return max(0, self._expected - len(self.seen)) if self.counting else 0

    @property
    def _expected(self) -> int:
        return self.batch.message_count or 0

    def sort(self, arrived: Iterable[tuple[Delivery, StagedCopy | None]]) -> "ForwardingRun":
        """Keep the first copy of each message of this batch; all others will be acked unsent.

        Copies under another staging id are left over from attempts that never committed. A copy
        without a number was staged by an older version (decision 0028).
        """
        wanted: dict[int, WantedCopy] = {}
        unwanted: list[Delivery] = []
        marker_seen = self.marker_seen
        for delivery, stamps in arrived:
            if stamps is None or stamps.staging_id != self.batch.staging_id:
                unwanted.append(delivery)
            elif stamps.end_marker is not None:
                marker_seen |= stamps.end_marker == self.marker
                unwanted.append(delivery)
            elif not stamps.number or stamps.number in self.seen or stamps.number in wanted:
                unwanted.append(delivery)
            else:
                wanted[stamps.number] = WantedCopy(delivery=delivery, stamps=stamps)
        return replace(
            self,
            seen=self.seen | wanted.keys(),
            inbox=(*self.inbox, *wanted.values()),
            droppable=(*self.droppable, *unwanted),
            marker_seen=marker_seen,
        )

    def next_window(self, count: int, size: int) -> tuple[WantedCopy, ...]:
        """Return the first copies: at most `count`, whose messages have at most `size` bytes.

        A first message that has more bytes is a window by itself.
        """
        first = self.inbox[:count]
        totals = accumulate(copy.stamps.size for copy in first)
        fitting = sum(1 for _ in takewhile(lambda total: total <= size, totals))
        return first[: max(1, fitting)]

    def made_ready(
        self,
        window: Sequence[WantedCopy],
        made: Mapping[int, Outgoing | Ejected | None],
        edited: Collection[int] = (),
    ) -> "ForwardingRun":
        """Move a window from the inbox to `ready`; what was Ejected is finished as reverted.

        A copy whose message is not in the database any more is only acked. `edited` has the numbers
        of those that go out as edited.
        """
        ready, ejected, settled, gone = [], [], [], []
        for copy in window:
            match made.get(copy.number):
                case Outgoing() as outgoing:
                    is_edited = copy.number in edited
                    ready.append(ReadyRetry(copy=copy, outgoing=outgoing, edited=is_edited))
                case Ejected() as lost:
                    ejected.append(lost)
                    settled.append(copy.delivery)
                case None:
                    gone.append(copy.delivery)
        run = replace(
            self,
            inbox=self.inbox[len(window) :],
            ready=tuple(ready),
            droppable=(*self.droppable, *gone),
        )
        return _finish(run, WindowResult(reverted=tuple(ejected)), settled)

    def recorded(self) -> "ForwardingRun":
        """Note that `finished` is recorded: only now may its deliveries be acked."""
        return replace(
            self,
            finished=NOTHING_FINISHED,
            droppable=(*self.droppable, *self.unacked),
            unacked=(),
        )

    def disconnected(self) -> "ForwardingRun":
        """Forget deliveries, which ended with the connection; keep what is left to record."""
        return replace(self, connected=False, droppable=(), unacked=())

    def acked(self) -> "ForwardingRun":
        """Forget the droppable deliveries: they are acked now."""
        return replace(self, droppable=())

    def claimed(
        self, in_doubt: Mapping[int, bool]
    ) -> tuple["ForwardingRun", tuple[ReadyRetry, ...]]:
        """Empty `ready` after stamping; return the run, and the retries to be sent together.

        `in_doubt` has each stamped claim, and whether it was stamped before: then the retry is
        doubtful. A copy whose claim is not there is acked unsent.
        """
        stamped = [retry for retry in self.ready if retry.number in in_doubt]
        unclaimed = [each.copy.delivery for each in self.ready if each.number not in in_doubt]
        doubtful = [retry for retry in stamped if in_doubt[retry.number]]
        run = replace(
            self,
            ready=(),
            doubtful=(*self.doubtful, *doubtful),
            droppable=(*self.droppable, *unclaimed),
        )
        return run, tuple(retry for retry in stamped if not in_doubt[retry.number])

    def claimed_alone(
        self, in_doubt: Mapping[int, bool]
    ) -> tuple["ForwardingRun", tuple[ReadyRetry, ...]]:
        """Take the next doubtful retry; return it if its claim is stamped, to be sent alone."""
        first, rest = self.doubtful[0], self.doubtful[1:]
        if first.number in in_doubt:
            return replace(self, doubtful=rest), (first,)
        droppable = (*self.droppable, first.copy.delivery)
        return replace(self, doubtful=rest, droppable=droppable), ()

    def settled(self, settlement: WindowSettlement, now: float) -> "ForwardingRun":
        """Note the outcomes of a window; its doubtful retries will be sent again, one by one."""
        doubtful = (*self.doubtful, *settlement.doubtful)
        run = replace(self, doubtful=doubtful, quiet_since=now)
        deliveries = [retry.copy.delivery for retry in settlement.settled]
        return _finish(run, settlement.result, deliveries)


def _finish(run: ForwardingRun, result: WindowResult, settled: Iterable[Delivery]) -> ForwardingRun:
    return replace(
        run,
        finished=run.finished + result,
        unacked=(*run.unacked, *settled),
        made_progress=run.made_progress or bool(result),
    )

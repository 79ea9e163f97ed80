"""What this process knows while it forwards one batch: a value, and how it changes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, takewhile

from retrier.domain.copies import StagedCopy
from retrier.domain.retry_batch import Ejected, RetryBatch, WindowResult
from retrier.domain.wire import Delivery, Outgoing
from retrier.processor.window import ReadyRetry, Settlement, WantedCopy


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardingRun:
    """One batch on its way out of the staging queue; gone with the connection.

    `counting` says that the frozen count tells when to look whether all is done, `marker` is the
    nonce of the end marker that tells it otherwise; with neither, silence does. `seen` are the
    numbers of the messages whose copies came. `ready` is the window to come; none of it is
    stamped. `doubtful` retries may be on their way already, or shared a window with one that
    closed the channel: they go one by one. `finished` is what is settled and not recorded yet,
    `unacked` its deliveries; `droppable` are deliveries that may be acked at once. A run that is
    not `connected` any more is only kept until what is finished is recorded.
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
    finished: WindowResult = field(default_factory=WindowResult)
    unacked: tuple[Delivery, ...] = ()
    marker_seen: bool = False
    made_progress: bool = False
    connected: bool = True

    @property
    def arrived(self) -> int:
        """How much of what this run waits for has arrived: copies of the batch, and the marker."""
        return len(self.seen) + self.marker_seen

    @property
    def expects_copies(self) -> bool:
        """Whether there is nothing else to do than to wait for copies."""
        return not (self.inbox or self.ready or self.finished or self.marker_seen)

    @property
    def misses_marker(self) -> bool:
        """Whether an end marker was published and has not arrived."""
        return self.marker is not None and not self.marker_seen

    @property
    def got_nothing(self) -> bool:
        """Whether nothing at all came of what this process has just staged itself."""
        return self.counting and not self.seen

    @property
    def may_be_done(self) -> bool:
        """Whether it is time to ask the store: the count is reached, or the marker was seen."""
        if self.inbox or self.ready:
            return False
        return self.marker_seen or (self.counting and len(self.seen) >= self._expected)

    @property
    def outstanding(self) -> int:
        """How many copies are known to come, as far as the count says."""
        return max(0, self._expected - len(self.seen)) if self.counting else 0

    @property
    def _expected(self) -> int:
        return self.batch.message_count or 0

    def sort(self, arrived: Iterable[tuple[Delivery, StagedCopy | None]]) -> "ForwardingRun":
        """Keep the copies that are wanted; every other one will be acked unsent.

        Copies under another staging id are left over from attempts that never committed, and one
        without a number was staged by an older version. The first copy of a message in this run
        wins.
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
        """Return what comes first: at most so many copies, and bytes of what they stand for.

        A first message that alone has more bytes is a window, too.
        """
        first = self.inbox[:count]
        totals = accumulate(copy.stamps.size for copy in first)
        fitting = sum(1 for _ in takewhile(lambda total: total <= size, totals))
        return first[: max(1, fitting)]

    def made_ready(
        self,
        window: Sequence[WantedCopy],
        made: Mapping[int, Outgoing | Ejected | None],
    ) -> "ForwardingRun":
        """Take a window out of the inbox: what was made of it is ready, or was found unsendable.

        A copy whose message is not in the database any more is acked.
        """
        ready, ejected, settled, gone = [], [], [], []
        for copy in window:
            match made.get(copy.number):
                case Outgoing() as outgoing:
                    ready.append(ReadyRetry(copy=copy, outgoing=outgoing))
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
        """Forget what is recorded now; only what was settled before may be acked after it."""
        return replace(
            self,
            finished=WindowResult(),
            droppable=(*self.droppable, *self.unacked),
            unacked=(),
        )

    def disconnected(self) -> "ForwardingRun":
        """Forget what went with the connection, except what is left to be recorded."""
        return replace(self, connected=False, droppable=(), unacked=())

    def acked(self) -> "ForwardingRun":
        """Forget what is acked now."""
        return replace(self, droppable=())

    def claimed(
        self, in_doubt: Mapping[int, bool]
    ) -> tuple["ForwardingRun", tuple[ReadyRetry, ...]]:
        """Take the window whose claims are stamped; return what of it may be sent at once.

        `in_doubt` says it of each stamped claim. A copy without one is acked unsent.
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
        """Take the next doubtful retry, which is sent by itself if its claim is stamped."""
        first, rest = self.doubtful[0], self.doubtful[1:]
        if first.number in in_doubt:
            return replace(self, doubtful=rest), (first,)
        droppable = (*self.droppable, first.copy.delivery)
        return replace(self, doubtful=rest, droppable=droppable), ()

    def settled(self, settlement: Settlement, now: float) -> "ForwardingRun":
        """Note what became of a window; what is doubtful is sent again, one by one."""
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

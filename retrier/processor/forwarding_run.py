"""One run over the staging queue: which copies are wanted, which are dropped, when it is over."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from retrier.domain.copies import StagedCopy, read_staged
from retrier.domain.retry_batch import Ejected, RetryBatch, WindowResult
from retrier.domain.wire import Delivery, Outgoing, PropertyCodec
from retrier.errors import StagingQueueUnusable


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedCopy:
    """A copy under the batch's staging id, the first of its message in this run."""

    delivery: Delivery
    stamps: StagedCopy


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyCopy:
    """A wanted copy, the number of its message, and what will be sent once it is stamped."""

    number: int
    copy: WantedCopy
    outgoing: Outgoing


class _Kind(Enum):
    WANTED = auto()
    MARKER = auto()
    DROPPED = auto()
    ANOTHER_INSTALLATION = auto()


@dataclass(slots=True)
class ForwardingRun:
    """What this process knows while it forwards one batch; gone with the connection.

    `members` are the messages that the batch claims: their numbers by unique id. `counting` says
    that the frozen count tells when to look, `marker` is the nonce of the end
    marker that tells it otherwise; with neither, silence does. `ready` is the window to come,
    nothing of which is stamped. `doubtful` copies may be on their way already, or shared a
    window with one that closed the channel: they go one by one.
    `finished` is what is settled and not recorded yet, `unacked` its deliveries. A run that is
    not `connected` any more is only kept until that is recorded.
    """

    batch: RetryBatch
    members: Mapping[str, int]
    installation_id: str
    counting: bool
    marker: str | None
    began: float
    quiet_since: float
    seen: set[str] = field(default_factory=set)
    inbox: deque[WantedCopy] = field(default_factory=deque)
    ready: list[ReadyCopy] = field(default_factory=list)
    doubtful: deque[ReadyCopy] = field(default_factory=deque)
    droppable: list[Delivery] = field(default_factory=list)
    finished: WindowResult = field(default_factory=WindowResult)
    unacked: list[Delivery] = field(default_factory=list)
    marker_seen: bool = False
    made_progress: bool = False
    connected: bool = True

    @property
    def arrived(self) -> int:
        """How much of what this run waits for has arrived: copies of the batch, and the marker."""
        return len(self.seen) + self.marker_seen

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

    def sort(self, deliveries: Iterable[Delivery], codec: PropertyCodec) -> list[Delivery]:
        """Sort what arrived; return copies of another installation, which are put back.

        Copies under another staging id are left over from attempts that never committed. The
        first copy of a message in this run wins; every later one is acked unsent.
        """
        foreign = []
        for delivery in deliveries:
            stamps = read_staged(codec, delivery.raw)
            match self._kind(stamps):
                case _Kind.WANTED if stamps is not None:
                    self.seen.add(stamps.unique_message_id)
                    self.inbox.append(WantedCopy(delivery=delivery, stamps=stamps))
                case _Kind.ANOTHER_INSTALLATION:
                    foreign.append(delivery)
                case kind:
                    self.marker_seen |= kind is _Kind.MARKER
                    self.droppable.append(delivery)
        return foreign

    def take_window(self, count: int, size: int) -> list[WantedCopy]:
        """Take the next window out of the inbox: at most so many copies and bytes of bodies."""
        window: list[WantedCopy] = []
        total = 0
        while self.inbox and len(window) < count:
            total += self.inbox[0].stamps.body_size
            if window and total > size:
                break
            window.append(self.inbox.popleft())
        return window

    def put_back(self, window: Sequence[WantedCopy]) -> None:
        """Return a window of which nothing was sent to the front of the inbox."""
        self.inbox.extendleft(reversed(window))

    def settle(self, forwarded: Iterable[int], reverted: Iterable[Ejected]) -> None:
        """Add outcomes to the window that has to be recorded."""
        self.finished = WindowResult(
            forwarded=(*self.finished.forwarded, *forwarded),
            reverted=(*self.finished.reverted, *reverted),
        )
        self.made_progress |= bool(self.finished)

    def _kind(self, stamps: StagedCopy | None) -> _Kind:
        if stamps is None:
            return _Kind.DROPPED
        if stamps.installation_id not in (None, self.installation_id):
            return _Kind.ANOTHER_INSTALLATION
        if stamps.staging_id != self.batch.staging_id:
            return _Kind.DROPPED
        if stamps.end_marker is not None:
            return _Kind.MARKER if stamps.end_marker == self.marker else _Kind.DROPPED
        return _Kind.DROPPED if stamps.unique_message_id in self.seen else _Kind.WANTED


def refuse_foreign(count: int) -> StagingQueueUnusable:
    """Return the error for copies of another installation."""
    return StagingQueueUnusable(
        f"{count} copies of another Retrier installation are in the staging queue: two "
        "installations share a broker and an instance name. They were put back. Give one of "
        "them another `instance`."
    )

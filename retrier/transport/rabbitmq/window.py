"""One window of published messages: whose a delivery tag is, what became of each, what is awaited."""

from collections.abc import Iterator, Sequence
from itertools import takewhile

from retrier.domain.wire import Confirmed, Outcome, Outgoing, Refused, Returned
from retrier.errors import QueueSilent
from retrier.transport.rabbitmq.connection import BrokerConnection
from retrier.transport.rabbitmq.silence import PATIENCE


class Window:
    """The messages of one publish, settled one by one in whatever order the broker likes."""

    def __init__(self) -> None:
        self.messages: list[Outgoing] = []
        self._outcomes: dict[int, Outcome] = {}
        self._sent: dict[int, int] = {}
        """Places by delivery tag, ascending; only what is unsettled."""
        self._end: Outcome | None = None

    def add(self, messages: Sequence[Outgoing]) -> range:
        """Take in more messages; return their places. What comes too late shares the end."""
        start = len(self.messages)
        self.messages += messages
        if self._end is not None:
            self.end(self._end)
        return range(start, len(self.messages))

    @property
    def ended(self) -> bool:
        """Whether nothing more can be sent in it."""
        return self._end is not None

    @property
    def settled(self) -> bool:
        """Whether the outcome of every message is known."""
        return len(self._outcomes) == len(self.messages)

    @property
    def left(self) -> int:
        """How many messages are not settled yet."""
        return len(self.messages) - len(self._outcomes)

    @property
    def open_queues(self) -> frozenset[str]:
        """The queues of the messages whose outcome is not known."""
        every = enumerate(self.messages)
        return frozenset(message.queue for at, message in every if at not in self._outcomes)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """What became of the messages, in their order; only of a settled window."""
        return tuple(self._outcomes[place] for place in range(len(self.messages)))

    def sent(self, place: int, tag: int) -> None:
        """Note under which delivery tag the message at this place was written."""
        self._sent[tag] = place

    def confirm(self, tag: int, *, multiple: bool) -> None:
        """Settle one tag, or all up to it. A message that was returned stays returned."""
        self._settle(tag, Confirmed(), multiple=multiple)

    def refuse(self, tag: int, reason: str, *, multiple: bool) -> None:
        """Settle one tag, or all up to it, as negatively acknowledged."""
        self._settle(tag, Refused(reason), multiple=multiple)

    def decline(self, place: int, reason: str) -> None:
        """Settle a message that was never written."""
        self._outcomes[place] = Refused(reason)

    def give_back(self, queue: str, raw: bytes, body: bytes, reason: str) -> None:
        """Settle a message the broker returned; it carries its content, but not its tag.

        Messages of equal content are one as good as the other. Where the broker changed the
        properties (it takes BCC away) any message to that queue is as unroutable as this one.
        """
        same_queue = self._open_to(queue)
        exact = (place for place in same_queue if self._is(place, raw, body))
        place = next(exact, None)
        if place is None:
            place = next(self._open_to(queue), None)
        if place is not None:
            self._outcomes[place] = Returned(reason)

    def end(self, outcome: Outcome) -> None:
        """Settle whatever is unsettled, written or not, and what is added after this."""
        self._end = outcome
        for place in range(len(self.messages)):
            self._outcomes.setdefault(place, outcome)

    def _settle(self, tag: int, outcome: Outcome, *, multiple: bool) -> None:
        tags = list(takewhile(tag.__ge__, self._sent)) if multiple else [tag]
        for each in tags:
            place = self._sent.pop(each, None)
            if place is not None:
                self._outcomes.setdefault(place, outcome)

    def _open_to(self, queue: str) -> Iterator[int]:
        return (
            place
            for place in self._sent.values()
            if place not in self._outcomes and self.messages[place].queue == queue
        )

    def _is(self, place: int, raw: bytes, body: bytes) -> bool:
        return self.messages[place].raw == raw and self.messages[place].body == body


NOTHING = f"it has confirmed nothing for {PATIENCE:g} s"


class AwaitedQueue:
    """Watches a window that is written while it is settled.

    A broker that confirms one message after the other is slow, and one under an alarm says so:
    neither is silent.
    """

    def __init__(self, connection: BrokerConnection, window: Window, own_queue: str | None) -> None:
        """`own_queue` is the one that is not waited for without end."""
        self._connection = connection
        self._window = window
        self._own_queue = own_queue
        self._left = window.left
        connection.silence.begin()

    def check(self) -> None:
        """Raise QueueSilent if it is our own queue that has confirmed nothing for too long."""
        left, self._left = self._left, self._window.left
        if self._left < left or self._connection.blocked:
            self._connection.silence.begin()
        too_long = self._connection.silence.seconds >= PATIENCE
        if too_long and self._own_queue in self._window.open_queues:
            raise QueueSilent(self._own_queue, NOTHING)

"""One window of published messages: their delivery tags, their outcomes, and which are open."""

from collections.abc import Iterator, Sequence
from itertools import takewhile

from retrier.domain.wire import Confirmed, Outcome, Outgoing, Refused, Returned
from retrier.errors import QueueSilent
from retrier.transport.rabbitmq.connection import BrokerConnection
from retrier.transport.rabbitmq.silence import ANSWER_TIMEOUT


class Window:
    """The messages of one publish; the broker settles them in any order."""

    def __init__(self) -> None:
        self.messages: list[Outgoing] = []
        self._outcomes: dict[int, Outcome] = {}
        self._sent: dict[int, int] = {}
        """Unsettled messages: their places in `messages` by delivery tag, ascending."""
        self._end: Outcome | None = None

    def add(self, messages: Sequence[Outgoing]) -> range:
        """Add messages; return their places. After `end` they get the same outcome."""
        start = len(self.messages)
        self.messages += messages
        if self._end is not None:
            self.end(self._end)
        return range(start, len(self.messages))

    @property
    def ended(self) -> bool:
        """Whether `end` was called, so that nothing more is sent."""
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
        """The outcomes in the order of the messages; only for a settled window."""
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
        """Settle a message the broker returned: a return has the content, but no tag.

        Among messages of equal content any will do. If none is equal (the broker removes BCC), any
        message to that queue will do: all of them are equally unroutable.
        """
        same_queue = self._open_to(queue)
        exact = (place for place in same_queue if self._is(place, raw, body))
        place = next(exact, None)
        if place is None:
            place = next(self._open_to(queue), None)
        if place is not None:
            self._outcomes[place] = Returned(reason)

    def end(self, outcome: Outcome) -> None:
        """Settle all unsettled messages, written or not, and all that are added later."""
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


NOTHING = f"it has confirmed nothing for {ANSWER_TIMEOUT:g} s"


class AwaitedQueue:
    """Detects that our own queue confirms nothing, while a written window is settled.

    A broker that confirms one message after the other is slow, and one under an alarm reports it:
    neither counts as silent (decision 0018).
    """

    def __init__(self, connection: BrokerConnection, window: Window, own_queue: str | None) -> None:
        """`own_queue` is the only queue whose silence ends the wait; None for no such queue."""
        self._connection = connection
        self._window = window
        self._own_queue = own_queue
        self._left = window.left
        connection.silence.begin()

    def check(self) -> None:
        """Raise QueueSilent if nothing was confirmed for too long and our own queue is open."""
        left, self._left = self._left, self._window.left
        if self._left < left or self._connection.blocked:
            self._connection.silence.begin()
        too_long = self._connection.silence.seconds >= ANSWER_TIMEOUT
        if too_long and self._own_queue in self._window.open_queues:
            raise QueueSilent(self._own_queue, NOTHING)

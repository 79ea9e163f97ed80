"""What a scripted transport is told to do, and what it has done."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from retrier.domain.wire import Delivery, Outcome, Outgoing
from retrier.errors import BrokerUnavailable
from retrier.transport.seam import DeliveryLimit, Unsettled
from tests.support.memory_broker import MemoryBroker


def anything(_message: Outgoing) -> bool:
    """Match every message."""
    return True


def to_queue(name: str) -> Callable[[Outgoing], bool]:
    """Match messages to one queue."""
    return lambda message: message.queue == name


@dataclass(slots=True)
class Cue:
    """An outcome that waits for a message. `stored`: its queue got it all the same."""

    outcome: Outcome
    when: Callable[[Outgoing], bool]
    stored: bool
    settled: int
    times: int | None


class Breakable(Protocol):
    """A connection that can be broken, and given up."""

    given_up: bool

    def break_off(self, reason: str) -> None:
        """Break it for good."""
        ...


class Script:
    """The cues and faults to come, the calls and messages that were, and the open connections."""

    def __init__(self) -> None:
        self.broker = MemoryBroker()
        self.calls: list[str] = []
        self.published: list[Outgoing] = []
        self.acked: list[Delivery] = []
        self.before_call: Callable[[str], None] = lambda _name: None
        self.after_call: Callable[[str], None] = lambda _name: None
        self.on_idle: Callable[[float], None] = lambda _seconds: None
        self.waits = 1
        self.awaited = Unsettled()
        self.probes = True
        self.limits: dict[str, DeliveryLimit] = {}
        self.consumers: dict[str, int] = {}
        self.hidden: dict[str, int] = {}
        self.dead_letters: dict[str, bool | None] = {}
        self.not_ingestible: dict[str, str] = {}
        self.risks: tuple[str, ...] = ()
        self.connections: list[Breakable] = []
        self._cues: list[Cue] = []
        self._faults: dict[str, list[BaseException]] = {}

    def cue(
        self,
        outcome: Outcome,
        *,
        when: Callable[[Outgoing], bool] = anything,
        stored: bool = False,
        settled: int = 0,
        times: int | None = 1,
    ) -> None:
        """Give this outcome to the next `times` matching messages; None = for ever.

        ChannelClosed and Unknown break the whole window at that message: those before it are
        stored, those after it are not, and all but the first `settled` of them share the outcome.
        """
        self._cues.append(Cue(outcome, when, stored, settled, times))

    def forget_cues(self) -> None:
        """Let every message go its normal way from now on."""
        self._cues.clear()

    def fail(self, call: str, error: BaseException, *, times: int = 1) -> None:
        """Raise `error` from the next `times` calls of that name, before they act."""
        self._faults.setdefault(call, []).extend([error] * times)

    def go_down(self, reason: str = "connection refused") -> None:
        """Break every connection and refuse new ones until `come_up`."""
        self.broker.down = reason
        self.drop_connections(reason)

    def come_up(self) -> None:
        """Accept connections again; the queues are as they were."""
        self.broker.down = None

    def drop_connections(self, reason: str = "connection reset") -> None:
        """Break every connection: unacknowledged messages go back, marked redelivered."""
        for connection in list(self.connections):
            connection.break_off(reason)

    def stand_still(self) -> None:
        """Let the broker hear nothing for so long that it may have given up every connection."""
        for connection in self.connections:
            connection.given_up = True

    def connected(self, kind: type | None = None) -> int:
        """Return how many connections (of one kind) are open."""
        return sum(kind is None or isinstance(each, kind) for each in self.connections)

    def take_cue(self, message: Outgoing) -> Cue | None:
        """Return the first cue that is for this message, and use it up by one."""
        cue = next((each for each in self._cues if each.when(message)), None)
        if cue is not None and cue.times is not None:
            cue.times -= 1
            self._cues = [each for each in self._cues if each.times != 0]
        return cue

    def enter(self, call: str) -> None:
        """Note a call; raise what the script has for it."""
        self.calls.append(call)
        self.before_call(call)
        if self._faults.get(call):
            raise self._faults[call].pop(0)
        if self.broker.down is not None:
            raise BrokerUnavailable(self.broker.down)

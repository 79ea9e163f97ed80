"""The messages in hand, and the threads that handle them."""

from collections.abc import Callable
from functools import partial
from threading import Event

from retrier.clock import Clock
from retrier.worker.copies import find_id
from retrier.worker.hand import Hand, Held
from retrier.worker.handlers import Message
from retrier.worker.options import Options
from retrier.worker.outcomes import Broken, Done, Ended, SecondCopy
from retrier.worker.pool import Finished, Hands
from retrier.worker.retries import Retries

ResultOf = Callable[[Held, Done], bytes]


class Handling:
    """Starts handlers, and says what became of their messages. Used by one thread."""

    def __init__(
        self,
        options: Options,
        hands: Hands,
        clock: Clock,
        *,
        queues: int,
    ) -> None:
        self._options = options
        self._clock = clock
        self._hands = hands
        self._retries = Retries(options.seen, clock)
        self._never = Event()
        self.hand = Hand(options.prefetch * queues)

    def start(self, at_most: int | None = None) -> list[tuple[Held, SecondCopy]]:
        """Start what may be started, so that at most so many run; return what was handled before."""
        now = self._clock.monotonic()
        threads = self._options.threads if at_most is None else at_most
        free = threads - len(self.hand.running)
        copies = []
        for held in self.hand.choose(free, now) if free > 0 else ():
            copy = self._retries.begin(held)
            if copy is not None:
                self.hand.waiting.remove(held)
                copies.append((held, copy))
            elif held.not_before <= now:
                self.hand.start(held, now)
                self._hands.start(held, partial(self._handle, held))
        self._retries.keep(self.hand.running)
        return copies

    def fetch(self, timeout: float, result_of: ResultOf) -> list[Finished]:
        """Return what is finished; wait so long for the first one."""
        found: list[Finished] = []
        if timeout and not self.hand.running:
            self._never.wait(timeout)
        finished = self._hands.fetch(timeout if self.hand.running else 0)
        while finished is not None:
            if finished[0] in self.hand.running:  # else it came too late, and is handled again
                found.append(self._take_off(*finished, result_of))
            finished = self._hands.fetch(0)
        return found

    def find_late(self) -> list[Held]:
        """Return the messages whose handlers take too long."""
        timeout = self._options.timeout
        if timeout is None:
            return []
        now = self._clock.monotonic()
        return [held for held in self.hand.running if now - (held.started or 0) > timeout]

    def close(self) -> None:
        """Let the threads end when they are done with what they do."""
        self._hands.close()
        self._retries.close()

    def _handle(self, held: Held) -> Ended:
        message = Message(
            id=find_id(held.properties),
            queue=held.delivery.queue,
            headers=held.properties.headers,
            body=held.delivery.body,
            crashes=held.crashes,
            retry_id=held.retry_id,
            said=held.said,
        )
        return held.handler.handle(message, 1 + self._options.immediate_retries)

    def _take_off(self, held: Held, ended: Ended, result_of: ResultOf) -> Finished:
        self.hand.running.remove(held)
        self._retries.end(held, ended, result_of)
        if isinstance(ended, Broken):
            ended = Broken(ended.problem, held.starts + ended.attempts)
        return held, ended

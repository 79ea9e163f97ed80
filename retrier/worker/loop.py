"""The loop of a worker: takes messages, has them handled, and settles what became of them."""

from collections.abc import Mapping, Sequence
from functools import partial
from threading import Event
from typing import assert_never

from retrier.clock import Clock
from retrier.errors import BrokerUnavailable
from retrier.transport.seam import Transport
from retrier.worker.arrivals import Arrivals
from retrier.worker.breaker import Circuit, State
from retrier.worker.condition import LOG, Condition
from retrier.worker.copies import find_id
from retrier.worker.crashes import Startable, Uncounted
from retrier.worker.hand import Held
from retrier.worker.handlers import Handler
from retrier.worker.handling import Handling
from retrier.worker.inline import Inline
from retrier.worker.line import Line, Received, find_missing
from retrier.worker.options import Options
from retrier.worker.outcomes import Broken, Done, Ended, Postponed, Reason
from retrier.worker.pause import Pause
from retrier.worker.pool import Hands, Pool
from retrier.worker.release import Release
from retrier.worker.relief import Exits, Relief
from retrier.worker.report import report
from retrier.worker.settlement import Settlements
from retrier.worker.stopping import RELEASE_WITHIN, Overdue
from retrier.worker.timeouts import stamp

TICK = 0.1
"""Seconds that one wait lasts at most: so long a signal or a heartbeat may have to wait."""
SHORT = 0.01
"""Seconds to wait while there is room in hand: then both the broker and the threads are heard."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 10.0
"""Seconds between two attempts to reach a broker, or to find a queue."""


class Loop:
    """Everything that one thread does for a worker. Handlers run in threads of their own."""

    def __init__(
        self,
        options: Options,
        handlers: Mapping[str, Handler],
        transport: Transport,
        condition: Condition,
        clock: Clock,
        exits: Exits,
    ) -> None:
        self._options = options
        self._handlers = handlers
        self._transport = transport
        self._clock = clock
        self._condition = condition
        self._relief = Relief(condition, exits, clock, stop_timeout=options.stop_timeout)
        self._crash = exits.crash
        self._handling = Handling(options, self._make_hands(exits), clock, queues=len(handlers))
        self._relief.check_deadlines = self._check_deadlines
        self._relief.let_go = self._let_go
        self._hand = self._handling.hand
        self._circuit = Circuit(options.breaker)
        self._pause = Pause(options.health, options.transient_delay, clock, self._circuit)
        self._arrivals = Arrivals(options, handlers, transport.codec, clock)
        self._settlements = Settlements(options, transport.codec, transport.user, clock)
        self._release = Release(
            self._hand, self._pause, self._settlements, hold_streams=options.hold_streams
        )
        self._wait = FIRST_WAIT

    def hurry(self) -> None:
        """Give handlers no more time. May be called by a signal, at any moment."""
        self._relief.farewell.hurry()

    def _make_hands(self, exits: Exits) -> Hands:
        """Return what handles messages: this thread, if it is the only one and may be held up."""
        if self._options.threads == 1 and exits.leave is not None:
            return Inline(exits.crash, self._relief.relieve)
        return Pool(self._options.threads, exits.crash)

    def run(self, stop: Event) -> None:
        """Work until `stop` is set, and then finish what was begun. Raises Overdue."""
        self._relief.stop = stop
        try:
            while not stop.is_set():
                try:
                    self._work_once(stop)
                except BrokerUnavailable as error:
                    self._condition.wait_for(str(error))
                    self._rest(None, stop)
        finally:
            self._handling.close()

    def _work_once(self, stop: Event) -> None:
        """Wait until everything is there, and work until something is not."""
        if self._pause.check():
            self._condition.wait_for(self._pause.why)
            self._fetch(None, TICK)
            return
        others = filter(None, [self._options.error_queue, self._options.output_queue])
        missing = find_missing(self._transport, [*self._handlers, *others])
        if missing:
            self._condition.wait_for(f"there is no queue {', '.join(missing)}")
            self._rest(None, stop)
            return
        line = Line(self._transport, list(self._handlers), self._options.prefetch)
        self._relief.line = line
        try:
            self._work(line, stop)
        finally:
            self._relief.line = None
            line.close()
            self._hand.waiting.clear()
            self._settlements.drop()

    def _work(self, line: Line, stop: Event) -> None:
        """Work until `stop` is set and all is finished, or until nothing is to be taken."""
        goes_on = True
        while goes_on and not (stop.is_set() and self._is_finished()):
            self._fetch(line, 0)
            if not line.ceased and (stop.is_set() or self._release.is_due(line)):
                self._take(line, line.cease())
            if self._settlements.open:
                self._settlements.settle(line, partial(self._while_publishing, line))
            goes_on = self._step(line, stop)

    def _step(self, line: Line, stop: Event) -> bool:
        """Do what is to be done next; return whether this line is still good for something."""
        if stop.is_set():
            self._finish(line)
        elif self._settlements.open:
            problem = self._settlements.why
            self._condition.wait_for(problem or "the broker does not take a message")
            self._rest(line, stop)
        elif line.ceased:
            return self._empty_hand(line)
        elif self._pause.check():
            self._condition.wait_for(self._pause.why)
            self._fetch(line, TICK)
            line.keep_alive()
        else:
            self._go_on(line)
        return True

    def _go_on(self, line: Line) -> None:
        self._wait = FIRST_WAIT
        self._condition.take(", ".join(self._handlers))
        self._release.put_back_early(self._clock.monotonic())
        is_trying = self._circuit.state is State.HALF_OPEN
        for held, copy in self._handling.start(1 if is_trying else None):
            self._note(held, copy, 0)
        if self._settlements.open:
            return
        if self._hand.full or (is_trying and len(self._hand)):
            self._fetch(line, TICK)
            line.keep_alive()
            return
        is_idle = not len(self._hand)
        self._fetch(line, 0 if is_idle else SHORT)
        if line.careful:
            self._take_carefully(line)
        else:
            self._take(line, line.receive(TICK if is_idle else 0))

    def _take_carefully(self, line: Line) -> None:
        """Take one message, unless a suspect is in hand; go on if none is left (R43)."""
        if not self._hand.suspects and self._take(line, line.receive(0)):
            self._take(line, line.calm_down())

    def _take(self, line: Line, several: Sequence[Received]) -> bool:
        """Take messages into the hand; return whether none of them came back after a crash."""
        found = [self._receive(line, received) for received in several]
        return all(found)

    def _rest(self, line: Line | None, stop: Event) -> None:
        """Wait between two attempts, each time longer; take nothing, but let handlers finish."""
        until = self._clock.monotonic() + self._wait
        self._wait = min(2 * self._wait, LONGEST_WAIT)
        while not stop.is_set() and self._clock.monotonic() < until:
            self._fetch(line, 5 * SHORT)
            if line is not None:
                line.keep_alive()

    def _empty_hand(self, line: Line) -> bool:
        """Handle one suspect alone, let go of all others; return whether something is left to do."""
        kept = self._release.find_kept()
        self._release.put_back(kept)
        if self._hand.running or kept:
            self._handling.start()
            self._fetch(line, TICK)
            line.keep_alive()
            return True
        return bool(self._settlements.open)

    def _finish(self, line: Line) -> None:
        """After the order to stop: start nothing, and give handlers some time."""
        self._condition.wait_for("it was told to stop")
        self._relief.farewell.begin()
        self._release.put_back()
        self._fetch(line, 5 * SHORT if self._hand.running else 0)
        is_late = self._relief.farewell.overdue and self._hand.running
        if is_late or (self._settlements.why is not None and not self._hand.running):
            self._let_go()
        line.keep_alive()

    def _is_finished(self) -> bool:
        is_settled = self._settlements.why is not None or not self._settlements.open
        is_idle = is_settled and not self._hand.running
        return self._relief.farewell.expired or (self._relief.farewell.begun and is_idle)

    def _let_go(self) -> None:
        """Give back all that is in hand, also what is being handled, before the process ends."""
        unfinished = list(self._hand.running)
        line = self._relief.line
        problem = None if line is None else self._give_back(line)
        if line is None or problem is not None:
            why = problem or "there is no connection"
            LOG.warning("what was not finished comes again, counted as a crash: %s", why)
            return
        for held in unfinished:
            stays = self._release.keeps_place(line, held)
            told = "keeps its place, and is counted" if stays else "waits again"
            LOG.warning("the message %s was not finished: it %s", find_id(held.properties), told)

    def _give_back(self, line: Line) -> str | None:
        """Put everything to the tail; return what kept from it.

        Confirmed first, acknowledged then: whatever happens in between, nothing is lost.
        """
        until = self._clock.monotonic() + RELEASE_WITHIN

        def wait() -> None:
            if self._clock.monotonic() > until:
                raise Overdue("the broker takes too long")

        try:
            if not line.ceased:
                self._take(line, line.cease())
            self._release.put_back()
            self._release.put_back_running(line)
            self._settlements.settle(line, wait)
            if self._settlements.open:
                self._settlements.fall_back(partial(self._release.keeps_place, line))
                self._settlements.settle(line, wait)
            line.await_acks()
        except (BrokerUnavailable, Overdue) as error:
            return str(error)
        return None

    def _while_publishing(self, line: Line) -> None:
        """Keep up, while the broker takes its time to confirm."""
        line.keep_alive()
        self._collect(line, 0)
        if self._relief.farewell.expired:
            raise Overdue("the broker takes too long")

    def _receive(self, line: Line, received: Received) -> bool:
        """Take a message into the hand, or settle it at once; return whether no crash is counted."""
        held, arrived = self._arrivals.take_in(line, received)
        match arrived:
            case Startable():
                self._hand.add(held)
            case Uncounted(crashes):
                name = find_id(held.properties)
                fields = {"event": "message.came_back", "message_id": name, "attempt": crashes + 1}
                LOG.warning("the message %s came back: crash %s", name, crashes, extra=fields)
                self._settlements.add_again(held, crashes)
            case Broken():
                self._note(held, arrived, 0)
            case _ as never:
                assert_never(never)
        return not held.crashes

    def _fetch(self, line: Line | None, timeout: float) -> None:
        """Settle all that is finished; wait so long for the first one. Not while publishing."""
        self._collect(line, timeout)
        self._check_deadlines()

    def _check_deadlines(self) -> None:
        """End the process for a handler that takes too long: a thread cannot be killed.

        Its message is not to blame for a crash: it says how often this happened, and waits.
        """
        late = self._handling.find_late()
        if not late:
            return
        timeout = self._options.timeout or 0
        for held in late:
            held.stamps = stamp(held.timeouts + 1, timeout, self._clock.now())
        try:
            self._let_go()
        finally:
            queue, name = late[0].delivery.queue, find_id(late[0].properties)
            self._crash(
                f"the handler of {queue} took longer than {timeout:g} s with the message {name}"
            )

    def _collect(self, line: Line | None, timeout: float) -> None:
        for held, ended in self._handling.fetch(timeout, self._settlements.result_of):
            if line is None or not line.has(held.source):
                # Its connection is gone, so it cannot be acked: the broker hands it out again.
                LOG.warning("the message %s has to be handled again", find_id(held.properties))
                continue
            self._take_in(held, ended)

    def _take_in(self, held: Held, ended: Ended) -> None:
        match ended:
            case Postponed(why):
                self._pause.begin(f"something is away: {why}")
                if self._release.is_held(held):
                    self._hand.hold(held)
                    return
            case Done():
                self._pause.succeed()
                self._count(failed=False)
            case Broken(problem) if problem.reason is not Reason.INVALID:
                self._count(failed=True)
            case _:
                pass
        self._note(held, ended, self._clock.monotonic() - (held.started or 0))

    def _count(self, *, failed: bool) -> None:
        """Count a message for the breaker, and tell if that changes it."""
        if self._circuit.note(self._clock.monotonic(), failed=failed):
            fields = {"event": "worker.breaker", "breaker": self._circuit.state}
            LOG.warning("the breaker is %s", self._circuit.state.replace("_", " "), extra=fields)

    def _note(self, held: Held, ended: Ended, seconds: float) -> None:
        """Have the message settled as this, and tell log and metrics."""
        self._settlements.add(held, ended)
        breaker = None if self._options.breaker is None else self._circuit.state
        report(self._options.metrics, held, ended, seconds, breaker)

"""The loop of a worker: does what its hand decides, and tells it what the broker and handlers did."""

from collections.abc import Mapping, Sequence
from functools import partial
from threading import Event
from typing import assert_never

from retrier.clock import Clock
from retrier.errors import BrokerUnavailable
from retrier.transport.seam import Transport
from retrier.worker.breaker import Circuit, State
from retrier.worker.connections import Connections, HealthPause, Received, find_missing
from retrier.worker.copies import find_id
from retrier.worker.hand import (
    Await,
    CalmDown,
    Cease,
    Hand,
    Held,
    Leave,
    Mode,
    Mood,
    Prove,
    PutBack,
    Start,
    Take,
)
from retrier.worker.handlers import Handler
from retrier.worker.log import LOG, Condition, report
from retrier.worker.options import Options
from retrier.worker.outcomes import Broken, Done, Ended, Postponed, Reason
from retrier.worker.running import (
    RELEASE_WITHIN,
    Exits,
    Handling,
    Hands,
    Inline,
    Pool,
    Relief,
    StopOverdue,
)
from retrier.worker.settlement import Settlements
from retrier.worker.starts import Keys, Startable, StartCheck, Starts, Uncounted, stamp

TICK = 0.1
"""Seconds that one wait lasts at most: so long a signal or a heartbeat may have to wait."""
SHORT = 0.01
"""Seconds to wait while there is room in hand: then both the broker and the threads are heard."""
_TAKING = Mood()
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
        self._relief.check_deadlines = self._check_deadlines
        self._relief.let_go = self._let_go
        self._crash = exits.crash
        room = options.prefetch * len(handlers)
        self._starts = Starts(Keys(options.urls).of_site(list(handlers)), room)
        self._hand = Hand(room, options.threads, hold_streams=options.hold_streams)
        hands = self._make_hands(exits)
        self._handling = Handling(options, hands, self._hand, self._starts, clock)
        self._circuit = Circuit(options.breaker)
        self._pause = HealthPause(options.health, options.transient_delay, clock, self._circuit)
        self._arrivals = StartCheck(options, handlers, transport.codec, clock, self._starts)
        self._settlements = Settlements(
            options, transport.codec, transport.user, clock, self._hand, self._starts
        )
        self._queues = ", ".join(handlers)
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
            self._starts.close()

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
        line = Connections(self._transport, list(self._handlers), self._options.prefetch)
        self._hand.open(self._clock.monotonic(), expects_suspects=self._starts.beside_others)
        self._relief.line = line
        try:
            self._work(line, stop)
        finally:
            self._relief.line = None
            line.close()
            self._hand.close()
            self._starts.lose()
            self._settlements.drop()

    def _work(self, line: Connections, stop: Event) -> None:
        """Do what the hand decides, until it says that the line may be left."""
        while not self._relief.farewell.expired:
            self._fetch(line, 0)
            mood = self._find_mood(stop)
            # Before the last acks: else the broker would hand out more, and count it when we close.
            if self._settlements.open and not self._hand.has_to_cease(mood):
                if not self._settle(line, stop):
                    return
                continue
            decision = self._hand.decide(self._clock.monotonic(), mood)
            if isinstance(decision, Cease):
                self._cease(line)
            elif isinstance(decision, Leave):
                if mood.stopping and self._hand.waiting:
                    self._let_go()
                return
            else:
                self._carry_out(decision, line)

    def _find_mood(self, stop: Event) -> Mood:
        """Return what goes on; say it, if it keeps messages from being taken."""
        if stop.is_set():
            return self._find_mood_at_the_end()
        is_paused = self._pause.check()
        if is_paused:
            self._condition.wait_for(self._pause.why)
        elif self._hand.mode is not Mode.CEASED and not self._settlements.open:
            self._wait = FIRST_WAIT
            self._condition.take(self._queues)
        if not is_paused and self._circuit.state is State.CLOSED:
            return _TAKING  # made once: this is asked for each message
        return Mood(paused=is_paused, trying=self._circuit.state is State.HALF_OPEN)

    def _find_mood_at_the_end(self) -> Mood:
        """After the order to stop: take nothing, and give handlers some time."""
        self._condition.wait_for("it was told to stop")
        farewell = self._relief.farewell
        farewell.begin()
        is_overdue = farewell.overdue
        if is_overdue and self._hand.running:
            self._let_go()
        return Mood(paused=self._pause.active, stopping=True, overdue=is_overdue)

    def _settle(self, line: Connections, stop: Event) -> bool:
        """Settle what is done; return False if nothing is left to do but to end."""
        self._settlements.settle(line, partial(self._while_publishing, line))
        problem = self._settlements.why
        if problem is None:  # what is open yet has ended meanwhile, and is settled next
            return True
        if not stop.is_set():
            self._condition.wait_for(problem)
            self._rest(line, stop)
            return True
        if not self._hand.running:
            self._let_go()
            return False
        self._fetch(line, 5 * SHORT)
        line.keep_alive()
        return True

    def _carry_out(
        self, decision: Start | Take | PutBack | Prove | CalmDown | Await, line: Connections
    ) -> None:
        match decision:
            case Start(several):
                self._start(several)
            case Take(idle):
                self._receive(line, idle=idle)
            case PutBack(several):
                self._put_back(several)
            case Prove():
                line.await_acks()
                self._hand.prove()
            case CalmDown():
                self._take(line, line.calm_down())
                self._hand.calm_down(last=not line.careful)
            case Await():
                self._fetch(line, TICK)
                line.keep_alive()
            case _ as never:
                assert_never(never)

    def _start(self, several: Sequence[Held]) -> None:
        for held, copy in self._handling.start(several):
            self._note(held, copy, 0)

    def _put_back(self, several: Sequence[Held]) -> None:
        for held in several:
            self._hand.put_back(held)
            self._settlements.add_again(held)

    def _receive(self, line: Connections, *, idle: bool) -> None:
        self._fetch(line, 0 if idle else SHORT)
        if self._settlements.open:
            return
        several = line.receive(TICK if idle else 0)
        clean = self._take(line, several)
        if self._hand.mode is Mode.CAREFUL:
            self._hand.note_arrivals(len(several), self._clock.monotonic(), clean=clean)

    def _cease(self, line: Connections) -> None:
        self._take(line, line.cease())
        self._hand.cease()

    def _take(self, line: Connections, several: Sequence[Received]) -> bool:
        """Take messages into the hand; return whether none of them may have ended a process."""
        found = [self._take_one(line, received) for received in several]
        return all(found)

    def _take_one(self, line: Connections, received: Received) -> bool:
        """Take a message into the hand, or settle it at once."""
        held, arrived = self._arrivals.take_in(line, received)
        match arrived:
            case Startable():
                self._hand.receive(held)
            case Uncounted():
                name = find_id(held.properties)
                attempt = held.crashes + 1
                fields = {"event": "message.came_back", "message_id": name, "attempt": attempt}
                LOG.warning("the message %s came back: crash %s", name, held.crashes, extra=fields)
                self._settlements.add_again(held)
            case Broken():
                self._note(held, arrived, 0)
            case _ as never:
                assert_never(never)
        return not held.is_suspect

    def _rest(self, line: Connections | None, stop: Event) -> None:
        """Wait between two attempts, each time longer; take nothing, but let handlers finish."""
        until = self._clock.monotonic() + self._wait
        self._wait = min(2 * self._wait, LONGEST_WAIT)
        while not stop.is_set() and self._clock.monotonic() < until:
            self._fetch(line, 5 * SHORT)
            if line is not None:
                line.keep_alive()

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
            told = "keeps its place" if self._keeps_place(line, held) else "waits again"
            LOG.warning("the message %s was not finished: it %s", find_id(held.properties), told)

    def _give_back(self, line: Connections) -> str | None:
        """Put everything to the tail; return what kept from it.

        Confirmed first, acknowledged then: whatever happens in between, nothing is lost.
        """
        until = self._clock.monotonic() + RELEASE_WITHIN

        def wait() -> None:
            if self._clock.monotonic() > until:
                raise StopOverdue("the broker takes too long")

        try:
            if self._hand.mode is not Mode.CEASED:
                self._cease(line)
            self._give_up(line)
            self._settlements.settle(line, wait)
            if self._settlements.open:
                self._settlements.fall_back(partial(self._keeps_place, line))
                self._settlements.settle(line, wait)
            line.await_acks()
        except (BrokerUnavailable, StopOverdue) as error:
            return str(error)
        return None

    def _give_up(self, line: Connections) -> None:
        """Have all that is not settled put to the tail, but not what keeps its place."""
        for held in list(self._hand.waiting):
            self._hand.put_back(held)
            if not self._keeps_place(line, held):
                self._settlements.add_again(held)
        for held in list(self._hand.running):
            self._hand.give_up(held)
            self._starts.give_back(held.place)
            if not self._keeps_place(line, held):
                self._settlements.add_again(held)

    def _keeps_place(self, line: Connections, held: Held) -> bool:
        """Return whether the message is left to the end of the line, to be in its place again.

        Only where the queue counts: elsewhere it would be counted by a copy for the tail.
        """
        return self._hand.is_held(held) and held.delivery.queue in line.counted

    def _while_publishing(self, line: Connections) -> None:
        """Keep up, while the broker takes its time to confirm."""
        line.keep_alive()
        self._collect(line, 0)
        if self._relief.farewell.expired:
            raise StopOverdue("the broker takes too long")

    def _fetch(self, line: Connections | None, timeout: float) -> None:
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

    def _collect(self, line: Connections | None, timeout: float) -> None:
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
                if self._hand.is_held(held):
                    self._starts.give_back(held.place)
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

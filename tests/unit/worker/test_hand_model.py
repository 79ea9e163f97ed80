"""A model of brokers, processes and messages at random: what counts as a crash is what was started.

Some messages kill the process that starts them. The model keeps a journal of its own: each start, and the
count that was shown with it. Deliveries arrive at any moment, as they do over a wire: also beside a
handler that runs, and unseen by a process that dies.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import pytest

from retrier.domain.wire import Delivery, Properties
from retrier.worker.arrivals import (
    Counts,
    Poison,
    Site,
    Startable,
    Uncounted,
    judge_delivery,
)
from retrier.worker.hand import (
    Await,
    CalmDown,
    Cease,
    Decision,
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
from retrier.worker.handlers import make_handler
from retrier.worker.starts import Trace

HANDLER = make_handler("orders", lambda _: None, None)
STEPS = 60_000


@dataclass(slots=True, eq=False)
class Message:
    """On the queue, with what its headers say, and what the broker has counted."""

    name: str
    counts: Counts = field(default_factory=Counts)
    came_back: int = 0

    @property
    def key(self) -> tuple[str, Counts, int]:
        return self.name, self.counts, self.came_back


@dataclass(slots=True, kw_only=True)
class Plan:
    """What a run is made of."""

    counted: bool
    prefetch: int
    threads: int
    processes: int
    limit: int
    innocent: int = 30
    poison: int = 4
    stops: float = 0.0
    """How likely a process is stopped well, at each of its steps."""


class Process:
    """A worker: its hand, and what the broker has sent to it."""

    def __init__(self, world: "World") -> None:
        self.hand = Hand(world.plan.prefetch, world.plan.threads)
        self.hand.open(0, expects_suspects=True)
        self.socket: list[Message] = []
        """On the way: delivered, and not seen yet."""
        self.known: dict[Held, Message] = {}
        self.notes: dict[tuple[str, Counts, int], Trace] = {}
        self.unsettled: list[tuple[Held, Message | None]] = []
        self.stopping = False

    @property
    def unacknowledged(self) -> list[Message]:
        return [*self.socket, *self.known.values()]


class World:
    """One queue of a broker, some processes, and a journal."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self.plan = plan
        self.dice = Random(seed)  # noqa: S311 - a test
        names = [f"poison-{n}" for n in range(plan.poison)]
        names += [f"m-{n}" for n in range(plan.innocent)]
        self.dice.shuffle(names)
        self.queue = [Message(name) for name in names]
        self.left_notes: list[dict[tuple[str, Counts, int], Trace]] = []
        self.processes = [Process(self) for _ in range(plan.processes)]
        self.begun: list[str] = []
        self.shown: dict[str, int] = {}
        self.done: Counter[str] = Counter()
        self.failed: dict[str, int] = {}

    def run(self) -> None:
        for _ in range(STEPS):
            if len(self.done) + len(self.failed) == self.plan.innocent + self.plan.poison:
                return
            process = self.dice.choice(self.processes)
            if self.dice.random() < 0.5:
                self.deliver(process)
            else:
                self.step(process)
        raise AssertionError(f"not done: {self.queue}, {[p.hand.mode for p in self.processes]}")

    def deliver(self, process: Process) -> None:
        """Send a message over the wire, if the process may have one more."""
        credit = {Mode.CAREFUL: 1, Mode.OPEN: self.plan.prefetch, Mode.CEASED: 0}
        room = credit[process.hand.mode] - len(process.unacknowledged)
        if self.queue and room > 0:
            process.socket.append(self.queue.pop(0))

    def step(self, process: Process) -> None:
        process.stopping = process.stopping or self.dice.random() < self.plan.stops
        if process.unsettled and self.dice.random() < 0.7:
            self.settle(process)
            return
        if process.hand.running and self.dice.random() < 0.5:
            self.end_one(process)
            return
        mood = Mood(stopping=process.stopping)
        self.carry_out(process, process.hand.decide(self.dice.random() * 10, mood))

    def carry_out(self, process: Process, decision: Decision) -> None:
        match decision:
            case Start(several):
                self.start(process, several)
            case PutBack(several):
                self.put_back(process, several)
            case Take():
                self.take(process)
            case Cease():
                self.receive_all(process)
                process.hand.cease()
            case CalmDown():
                process.hand.calm_down(last=True)
            case Prove():
                process.hand.prove()
            case Leave():
                self.leave(process)
            case _:
                assert isinstance(decision, Await)

    def take(self, process: Process) -> None:
        limit = 1 if process.hand.mode is Mode.CAREFUL else len(process.socket)
        several, clean = self.receive_all(process, limit)
        process.hand.note_arrivals(several, 0, clean=clean)

    def receive_all(self, process: Process, limit: int = 1000) -> tuple[int, bool]:
        arrived, process.socket[:] = process.socket[:limit], process.socket[limit:]
        clean = [self.receive(process, each) for each in arrived]
        return len(arrived), all(clean)

    def put_back(self, process: Process, several: Sequence[Held]) -> None:
        for held in several:
            process.hand.put_back(held)
            self.publish(process, held)

    def receive(self, process: Process, message: Message) -> bool:
        came_back = message.came_back if self.plan.counted else min(message.came_back, 1)
        times = range(came_back) if self.plan.counted else ([0] if came_back else [])
        traces = [self.look((message.name, message.counts, time)) for time in times]
        site = Site(
            alone=self.plan.prefetch == 1,
            counted=self.plan.counted,
            beside_others=True,
            limit=self.plan.limit,
        )
        found, verdict = judge_delivery(message.counts, traces, site)
        held = Held(
            source=None,
            handler=HANDLER,
            delivery=Delivery(tag=1, queue="orders", raw=b"", body=b"", redelivered=False),
            properties=Properties(headers={}, fields={}),
            crashes=found.crashes,
            returns=found.returns,
            retry_id=None,
        )
        process.known[held] = message
        process.notes[self.key_of(message)] = Trace.IN_HAND
        match verdict:
            case Startable():
                process.hand.receive(held)
            case Uncounted():
                self.publish(process, held)
            case Poison():
                self.failed[message.name] = found.crashes
                process.hand.unsettle()
                process.unsettled.append((held, None))
        return not held.is_suspect

    def key_of(self, message: Message) -> tuple[str, Counts, int]:
        return message.key if self.plan.counted else (message.name, message.counts, 0)

    def look(self, key: tuple[str, Counts, int]) -> Trace:
        notes = [*self.left_notes, *(process.notes for process in self.processes)]
        return max(each.get(key, Trace.UNKNOWN) for each in notes)

    def start(self, process: Process, several: Sequence[Held]) -> None:
        for held in several:
            if process in self.processes:
                self.start_one(process, held)

    def start_one(self, process: Process, held: Held) -> None:
        message = process.known[held]
        if held.is_suspect and self.plan.prefetch > 1:
            assert process.unacknowledged == [message], "a suspect has neighbours"
            assert process.hand.mode is not Mode.OPEN
        process.notes[self.key_of(message)] = Trace.STARTED
        process.hand.start(held, 0)
        self.begun.append(message.name)
        self.shown[message.name] = max(held.crashes, self.shown.get(message.name, 0))
        if message.name.startswith("poison"):
            self.die(process)

    def end_one(self, process: Process) -> None:
        held = self.dice.choice(process.hand.running)
        assert process.hand.end(held)
        process.hand.unsettle()
        process.unsettled.append((held, None))

    def publish(self, process: Process, held: Held) -> None:
        counts = Counts(held.crashes, held.returns)
        process.hand.unsettle()
        process.unsettled.append((held, Message(process.known[held].name, counts)))

    def settle(self, process: Process) -> None:
        for held, copy in process.unsettled:
            message = process.known.pop(held)
            process.notes.pop(self.key_of(message), None)
            if copy is not None:
                self.queue.append(copy)
            elif message.name not in self.failed:
                self.done[message.name] += 1
        process.hand.settle(len(process.unsettled))
        process.unsettled.clear()

    def leave(self, process: Process) -> None:
        assert not process.unacknowledged
        self.processes.remove(process)
        self.processes.append(Process(self))

    def die(self, process: Process) -> None:
        """All that is unacknowledged comes back, in its place."""
        for message in process.unacknowledged:
            message.came_back += 1
        self.queue[:0] = process.unacknowledged
        self.left_notes.append(process.notes)
        self.processes.remove(process)
        self.processes.append(Process(self))


PLANS = [
    Plan(
        counted=counted, prefetch=max(prefetch, threads), threads=threads, processes=n, limit=limit
    )
    for counted in (True, False)
    for prefetch in (1, 4, 10, 50)
    for threads in (1, 4)
    for n in (1, 3)
    for limit in (2, 10)
]


def name_plan(plan: Plan) -> str:
    kind = "quorum" if plan.counted else "classic"
    return f"{kind}-{plan.prefetch}-{plan.processes}x{plan.threads}-{plan.limit}"


@pytest.mark.parametrize("stops", [0.0, 0.01], ids=["", "stopped"])
def test_each_poison_is_started_limit_and_one_times_and_no_innocent_counts_above_one(
    stops: float,
) -> None:
    for number, plan in enumerate(PLANS):
        plan.stops = stops
        world = World(plan, seed=number)
        world.run()

        starts = Counter(world.begun)
        poison = {name: starts[name] for name in starts if name.startswith("poison")}
        assert set(poison.values()) == {plan.limit + 1}, name_plan(plan)
        assert set(world.failed.values()) == {plan.limit + 1}, name_plan(plan)
        innocent = {name: each for name, each in world.shown.items() if name.startswith("m-")}
        assert max(innocent.values()) <= 1, name_plan(plan)
        assert set(world.done) == set(innocent), name_plan(plan)

"""A model of brokers, processes and messages at random: what counts as a crash is what was started.

Some messages kill the process that starts them. The model keeps a journal of its own: each start, and the
count that was shown with it. Deliveries arrive at any moment, as they do over a wire: also beside a
handler that runs, and unseen by a process that dies.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from retrier.domain.wire import Delivery, Properties
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
from retrier.worker.starts import (
    FORGIVEN,
    Poison,
    Site,
    Startable,
    StartCounts,
    Trace,
    Uncounted,
    judge_delivery,
)

HANDLER = make_handler("orders", lambda _: None, None)
STEPS = 60_000


@dataclass(slots=True, eq=False)
class Message:
    """On the queue, with what its headers say, and what the broker has counted."""

    name: str
    counts: StartCounts = field(default_factory=StartCounts)
    came_back: int = 0

    @property
    def key(self) -> tuple[str, StartCounts, int]:
        return self.name, self.counts, self.came_back


@dataclass(frozen=True, slots=True)
class Options:
    """How one process is started; `host`: only processes of one host know each other's notes."""

    threads: int
    prefetch: int
    host: int = 0


@dataclass(slots=True, kw_only=True)
class Plan:
    """What a run is made of."""

    counted: bool
    crew: Sequence[Options]
    """The processes. One that died is started again as it was."""
    limit: int
    innocent: int = 30
    poison: int = 4
    keeps_notes: bool = True
    """Whether what a process has noted is found after its death."""
    stops: float = 0.0
    """How likely a process is stopped well, at each of its steps."""


class Process:
    """A worker: its hand, and what the broker has sent to it."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.hand = Hand(options.prefetch, options.threads)
        self.hand.open(0, expects_suspects=True)
        self.socket: list[Message] = []
        """On the way: delivered, and not seen yet."""
        self.known: dict[Held, Message] = {}
        self.notes: dict[tuple[str, StartCounts, int], Trace] = {}
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
        self.dead: list[Process] = []
        self.processes = [Process(options) for options in plan.crew]
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
        credit = {Mode.CAREFUL: 1, Mode.OPEN: process.options.prefetch, Mode.CEASED: 0}
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
        traces = [self.look(process, (message.name, message.counts, time)) for time in times]
        site = Site(
            alone=process.options.prefetch == 1,
            counted=self.plan.counted,
            may_be_unseen=any(each.options.prefetch > 1 for each in self.find_others(process)),
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

    def key_of(self, message: Message) -> tuple[str, StartCounts, int]:
        return message.key if self.plan.counted else (message.name, message.counts, 0)

    def find_others(self, process: Process) -> list[Process]:
        everyone = [*self.dead, *self.processes]
        return [
            each
            for each in everyone
            if each is not process and each.options.host == process.options.host
        ]

    def look(self, process: Process, key: tuple[str, StartCounts, int]) -> Trace:
        near = [process, *self.find_others(process)]
        return max(each.notes.get(key, Trace.UNKNOWN) for each in near)

    def start(self, process: Process, several: Sequence[Held]) -> None:
        for held in several:
            if process in self.processes:
                self.start_one(process, held)

    def start_one(self, process: Process, held: Held) -> None:
        message = process.known[held]
        if held.is_suspect and process.options.prefetch > 1:
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
        counts = StartCounts(held.crashes, held.returns)
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
        self.processes.append(Process(process.options))

    def die(self, process: Process) -> None:
        """All that is unacknowledged comes back, in its place."""
        for message in process.unacknowledged:
            message.came_back += 1
        self.queue[:0] = process.unacknowledged
        if self.plan.keeps_notes:
            self.dead.append(process)
        self.processes.remove(process)
        self.processes.append(Process(process.options))


EQUAL = [
    [Options(threads, max(prefetch, threads))] * n
    for prefetch in (1, 4, 10, 50)
    for threads in (1, 4)
    for n in (1, 3)
]
MIXED = [
    [Options(1, 1), Options(1, 2)],
    [Options(1, 1), Options(2, 4)],
    [Options(1, 1), Options(1, 1), Options(4, 50)],
    [Options(1, 1), Options(1, 10), Options(4, 4)],
    [Options(1, 3), Options(3, 10)],
]
"""Threads and prefetch are changed by a rolling deploy, or set for each process."""


def make_plans(crews: Sequence[Sequence[Options]]) -> list[Plan]:
    return [
        Plan(counted=counted, crew=crew, limit=limit)
        for counted in (True, False)
        for crew in crews
        for limit in (2, 4, 10)
    ]


def name_plan(plan: Plan) -> str:
    kind = "quorum" if plan.counted else "classic"
    crew = " ".join(f"{each.threads},{each.prefetch}@{each.host}" for each in plan.crew)
    return f"{kind} {crew} limit {plan.limit}"


def count_poison_starts(world: World) -> set[int]:
    starts = Counter(world.begun)
    return {starts[name] for name in starts if name.startswith("poison")}


@pytest.mark.parametrize("stops", [0.0, 0.01], ids=["", "stopped"])
@pytest.mark.parametrize("crews", [EQUAL, MIXED], ids=["equal", "mixed"])
def test_each_poison_is_started_limit_and_one_times_and_no_innocent_counts_above_one(
    stops: float, crews: Sequence[Sequence[Options]]
) -> None:
    for number, plan in enumerate(make_plans(crews)):
        plan.stops = stops
        world = World(plan, seed=number)
        world.run()

        assert count_poison_starts(world) == {plan.limit + 1}, name_plan(plan)
        assert set(world.failed.values()) == {plan.limit + 1}, name_plan(plan)
        innocent = {name: each for name, each in world.shown.items() if name.startswith("m-")}
        assert max(innocent.values()) <= 1, name_plan(plan)
        assert set(world.done) == set(innocent), name_plan(plan)


def test_in_containers_that_share_no_notes_a_poison_is_never_started_more_often_than_that() -> None:
    # Each process is on a host of its own, and a new one finds nothing of the one that died.
    fleets = [
        [replace(each, host=host) for host, each in enumerate(crew)] for crew in (*EQUAL, *MIXED)
    ]
    for number, plan in enumerate(make_plans(fleets)):
        plan.keeps_notes = False
        world = World(plan, seed=number)
        world.run()

        starts = count_poison_starts(world)
        assert max(starts) <= plan.limit + 1, name_plan(plan)
        if all(each.prefetch == 1 for each in plan.crew):
            assert starts == {plan.limit + 1}, name_plan(plan)
        assert set(world.failed) == {f"poison-{n}" for n in range(plan.poison)}, name_plan(plan)


def test_on_several_machines_it_is_started_more_often_by_what_is_forgiven_at_the_most() -> None:
    fleets = [[replace(each, host=host) for host in (0, 1) for each in crew] for crew in MIXED]
    for number, plan in enumerate(make_plans(fleets)):
        world = World(plan, seed=number)
        world.run()

        most = plan.limit + 1 + FORGIVEN
        assert max(count_poison_starts(world)) <= most, name_plan(plan)
        assert set(world.failed) == {f"poison-{n}" for n in range(plan.poison)}, name_plan(plan)

"""Whatever can fail fails once: every broker call, every transaction, and the process before each.

From a queue that a frozen consumer holds, and on PostgreSQL, the process is killed only; the other
faults there: `pytest -m kills tests/stages`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from retrier.errors import BrokerUnavailable, DatabaseUnavailable
from retrier.store.engine.database import Database
from retrier.store.operation_requests import CreatedOperation
from tests.support.bench import STAGING, Bench, Killed
from tests.support.flaky_database import FlakyDatabase
from tests.support.promises import count_doubled, count_lost, count_up, find_leftovers

WINDOW = 2
MESSAGES = 3
MOST_EFFECTS = 300
PATIENCE = timedelta(seconds=0.3)
"""Short, since each turn of waiting is some more effects."""


@dataclass(slots=True, kw_only=True)
class Trial:
    """One operation with a fault at the n-th effect of the processor."""

    flaky: FlakyDatabase
    bench: Bench
    fault: "Fault"
    at: int
    met: int = 0
    name: str | None = None
    doubt: set[str] = field(default_factory=set)
    ids: Sequence[str] = ()
    asked: Sequence[CreatedOperation] = ()

    def meet(self, name: str) -> None:
        self.met += 1
        if self.met == self.at:
            self.name, self.doubt = name, self.bench.in_doubt()
            self.fault(self)

    def live_through(self, prepare: "Prepare", watch: "Watch") -> None:
        self.ids = self.bench.fail(MESSAGES)
        self.asked = [self.bench.ask(self.ids)]
        prepare(self.bench)
        watch(self)
        try:
            self.bench.work()
        except Killed:
            self.bench.restart()
            self.bench.work()

    def broken_promises(self, doubled: int) -> list[str]:
        twice = count_doubled(self.bench)
        checks = {
            "lost": not count_lost(self.bench, self.ids),
            "doubled": len(twice) <= doubled and twice <= self.doubt,
            "left over": find_leftovers(self.bench) == [],
            "counts": count_up(self.bench, self.asked) == [("completed", MESSAGES, MESSAGES)],
        }
        return [f"{self.at} {self.name}: {name}" for name, kept in checks.items() if not kept]


Fault = Callable[[Trial], None]
Prepare = Callable[[Bench], None]
Watch = Callable[[Trial], None]


def kill(_trial: Trial) -> None:
    raise Killed


def lose_the_database(_trial: Trial) -> None:
    raise DatabaseUnavailable("connection refused")


def lose_the_broker(_trial: Trial) -> None:
    raise BrokerUnavailable("connection reset")


def lose_the_lease(trial: Trial) -> None:
    trial.bench.lose_lease().release()


def transactions(trial: Trial) -> None:
    trial.flaky.before = trial.meet


def commits(trial: Trial) -> None:
    trial.flaky.after = trial.meet


def broker_calls(trial: Trial) -> None:
    trial.bench.transport.before_call = lambda name: (
        None if name.endswith(".close") else trial.meet(name)
    )


def everything(trial: Trial) -> None:
    """Watch what changes something: to die before a look is to die before what follows it."""
    trial.flaky.before = lambda name: None if name == "read" else trial.meet(name)
    broker_calls(trial)


def from_the_start(_bench: Bench) -> None:
    """Leave it at a request that nobody has looked at yet."""


def from_a_held_queue(bench: Bench) -> None:
    """Let a process die with the batch staged, and a frozen consumer keep all its copies."""
    bench.kill_at("staging.committed")
    with pytest.raises(Killed):
        bench.work()
    bench.transport.broker.subscribe(STAGING, 1000)
    bench.restart()


def try_all(database: Database, fault: Fault, prepare: Prepare, watch: Watch) -> Iterator[Trial]:
    """Let the fault meet the first effect; then, all anew, the second; and so on."""
    for at in range(1, MOST_EFFECTS):
        flaky = FlakyDatabase(database)
        bench = Bench(flaky, window=WINDOW, marker_timeout=PATIENCE, drain_timeout=PATIENCE)
        trial = Trial(flaky=flaky, bench=bench, fault=fault, at=at)
        trial.live_through(prepare, watch)
        if trial.name is None:
            return
        yield trial
    raise AssertionError("it never ends")


SWEEPS = {
    "killed": (kill, everything, WINDOW),
    "lease lost": (lose_the_lease, everything, WINDOW),
    "no database": (lose_the_database, transactions, 0),
    "commit unheard": (lose_the_database, commits, 0),
    "no broker": (lose_the_broker, broker_calls, 0),
}
"""What goes wrong, at which effects, and how many messages that may double."""


def find_broken_promises(database: Database, sweep: str, prepare: Prepare) -> list[str]:
    fault, watch, doubled = SWEEPS[sweep]
    trials = list(try_all(database, fault, prepare, watch))
    assert len(trials) > MESSAGES
    return [line for trial in trials for line in trial.broken_promises(doubled)]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("prepare", "sweep"),
    [
        *((from_the_start, sweep) for sweep in SWEEPS),
        (from_a_held_queue, "killed"),
        *(
            pytest.param(from_a_held_queue, sweep, marks=pytest.mark.kills)
            for sweep in SWEEPS
            if sweep != "killed"
        ),
    ],
)
def test_a_fault_at_any_effect_breaks_no_promise(
    database: Database, prepare: Prepare, sweep: str
) -> None:
    assert find_broken_promises(database, sweep, prepare) == []


@pytest.mark.parametrize(
    "database", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
@pytest.mark.parametrize(
    "sweep", ["killed", pytest.param("commit unheard", marks=pytest.mark.kills)]
)
def test_a_fault_at_any_effect_breaks_no_promise_on_postgres(
    database: Database, sweep: str
) -> None:
    assert find_broken_promises(database, sweep, from_the_start) == []

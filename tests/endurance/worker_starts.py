"""What counts as a crash is what was started: poison among innocents, clean stops, and kills.

`python -m tests.endurance.worker_starts poison --queue quorum --prefetch 50 --processes 3 --poison 25`
`python -m tests.endurance.worker_starts stops --queue quorum --prefetch 50 --ends 50`
`python -m tests.endurance.worker_starts kills --queue quorum --prefetch 50 --ends 50`
`python -m tests.endurance.worker_starts diagonal` runs a row of each.
`python -m tests.endurance.worker_starts matrix --rows 40 --seed 1` runs so many of all 252 rows of poison.

The handler writes a journal of its own: what it has started, and the count that it was shown.
"""

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from retrier.domain.wire import Confirmed, Edit, Outgoing
from retrier.transport.rabbitmq import RabbitMQTransport
from tests.endurance.report import tell
from tests.endurance.workers import queue_of
from tests.support.far_side import FarSide
from tests.support.servers import RABBITMQ, found
from tests.support.waiting import let_pass, wait_until
from tests.support.worker_process import WorkerProcesses

DEADLINE = 900.0
INNOCENT_TAKES = 0.005
LONGEST_LIFE = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One row of the matrix. The same seed puts the poison to the same places."""

    queue: str = "quorum"
    prefetch: int = 50
    processes: int = 1
    threads: int = 1
    limit: int = 10
    messages: int = 200
    poison: int = 0
    ends: int = 0
    """How often a process is stopped or killed."""
    hold_streams: bool = False
    seed: int = 1

    def __str__(self) -> str:
        streams = ", streams held" if self.hold_streams else ""
        return (
            f"{self.queue}, prefetch {self.prefetch}, {self.processes} x {self.threads}, "
            f"limit {self.limit}, {self.messages} messages, {self.poison} poison{streams}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a run has come to. `starts` counts how many poisons were started so often."""

    starts: Mapping[int, int]
    told: Mapping[str, int]
    """How many poisons say that they were attempted so often."""
    innocent_failed: int
    most_counted: int
    """The highest count that the handler of an innocent message was shown."""
    counted: int
    """How many innocent messages were shown any."""
    false_counts: int
    """How often a handler was shown a count above its real earlier starts."""
    lost: int
    handled_twice: int
    steps_back: int
    """How often a message was started after one that came behind it."""
    seconds: float

    def find_faults(self, plan: Plan, most: int) -> Iterator[str]:
        """Yield what is not as it must be; `most` is how often an innocent one may be counted."""
        right = {plan.limit + 1: plan.poison} if plan.poison else {}
        if self.starts != right:
            yield f"starts of the poisons: {self.starts}"
        if self.told != {str(each): number for each, number in right.items()}:
            yield f"what they say: {self.told}"
        if self.innocent_failed or self.lost:
            yield f"{self.innocent_failed} innocent ones failed, {self.lost} are lost"
        if self.most_counted > most:
            yield f"an innocent one was counted {self.most_counted} times"
        if self.false_counts:
            yield f"{self.false_counts} counts are above the real starts"


class Site:
    """A queue with messages, processes that handle them, and what they have written."""

    def __init__(self, url: str, plan: Plan, queue: str, folder: Path) -> None:
        self._plan = plan
        self._queue = queue
        self._url = url
        options: dict[str, Any] = {
            "error_queue": f"{queue}.error",
            "name": "wk",
            "prefetch": plan.prefetch,
            "threads": plan.threads,
            "crash_limit": plan.limit,
            "hold_streams": plan.hold_streams,
        }
        self.fleet = [WorkerProcesses(url, queue, folder, options) for _ in range(plan.processes)]
        names = [f"m-{number}" for number in range(plan.messages)]
        self.poison = set(random.Random(plan.seed).sample(names, plan.poison))  # noqa: S311 - a test
        self.innocent = [name for name in names if name not in self.poison]
        self._names = names

    def fill(self) -> None:
        """Put all messages on the queue."""
        transport = RabbitMQTransport(self._url, connection_name="endurance")
        stream = {"Retrier.Stream": "s"} if self._plan.hold_streams else {}
        raw = transport.codec.edit(
            transport.codec.empty, Edit(set_fields={"delivery_mode": 2}, set_headers=stream)
        )
        deeds = {
            name: {"do": "die"}
            if name in self.poison
            else {"do": "slow", "seconds": INNOCENT_TAKES}
            for name in self._names
        }
        messages = [
            Outgoing(queue=self._queue, raw=raw, body=json.dumps({"id": name, **deed}).encode())
            for name, deed in deeds.items()
        ]
        with closing(transport.publisher()) as publisher:
            assert set(publisher.publish(messages, lambda: None)) == {Confirmed()}  # noqa: S101

    def run_until(self, done: Callable[[], object]) -> None:
        """Keep so many processes alive until it is done."""

        def step() -> object:
            for each in self.fleet:
                each.keep_one_alive()
            return done()

        wait_until(step, DEADLINE, "the workers are done")

    def is_done(self) -> bool:
        """Return whether every message was handled, or is on the error queue."""
        done = set(self.fleet[0].told("done"))
        with closing(FarSide(self._url)) as far:
            failed = far.count(f"{self._queue}.error")
        return len(done) + failed >= len(self._names) and failed >= len(self.poison)

    def goes_on(self, before: int) -> bool:
        """Return whether more was started than that, or nothing is left to start."""
        return len(self.fleet[0].told("begun")) > before or self.is_done()

    def find(self, seconds: float) -> Found:
        """Compare the journal of the handlers with what is on the queues."""
        begun, done = self.fleet[0].told("begun"), Counter(self.fleet[0].told("done"))
        starts = Counter(begun)
        counts = [each.split("=") for each in self.fleet[0].told("counted")]
        innocent = {name: int(count) for name, count in counts if name not in self.poison}
        letters = list(self._letters())
        failed = {name for name, _ in letters}
        numbers = [int(each.removeprefix("m-")) for each in begun]
        return Found(
            starts=dict(Counter(starts[each] for each in self.poison)),
            told=dict(Counter(told for name, told in letters if name in self.poison)),
            innocent_failed=len(failed - self.poison),
            most_counted=max(innocent.values(), default=0),
            counted=len(innocent),
            false_counts=count_false(self.fleet[0].journal),
            lost=sum(not done[each] and each not in failed for each in self._names),
            handled_twice=sum(max(0, done[each] - 1) for each in self.innocent),
            steps_back=sum(after < before for before, after in pairwise(numbers)),
            seconds=seconds,
        )

    def _letters(self) -> Iterator[tuple[str, str]]:
        with closing(FarSide(self._url)) as far:
            while True:
                method, properties, body = far.channel.basic_get(
                    f"{self._queue}.error", auto_ack=True
                )
                if method is None or body is None:
                    return
                headers: Mapping[str, Any] = properties.headers
                yield json.loads(body)["id"], str(headers["Retrier.Attempts"])


def count_false(journal: Sequence[tuple[str, str]]) -> int:
    """Return how many counts are above the real starts.

    Each is told after the start that it belongs to, so it is below them. One more is no fault: a process may
    be killed after it has noted a start, and before the handler has written its own line.
    """
    starts, false = Counter[str](), 0
    for what, about in journal:
        if what == "begun":
            starts[about] += 1
        elif what == "counted":
            name, _, count = about.partition("=")
            false += int(count) > starts[name]
    return false


@contextmanager
def site_of(url: str, plan: Plan) -> Iterator[Site]:
    """Give a site with its messages; its processes are killed in the end."""
    with queue_of(url, plan.queue) as queue, TemporaryDirectory() as folder:
        site = Site(url, plan, queue, Path(folder))
        site.fill()
        try:
            yield site
        finally:
            for each in site.fleet:
                each.close()


def poison(url: str, plan: Plan) -> Found:
    """Have poison handled among innocents, and a supervisor start what dies."""
    began = monotonic()
    with site_of(url, plan) as site:
        site.run_until(site.is_done)
        return site.find(monotonic() - began)


def end(url: str, plan: Plan, *, kill: bool) -> Found:
    """Stop or kill a process again and again while it handles messages."""
    began, dice = monotonic(), random.Random(plan.seed)  # noqa: S311 - for a test
    with site_of(url, plan) as site:
        workers = site.fleet[0]
        for _ in range(plan.ends):
            before = len(workers.told("begun"))
            process = workers.start()
            wait_until(partial(site.goes_on, before), DEADLINE)
            let_pass(dice.uniform(0, LONGEST_LIFE / 4))
            process.kill() if kill else process.terminate()
            process.join()
            if not kill and process.exitcode:
                tell(f"a stop ended with {process.exitcode}")
        site.run_until(site.is_done)
        return site.find(monotonic() - began)


def show(kind: str, plan: Plan, found_: Found, most: int) -> bool:
    """Print a row; return whether all is right."""
    faults = list(found_.find_faults(plan, most))
    tell(
        f"{kind}: {plan}"
        f" | innocents failed {found_.innocent_failed}, counted {found_.counted} (most"
        f" {found_.most_counted}, false {found_.false_counts}), lost {found_.lost}, twice {found_.handled_twice},"
        f" steps back {found_.steps_back} | starts of poison {dict(sorted(found_.starts.items()))},"
        f" told {found_.told} | {found_.seconds:.0f} s | {'; '.join(faults) or 'right'}"
    )
    return not faults


DIAGONAL = (
    ("poison", Plan(queue="quorum", prefetch=50, processes=3, limit=10, poison=25)),
    ("poison", Plan(queue="classic", prefetch=50, processes=2, limit=2, poison=25)),
    ("poison", Plan(queue="quorum", prefetch=50, processes=2, threads=4, limit=2, poison=25)),
    ("poison", Plan(queue="quorum", prefetch=10, processes=1, limit=10, poison=10)),
    ("poison", Plan(queue="classic", prefetch=10, processes=1, threads=4, limit=2, poison=10)),
    ("poison", Plan(queue="quorum", prefetch=4, processes=3, threads=4, limit=2, poison=10)),
    ("poison", Plan(queue="classic", prefetch=4, processes=3, limit=10, poison=1)),
    ("poison", Plan(queue="quorum", prefetch=1, processes=3, limit=10, poison=1)),
    ("poison", Plan(queue="classic", prefetch=1, processes=2, limit=2, poison=25)),
    ("stops", Plan(queue="quorum", prefetch=50, messages=600, ends=50, hold_streams=True)),
    ("stops", Plan(queue="quorum", prefetch=1, messages=600, ends=50, hold_streams=True)),
    ("stops", Plan(queue="classic", prefetch=10, messages=600, ends=50, hold_streams=True)),
    ("stops", Plan(queue="quorum", prefetch=10, messages=600, ends=50)),
    ("kills", Plan(queue="quorum", prefetch=50, messages=600, ends=50, limit=100)),
    ("kills", Plan(queue="classic", prefetch=10, threads=4, messages=600, ends=50, limit=100)),
    (
        "kills",
        Plan(queue="quorum", prefetch=50, messages=600, ends=50, limit=100, hold_streams=True),
    ),
)


MATRIX = tuple(
    Plan(
        queue=queue,
        prefetch=prefetch,
        processes=processes,
        threads=threads,
        limit=limit,
        poison=poison,
    )
    for queue, prefetch, processes, threads, limit, poison in product(
        ("quorum", "classic"), (1, 4, 10, 50), (1, 2, 3), (1, 4), (2, 10), (1, 10, 25)
    )
    # A worker refuses more threads than it may have in hand.
    if threads <= prefetch
)


def draw(rows: int, seed: int) -> Sequence[tuple[str, Plan]]:
    """Return so many rows of the matrix at random; the same seed gives the same ones."""
    drawn = random.Random(seed).sample(MATRIX, min(rows, len(MATRIX)))  # noqa: S311 - for a test
    return [("poison", replace(plan, seed=seed)) for plan in drawn]


def run(url: str, kind: str, plan: Plan) -> bool:
    """Run one row and print it."""
    match kind:
        case "poison":
            return show(kind, plan, poison(url, plan), 1)
        case "stops":
            return show(kind, plan, end(url, plan, kill=False), 0)
        case _:
            # One may be killed over again: then it was started as often as it says.
            return show(kind, plan, end(url, plan, kill=True), plan.ends)


def main(arguments: Sequence[str]) -> int:
    """Run what is asked for; return 1 if something is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["poison", "stops", "kills", "diagonal", "matrix"])
    parser.add_argument("--queue", choices=["quorum", "classic"], default="quorum")
    for name in ("prefetch", "processes", "threads", "limit", "messages", "poison", "ends", "seed"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--hold-streams", action="store_true")
    parser.add_argument("--rows", type=int, default=len(MATRIX), help="of the matrix")
    words = {
        name: each for name, each in vars(parser.parse_args(arguments)).items() if each is not None
    }
    kind, most = words.pop("kind"), words.pop("rows")
    rows: Sequence[tuple[str, Plan]]
    match kind:
        case "diagonal":
            rows = DIAGONAL
        case "matrix":
            rows = draw(most, words.get("seed", 1))
        case _:
            rows = [(kind, replace(Plan(), **words))]
    with found(RABBITMQ) as url:
        right = [run(url, each, plan) for each, plan in rows]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

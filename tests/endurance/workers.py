"""Workers for a long time: as fast as a bare consumer, of the same size, killed without a loss.

`python -m tests.endurance.workers --messages 100000 --kills 200 --broker classic`
"""

import argparse
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from retrier.domain.wire import Confirmed, Edit, Outgoing
from retrier.transport.rabbitmq import RabbitMQTransport
from tests.endurance.report import tell
from tests.support.far_side import FarSide
from tests.support.project import ROOT
from tests.support.servers import RABBITMQ, found
from tests.support.waiting import let_pass, wait_until
from tests.support.worker_process import WorkerProcesses

DEADLINE = 300.0
TURNS = 7
WINDOW = 1000
GOALS = {1: 0.8, 50: 0.85}
"""By prefetch: how little more work than a pika consumer a worker needs for a message."""
LEAST_RATIO = 0.5
"""How fast a worker must be, if a bare Kombu consumer is 1."""
GROWTH = 1.03
"""What a worker may have grown from the second tenth of its messages to the last."""
LONGEST_LIFE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do. The same seed kills after the same times."""

    messages: int
    kills: int
    broker: str = "quorum"
    threads: int = 2
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """What came of messages whose worker was killed again and again."""

    messages: int
    kills: int
    lost: int
    handled_twice: int
    failed: int


@contextmanager
def queue_of(url: str, kind: str) -> Iterator[str]:
    """Give a queue with an error queue beside it."""
    name = f"test.orders.{uuid4().hex[:12]}"
    with closing(FarSide(url)) as far:
        for queue in (name, f"{name}.error"):
            far.declare(queue, x_queue_type=kind)
    try:
        yield name
    finally:
        # A new connection: the first one would have missed its heartbeats by now.
        with closing(FarSide(url)) as far:
            for queue in (name, f"{name}.error"):
                far.channel.queue_delete(queue)


def fill(url: str, queue: str, count: int, first: int = 0) -> None:
    """Put so many messages on the queue; their ids count on from the first."""
    transport = RabbitMQTransport(url, connection_name="endurance")
    raw = transport.codec.edit(transport.codec.empty, Edit(set_fields={"delivery_mode": 2}))
    bodies = (json.dumps({"id": f"m-{number}"}).encode() for number in range(first, first + count))
    messages = [Outgoing(queue=queue, raw=raw, body=body) for body in bodies]
    with closing(transport.publisher()) as publisher:
        for start in range(0, count, WINDOW):
            outcomes = publisher.publish(messages[start : start + WINDOW], lambda: None)
            assert set(outcomes) == {Confirmed()}  # noqa: S101 - else nothing can be said


def measure(url: str, kind: str, way: str, count: int, prefetch: int) -> dict[str, Any]:
    """Return rate and memory of one process that empties a queue."""
    with queue_of(url, kind) as queue:
        fill(url, queue, count)
        program = [sys.executable, "-m", "tests.support.worker_speed", way]
        words = [*program, url, queue, str(count), str(prefetch)]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603 - ourselves
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def compare(
    url: str, kind: str, count: int, prefetch: int, turns: int = TURNS, rival: str = "bare"
) -> Iterator[float]:
    """Tell how fast a worker is, if a bare consumer in the same turn is 1; turn by turn."""
    for _ in range(turns):
        ours = measure(url, kind, "worker", count, prefetch)
        yield ours["rate"] / measure(url, kind, rival, count, prefetch)["rate"]


def compare_work(
    url: str, kind: str, count: int, prefetch: int, turns: int = TURNS, rival: str = "bare"
) -> Iterator[float]:
    """Tell how much of its processor time a worker needs for a message, turn by turn, the same way.

    The broker's own threads and whatever else runs on a small machine change it least.
    """
    for _ in range(turns):
        theirs = measure(url, kind, rival, count, prefetch)
        ours = measure(url, kind, "worker", count, prefetch)
        yield theirs["microseconds"] / ours["microseconds"]


def kill(plan: Plan, url: str) -> Killed:
    """Kill workers while they empty a queue, and account for every message."""
    dice = random.Random(plan.seed)  # noqa: S311 - for a test
    options = {"threads": plan.threads, "crash_limit": 10 * plan.kills}
    with queue_of(url, plan.broker) as queue, TemporaryDirectory() as folder:
        workers = WorkerProcesses(
            url, queue, Path(folder), {"error_queue": f"{queue}.error", **options}
        )
        share = plan.messages // plan.kills
        for number in range(plan.kills):
            fill(url, queue, share, first=share * number)
            process = workers.start()
            begun = len(workers.told("begun"))
            wait_until(partial(_tells_more, workers, "begun", begun), DEADLINE, f"kill {number}")
            let_pass(dice.uniform(0, LONGEST_LIFE))
            process.kill()
            process.join()
        # Only now: the broker closes a connection over which nothing came for too long.
        far = FarSide(url)
        _empty(workers, partial(_is_empty, far, queue))
        done = Counter(workers.told("done"))
        failed = far.count(f"{queue}.error")
        far.close()
    sent = [f"m-{number}" for number in range(share * plan.kills)]
    lost = sum(done[each] == 0 for each in sent)
    twice = sum(max(0, done[each] - 1) for each in sent)
    return Killed(
        messages=len(sent), kills=plan.kills, lost=lost, handled_twice=twice, failed=failed
    )


def _empty(workers: WorkerProcesses, nothing_is_ready: Callable[[], bool]) -> None:
    """Let workers empty the queue.

    A broker counts only what no worker holds: a worker that ends well gives back what it holds and
    has not handled, so the queue is empty if nothing is ready after that.
    """
    while True:
        before = len(workers.told("started"))
        process = workers.start()
        wait_until(partial(_tells_more, workers, "started", before), DEADLINE, "a worker starts")
        wait_until(nothing_is_ready, DEADLINE, "workers empty the queue")
        process.terminate()
        process.join()
        if nothing_is_ready():
            return


def _is_empty(far: FarSide, queue: str) -> bool:
    return far.count(queue) == 0


def _tells_more(workers: WorkerProcesses, what: str, before: int) -> bool:
    return len(workers.told(what)) > before


def main(arguments: Sequence[str]) -> int:
    """Run all three; return 1 if something is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--broker", choices=["quorum", "classic"], default="quorum")
    parser.add_argument("--seed", type=int, default=1)
    words = parser.parse_args(arguments)
    plan = Plan(messages=20 * words.kills, kills=words.kills, broker=words.broker, seed=words.seed)
    with found(RABBITMQ) as url:
        memory = measure(url, plan.broker, "worker", words.messages, 10)["memory"]
        tell(f"memory in KiB after each tenth of {words.messages} messages: {memory}")
        ratios = {prefetch: list(compare(url, plan.broker, 3000, prefetch)) for prefetch in (1, 50)}
        for prefetch, found_ratios in ratios.items():
            shown = ", ".join(f"{ratio:.2f}" for ratio in found_ratios)
            tell(f"prefetch {prefetch}: {shown} of a bare Kombu consumer")
        work = {
            prefetch: list(compare_work(url, "classic", 5000, prefetch, rival="pika"))
            for prefetch in GOALS
        }
        for prefetch, found_work in work.items():
            shown = ", ".join(f"{ratio:.2f}" for ratio in found_work)
            tell(f"prefetch {prefetch}: {shown} of the work of a pika consumer, on classic queues")
        killed = kill(plan, url)
        tell(str(killed))
    is_flat = memory[-1] <= GROWTH * memory[1]
    is_fast = all(median(each) >= LEAST_RATIO for each in ratios.values())
    is_fast &= all(median(work[prefetch]) >= goal for prefetch, goal in GOALS.items())
    return 0 if is_flat and is_fast and killed.lost == killed.failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

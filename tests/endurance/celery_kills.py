"""Kill Celery workers and the service on Redis at random moments while tasks fail and are retried.

`python -m tests.endurance.celery_kills --tasks 200 --kills 100`
"""

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import httpx
from sqlalchemy import create_engine, text

from tests.endurance.report import tell
from tests.support.celery_workers import CeleryShop
from tests.support.databases import sqlite_url
from tests.support.forked_service import ForkingHost
from tests.support.redis_servers import KEEPS, PrivateRedis, private_redis
from tests.support.service import Host, Service, hosted
from tests.support.waiting import let_pass, wait_until

TASK, QUEUE = "shop.pack_late", "tasks"
LONGEST_LIFE, LONGEST_REST = 12.0, 0.3
"""Seconds: of a life in which too little happens, and of a pause before the kill."""
ASK_EVERY = 1.0
MOST_DONE = 25
"""Steps of which tasks and workers tell in a life. Counted so, the kills fall into the work."""
BROKEN = 0.8
"""Share of the lives in which tasks fail."""
STUCK = 120.0
TELL_EVERY = 20
UNRESOLVED = "SELECT count(*) FROM failed_messages WHERE status = 'unresolved'"
PENDING = "SELECT unique_message_id FROM failed_messages WHERE status = 'retry_issued'"
STORED = "SELECT message_id FROM failed_messages"
RESOLVED = "SELECT message_id FROM failed_messages WHERE status = 'resolved'"
ATTEMPTS = "SELECT count(*) FROM processing_attempts"
ALIVE = "SELECT count(*) FROM retry_operations WHERE state <> 'completed'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do. The same seed throws the same dice."""

    tasks: int
    kills: int
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """What came of the tasks. `unseen` have neither failed nor run: Celery has lost them.

    `left` are in Redis still, in the queue or with Celery as unacknowledged.
    """

    tasks: int
    kills: Counter[str]
    lost: int
    unseen: int
    left: int
    failures_published: int
    attempts_stored: int
    retried_again: int
    ran_twice: int
    seconds: float

    @property
    def is_well(self) -> bool:
        """Whether nothing was lost that had failed, and no failure that a worker had published."""
        return not self.lost and self.attempts_stored >= self.failures_published


@dataclass(slots=True, kw_only=True)
class Run:
    """One run on its way."""

    plan: Plan
    server: PrivateRedis
    shop: CeleryShop
    host: Host
    engine: Any
    dice: random.Random
    service: Service
    kills: Counter[str] = field(default_factory=Counter)
    again: int = 0

    def go(self) -> Came:
        """Send, kill, finish and count."""
        began = monotonic()
        self.shop.break_down()
        tasks = [self.shop.send(TASK, number) for number in range(self.plan.tasks)]
        self.shop.start("threads", concurrency=4)
        for number in range(1, self.plan.kills + 1):
            self._kill_one()
            if number % TELL_EVERY == 0:
                tell(f"{number} kills, stored: {len(self._ids(STORED))}")
        self._finish()
        packed = Counter(each.split()[1] for each in self._lines("packed"))
        stored, resolved = self._ids(STORED), self._ids(RESOLVED)
        return Came(
            tasks=len(tasks),
            kills=self.kills,
            lost=len([each for each in tasks if each in stored and each not in resolved]),
            unseen=len([each for each in tasks if each not in stored and not packed[each]]),
            left=self._count_left(),
            failures_published=len(self._lines("failure_published")),
            attempts_stored=self._count(ATTEMPTS),
            retried_again=self.again,
            ran_twice=sum(1 for each in packed.values() if each > 1),
            seconds=round(monotonic() - began, 1),
        )

    def _kill_one(self) -> None:
        self._set_broken(broken=self.dice.random() < BROKEN)
        wanted = len(self.shop.told) + self.dice.randint(1, MOST_DONE)
        end = monotonic() + LONGEST_LIFE
        while monotonic() < end and len(self.shop.told) < wanted:
            self._ask("/api/errors/retry/all")
            with suppress(AssertionError):
                wait_until(lambda: len(self.shop.told) >= wanted, ASK_EVERY)
        let_pass(self.dice.uniform(0, LONGEST_REST))
        if self.dice.random() < 0.5:  # noqa: PLR2004 - a coin
            self.kills["worker"] += 1
            self.shop.kill()
            self.shop.start("threads", concurrency=4)
        else:
            self.kills["service"] += 1
            self.service.kill()
            self.service = self.host.start()

    def _finish(self) -> None:
        """Let all of it succeed. A retry that Celery has lost stays pending, and is retried again."""
        self._set_broken(broken=False)
        self.service.wait_ready(STUCK)
        end, quiet = monotonic() + STUCK, 0
        while monotonic() < end and quiet < 5:  # noqa: PLR2004 - looks
            let_pass(2)
            if self._count(ALIVE):
                continue
            if self._count(UNRESOLVED):
                self._ask("/api/errors/retry/all")
            elif pending := sorted(self._ids(PENDING)):
                let_pass(4)  # longer than Celery's own visibility timeout
                pending = sorted(self._ids(PENDING) & set(pending))
                self.again += len(pending)
                self._ask("/api/pendingretries/retry", pending)
            else:
                quiet = 0 if self._count_left() else quiet + 1

    def _set_broken(self, *, broken: bool) -> None:
        with suppress(FileNotFoundError):
            self.shop.break_down() if broken else self.shop.repair()

    def _ask(self, path: str, body: object = None) -> None:
        """Ask the service, which may be dead or not up yet."""
        if "api.listening" not in self.service.names():
            return
        with suppress(httpx.HTTPError), self.service.http as http:
            http.post(path, json=body) if body is not None else http.post(path)

    def _count_left(self) -> int:
        with closing(self.server.client()) as client:
            return int(client.llen(QUEUE)) + int(client.hlen("unacked"))

    def _lines(self, begin: str) -> list[str]:
        return [each for each in self.shop.told if each.startswith(f"{begin} ")]

    def _ids(self, query: str) -> set[str]:
        with self.engine.connect() as conn:
            return {str(row[0]) for row in conn.execute(text(query))}

    def _count(self, query: str) -> int:
        with self.engine.connect() as conn:
            return int(conn.execute(text(query)).scalar_one())


@contextmanager
def opened_run(plan: Plan) -> Iterator[Run]:
    """Give a Redis, a shop, and a service on a host of their own; no worker runs yet."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        server = stack.enter_context(private_redis(folder / "redis", *KEEPS))
        shop = CeleryShop(server.url, QUEUE, "error", folder / "shop", VISIBILITY="3")
        stack.callback(shop.close)
        url = sqlite_url(folder)
        settings = {
            "broker": {"url": server.url},
            "database": {"url": url},
            "retries": {"drain_timeout": "500ms"},
            "api": {"port": 0},
        }
        host = stack.enter_context(hosted(folder, settings, ForkingHost))
        engine = create_engine(url)
        stack.callback(engine.dispose)
        dice = random.Random(plan.seed)  # noqa: S311 - no secret
        yield Run(
            plan=plan,
            server=server,
            shop=shop,
            host=host,
            engine=engine,
            dice=dice,
            service=host.start_ready(),
        )


def main() -> int:
    """Run it and print what came of it; 1 if something was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with opened_run(Plan(tasks=given.tasks, kills=given.kills, seed=given.seed)) as run:
        came = run.go()
    figures = {name: getattr(came, name) for name in came.__dataclass_fields__}
    tell(json.dumps({**figures, "kills": dict(came.kills)}))
    return 0 if came.is_well else 1


if __name__ == "__main__":
    sys.exit(main())

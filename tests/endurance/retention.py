"""A day with retention, in minutes: the database stays as large as it is, and nothing is off.

`python -m tests.endurance.retention --seconds 240`
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import Any

import httpx

from tests.endurance.far_ends import Consumer, Producer
from tests.endurance.grounds import Grounds, at_work, opened_grounds
from tests.endurance.report import tell
from tests.support.servers import POSTGRES, RABBITMQ, found
from tests.support.service import Service
from tests.support.waiting import let_pass, wait_until

HOURS = 24
KEPT = 3
"""Hours for which messages are kept."""
INSTANCES = 2
BEAT = 0.1
DEADLINE = 120
GROWTH = 1.15
"""What the last third of the day may be larger than the second."""
LONG_DAY = 120
"""Seconds of a day whose size says something."""
SET_ASIDE = 0.3
NO_END = 10**9
STORED = "SELECT count(*) FROM failed_messages"
SIZE = "SELECT pg_database_size(current_database())"
COUNTED = "SELECT coalesce(sum(count), 0) FROM ledger WHERE entry = '{}'"
UNDER_WAY = "SELECT count(*) FROM retry_operations WHERE completed_at IS NULL"
IDS = """
    SELECT CAST(unique_message_id AS text), message_id FROM failed_messages
    WHERE status = 'unresolved' ORDER BY random() LIMIT 5
"""
KNOWN = "SELECT message_id FROM failed_messages"
# Operations are kept for an hour at least, which is longer than this day: they are made older.
AGE = "UPDATE retry_operations SET completed_at = completed_at - interval '1 hour'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many seconds the day takes, and what happens in it."""

    seconds: float
    kills: int
    rate: int
    seed: int = 1

    @property
    def hour(self) -> float:
        """Seconds of an hour."""
        return self.seconds / HOURS


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """What there was at the end of an hour."""

    number: int
    stored: int
    deleted: int
    megabytes: float


@dataclass(slots=True, kw_only=True)
class Day:
    """The day on its way, and what was found in the end."""

    plan: Plan
    grounds: Grounds
    producer: Producer
    consumer: Consumer
    hours: list[Hour] = field(default_factory=list)
    set_aside: set[str] = field(default_factory=set)

    def pass_by(self) -> None:
        """Let the day pass, with requests all the time, a look each hour, and kills in between."""
        begin = monotonic()
        alive = [self.grounds.host.start() for _ in range(INSTANCES)]
        while (passed := monotonic() - begin) < self.plan.seconds:
            if int(passed / self.plan.hour) > (self.hours[-1].number if self.hours else 0):
                self._look(int(passed / self.plan.hour), alive)
            if passed * (self.plan.kills + 1) >= self.plan.seconds * (self.grounds.kills + 1):
                self.grounds.kill_one(alive)
            self._ask(alive)
            let_pass(BEAT)
        self._look(HOURS, alive)

    def finish(self) -> None:
        """Let all work be done, and count."""
        wait_until(self._is_quiet, DEADLINE, "all work is done")
        self.grounds.stop_all()
        known = {row[0] for row in self.grounds.query(KNOWN)}
        came = set(self.consumer.message_of.values())
        lost = self.producer.failed - known - came - self.set_aside
        self.grounds.expect("messages are lost", len(lost))
        counted = self.grounds.count(COUNTED.format("new")) - self.grounds.count(
            COUNTED.format("deleted")
        )
        self.grounds.expect("messages are not in the ledger", counted - self.grounds.count(STORED))
        self.grounds.expect("is the exit code of retrier verify", self.grounds.verify())
        if self.hours[-1].deleted == 0:
            self.grounds.problems.append("nothing was deleted")
        self._compare_sizes()

    def _compare_sizes(self) -> None:
        """Compare the last third with the one before; a short day has not come to a balance yet."""
        if self.plan.seconds < LONG_DAY:
            return
        third = HOURS // 3
        middle = max(each.megabytes for each in self.hours if third < each.number <= 2 * third)
        last = max(each.megabytes for each in self.hours if each.number > 2 * third)
        if last > middle * GROWTH:
            self.grounds.problems.append(f"the database grew from {middle:.1f} to {last:.1f} MB")

    def _ask(self, alive: Sequence[Service]) -> None:
        """Retry everything, and set some aside, each at times."""
        with (
            suppress(httpx.HTTPError, AssertionError, IndexError),
            self.grounds.dice.choice(alive).http as http,
        ):
            if self.grounds.count(UNDER_WAY) == 0:
                http.post("/api/errors/retry/all")
            ids = self.grounds.query(IDS)
            if ids and self.grounds.dice.random() < SET_ASIDE:
                self.set_aside |= {row[1] for row in ids}
                http.post("/api/errors/archive", json=[row[0] for row in ids])

    def _give_up_waiting(self, alive: Sequence[Service]) -> None:
        """Resolve by hand what was sent an hour ago and was not confirmed."""
        now = self.grounds.query("SELECT clock_timestamp()")[0][0]
        with (
            suppress(httpx.HTTPError, AssertionError, IndexError),
            self.grounds.dice.choice(alive).http as http,
        ):
            last = now - timedelta(seconds=self.plan.hour)
            body = {"from": (now - timedelta(days=1)).isoformat(), "to": last.isoformat()}
            http.patch("/api/pendingretries/resolve", json=body)

    def _look(self, number: int, alive: Sequence[Service]) -> None:
        self._give_up_waiting(alive)
        # The server's autovacuum looks once a minute, which is many hours of this day.
        self.grounds.conn.execute("VACUUM")
        self.grounds.conn.execute(AGE)
        deleted = self.grounds.count(COUNTED.format("deleted"))
        size = self.grounds.count(SIZE) / 1e6
        hour = Hour(
            number=number, stored=self.grounds.count(STORED), deleted=deleted, megabytes=size
        )
        self.hours.append(hour)
        tell(f"{number:4} h | {hour.stored:7} stored | {deleted:8} deleted | {size:7.1f} MB")

    def _is_quiet(self) -> bool:
        stored = len(self.producer.failed) <= self.grounds.count(COUNTED.format("new"))
        return stored and self.grounds.depth() == 0 and self.grounds.count(UNDER_WAY) == 0


def endure(plan: Plan, amqp_url: str, postgres_url: str) -> Day:
    """Let the day pass, and count."""
    servers = (amqp_url, postgres_url)
    with opened_grounds("retention", servers, plan.seed, _settings(plan)) as grounds:
        begin = monotonic()
        day = Day(
            plan=plan,
            grounds=grounds,
            producer=grounds.producer(NO_END, lambda: int((monotonic() - begin) * plan.rate)),
            consumer=grounds.consumer(),
        )
        with at_work(day.consumer):
            with at_work(day.producer):
                day.pass_by()
            day.finish()
        return day


def _settings(plan: Plan) -> dict[str, Any]:
    kept = f"{int(plan.hour * KEPT * 1000)}ms"
    return {
        "retention": {"resolved": kept, "archived": kept, "operations": "1h", "second_look": "1ms"},
        "processor": {"lease": "5s"},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, let a day pass, print what was found; 1 if something is off."""
    parser = argparse.ArgumentParser(prog="python -m tests.endurance.retention")
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--rate", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    with found(RABBITMQ) as amqp_url, found(POSTGRES) as postgres_url:
        day = endure(Plan(**vars(parser.parse_args(arguments))), amqp_url, postgres_url)
    doubles = day.consumer.came - len(day.consumer.copies)
    tell(
        f"{len(day.producer.failed)} failed, {len(day.consumer.copies)} retries came, "
        f"{doubles} of them twice, {day.grounds.kills} kills",
        *(day.grounds.problems or ["nothing is off"]),
    )
    return 1 if day.grounds.problems else 0


if __name__ == "__main__":
    sys.exit(main())

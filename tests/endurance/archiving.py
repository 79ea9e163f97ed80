"""A large group is archived, killed in the middle, retried meanwhile, and taken back.

`python -m tests.endurance.archiving --count 50000` tells how long it takes. Of `--others` other
queues as many messages lie there, so that the group is a part of the table.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import httpx
import psycopg

from retrier.events.processor import ArchiveChunkDone
from tests.benchmarks.filling import Filling, fill
from tests.endurance.report import tell
from tests.kills.sites import Combination, Place, opened_place
from tests.support.databases import open_upgraded, temporary_postgres
from tests.support.servers import POSTGRES, RABBITMQ, found, psycopg_url
from tests.support.waiting import let_pass, wait_until

DEADLINE = 600
CHUNK = 1000
"""Messages that are archived in one transaction."""
CLASSIFIER = "Endpoint Address"
"""Of this classifier a group is a queue."""
STATE = (
    "SELECT state, done, skipped, total FROM archive_operations ORDER BY created_at DESC LIMIT 1"
)
PAUSE = 0.2
"""Seconds between two lists, as some pages would ask for them."""
OF_QUEUE = """
    SELECT m.status, count(*) FROM failed_messages m JOIN causes c USING (cause_id)
    WHERE c.queue = '{}' GROUP BY m.status
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many messages the group has, and how many other queues have as many."""

    count: int
    others: int = 0
    kill: bool = True


@dataclass(slots=True, kw_only=True)
class Came:
    """What was seen: seconds, messages a second, the slowest list, and what is off."""

    archived_in: float = 0.0
    undone_in: float = 0.0
    slowest_list: float = 0.0
    lists: int = 0
    retried: int = 0
    problems: list[str] = field(default_factory=list)


def endure(plan: Plan, amqp_url: str, postgres_url: str) -> Came:
    """Let all of it happen; return what came of it."""
    with ExitStack() as stack:
        url = stack.enter_context(temporary_postgres(postgres_url))
        folder = Path(stack.enter_context(TemporaryDirectory()))
        database = open_upgraded(url)
        stack.callback(database.dispose)
        combination = Combination("classic", "postgres")
        opened = opened_place(combination, folder, database, lambda _broker: amqp_url)
        place = stack.enter_context(opened)
        others = tuple(f"{place.shop.orders}.{each}" for each in range(plan.others))
        filling = Filling(
            count=plan.count * (1 + plan.others),
            queue=place.shop.orders,
            error_queue=place.shop.error,
            body_size=512,
            others=others,
        )
        with psycopg.connect(psycopg_url(url), autocommit=True) as conn:
            fill(url, conn, filling)
        return _Run(place, plan).go()


class _Run:
    def __init__(self, place: Place, plan: Plan) -> None:
        self._place = place
        self._plan = plan
        self._came = Came()

    def go(self) -> Came:
        """Archive, kill, retry, take back."""
        host = self._place.host
        with host.start("api").http as http:
            asked = self._ask(http)
            if self._plan.kill:
                # Only a third: the group has to be there still when its retry is asked for.
                third = self._plan.count // 3 // CHUNK
                doomed = host.start(crash_at=f"{ArchiveChunkDone.name}:{third}")
                self._follow(http, lambda _: doomed.process.poll() is not None)
                self._check_state()
                self._retry(http)
            began, before = monotonic(), self._state()[1]
            host.start()
            self._follow(http, lambda settled: settled >= self._plan.count)
            self._came.archived_in = (monotonic() - began) * self._plan.count
            self._came.archived_in /= max(1, self._plan.count - before)
            self._end_retries()
            self._check_all(http, asked)
            self._undo(http, asked)
        return self._came

    def _ask(self, http: httpx.Client) -> dict[str, Any]:
        answer = http.post(f"/api/recoverability/groups/{self._group(http)}/errors/archive")
        where = answer.headers.get("Location", "")
        self._expect(
            "the answer", (answer.status_code, where[:24]), (202, "/api/archive_operations/")
        )
        found: dict[str, Any] = answer.json()
        self._expect("asked for", found["total"], self._plan.count)
        return found

    def _group(self, http: httpx.Client) -> str:
        groups = http.get(f"/api/recoverability/groups/{CLASSIFIER}").json()
        wanted = self._place.shop.orders
        return str(next(each["id"] for each in groups if each["title"] == wanted))

    def _follow(self, http: httpx.Client, is_there: Callable[[int], bool]) -> None:
        """Look how far it is, by SQL and at the lists, until enough are settled."""

        def look() -> bool:
            # Else the broker closes the shop's connection while nothing is sent over it.
            self._place.shop.channel.connection.process_data_events(0)
            began = monotonic()
            http.get("/api/errors?status=unresolved&per_page=50")
            self._came.slowest_list = max(self._came.slowest_list, monotonic() - began)
            self._came.lists += 1
            let_pass(PAUSE)
            state, done, skipped, _ = self._state()
            return state == "completed" or is_there(done + skipped)

        wait_until(look, DEADLINE, "it goes on")

    def _retry(self, http: httpx.Client) -> None:
        answer = http.post(f"/api/recoverability/groups/{self._group(http)}/errors/retry")
        self._expect("the retry", answer.status_code, 202)

    def _end_retries(self) -> None:
        open_ = "SELECT count(*) FROM retry_operations WHERE completed_at IS NULL"
        wait_until(lambda: self._place.count(open_) == 0, DEADLINE, "the retry is over")
        wait_until(lambda: self._state()[0] == "completed", DEADLINE, "the archive is over")

    def _check_state(self) -> None:
        _, done, _, _ = self._state()
        self._expect("archived when it was killed", self._of_queue().get("archived", 0), done)

    def _check_all(self, http: httpx.Client, asked: dict[str, Any]) -> None:
        state, done, skipped, total = self._state()
        shown = http.get(f"/api/archive_operations/{asked['operation_id']}").json()
        self._expect("as shown", (shown["done"], shown["state"]), (done, state))
        self._expect("settled", done + skipped, total)
        count = self._of_queue()
        self._came.retried = self._place.shop.depth(self._place.shop.orders)
        self._expect("archived", count.get("archived", 0), done)
        self._expect("archived or sent", done + self._came.retried, self._plan.count)
        listed = http.get(f"/api/errors?archived_by={asked['operation_id']}&per_page=1")
        self._expect("listed", int(listed.headers["Total-Count"]), done)
        self._expect("rules broken", self._place.broken_rules(), [])

    def _undo(self, http: httpx.Client, asked: dict[str, Any]) -> None:
        began = monotonic()
        http.post(f"/api/archive_operations/{asked['operation_id']}/undo")
        self._follow(http, lambda _: False)
        self._came.undone_in = monotonic() - began
        back = self._of_queue()
        self._expect("back", back.get("unresolved", 0), self._plan.count - self._came.retried)
        self._expect("rules broken", self._place.broken_rules(), [])

    def _state(self) -> tuple[str, int, int, int]:
        ((state, done, skipped, total),) = self._place.query(STATE)
        return state, done, skipped, total

    def _of_queue(self) -> dict[str, int]:
        rows = self._place.query(OF_QUEUE.format(self._place.shop.orders))
        return {str(status): int(number) for status, number in rows}

    def _expect(self, what: str, found: object, expected: object) -> None:
        if found != expected:
            self._came.problems.append(f"{what}: {found} and not {expected}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, let it happen, print what came of it; 1 if something is off."""
    parser = argparse.ArgumentParser(prog="python -m tests.endurance.archiving")
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--others", type=int, default=0)
    parser.add_argument("--no-kill", dest="kill", action="store_false")
    with found(RABBITMQ) as amqp_url, found(POSTGRES) as postgres_url:
        came = endure(Plan(**vars(parser.parse_args(arguments))), amqp_url, postgres_url)
    tell(
        f"archived in {came.archived_in:.1f} s, taken back in {came.undone_in:.1f} s, "
        f"{came.retried} were retried meanwhile; slowest of {came.lists} lists: "
        f"{came.slowest_list * 1000:.0f} ms",
        *(came.problems or ["nothing is off"]),
    )
    return 1 if came.problems else 0


if __name__ == "__main__":
    sys.exit(main())

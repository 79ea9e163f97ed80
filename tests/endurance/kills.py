"""Kill the process at random moments while it ingests and retries, then count.

`python -m tests.endurance.kills --messages 20000 --kills 200`
"""

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from time import monotonic

import httpx

from tests.endurance.account import Account, Kill, attribute, find_lost, find_wrong_attempts
from tests.endurance.far_ends import MOST_FAILURES, Consumer, Producer
from tests.endurance.grounds import Grounds, at_work, opened_grounds
from tests.endurance.report import report, tell
from tests.support.project import ROOT
from tests.support.servers import POSTGRES, RABBITMQ, found
from tests.support.service import Service
from tests.support.waiting import let_pass, wait_until

DIES_STARTING = 0.1
"""Share of the processes that die while they start; the others, somewhere in their work."""
LONGEST_START, LONGEST_LIFE, LONGEST_REST = 1.0, 30.0, 0.1
"""Seconds: of a start that is cut short; of a process that has nothing to do; of a pause between
the retry up to which it shall live, and the kill."""
ASK_EVERY = 0.5
LOOK_EVERY = 1.0
MOST_ALIVE = 5
"""Operations: more would only keep the processor busy with requests that find nothing."""
STUCK = 120
"""Seconds without anything coming back after which nothing will."""
SETTLED = 5
"""Seconds without anything new after which nobody has anything in hand that no queue shows."""
TELL_EVERY = 20
IN_DOUBT = (
    "SELECT CAST(retry_id AS text) FROM failed_message_retries "
    "WHERE sending_since IS NOT NULL AND forwarded_at IS NULL"
)
ROWS = "SELECT message_id, attempts FROM failed_messages"
# The last retry of a message that was confirmed meanwhile may have ended before it was sent: a
# pending retry was retried again while the confirmation of the earlier one was on its way. What
# is stamped and ends stays in `ended_retries`; nothing is ever sent before it is stamped.
GIVEN_OUT = """
    SELECT CAST(retry_id AS text) FROM ended_retries WHERE forwarded_at IS NOT NULL
    UNION SELECT CAST(retry_id AS text) FROM failed_message_retries WHERE forwarded_at IS NOT NULL
    UNION SELECT CAST(last_retry_id AS text) FROM failed_messages m
    WHERE last_retry_id IS NOT NULL AND (resolution IS DISTINCT FROM 'confirmed' OR EXISTS (
        SELECT FROM ended_retries e WHERE e.number = m.number AND e.retry_id = m.last_retry_id
    ))
"""
STORED = "SELECT count(*) FROM failed_messages"
ATTEMPTS = "SELECT count(*) FROM processing_attempts"
UNRESOLVED = "SELECT count(*) FROM failed_messages WHERE status = 'unresolved'"
ALIVE = "SELECT count(*) FROM retry_operations WHERE state <> 'completed'"
MOST_AGAIN = 20
"""Pending retries retried again at a time: the more, the longer the run, for ever more of them."""
PENDING = f"""
    SELECT CAST(unique_message_id AS text) FROM failed_messages WHERE status = 'retry_issued'
    ORDER BY random() LIMIT {MOST_AGAIN}
"""  # noqa: S608 - a number of ours
LATELY = "SELECT clock_timestamp() - interval '50 milliseconds', clock_timestamp()"
AGAIN = """
    SELECT coalesce(sum(forwarded), 0) FROM retry_operations WHERE originator LIKE '%pending%'
"""


Ask = Callable[[httpx.Client], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do to it. The same seed throws the same dice."""

    messages: int
    kills: int
    broker: str = "quorum"
    seed: int = 1
    window: int = 200


@dataclass(slots=True, kw_only=True)
class Run:
    """One endurance run on its way."""

    plan: Plan
    grounds: Grounds
    producer: Producer
    consumer: Consumer
    kills: list[Kill] = field(default_factory=list)

    def kill_once(self) -> None:
        """Start a process, ask it for retries all the time, and kill it at some moment."""
        service = self.grounds.host.start()
        began = monotonic()
        self._let_live(service)
        service.kill()
        doubt = frozenset(row[0] for row in self.grounds.query(IN_DOUBT))
        self.kills.append(
            Kill(
                number=len(self.kills) + 1,
                after=monotonic() - began,
                in_doubt=doubt,
                stored=self.grounds.count(STORED),
            )
        )

    @property
    def came(self) -> int:
        """How much has come back to the consumer so far."""
        return self.consumer.came

    def finish(self) -> None:
        """Let one process do all that is left, then stop it as an operator would."""
        service = self.grounds.host.start()
        service.wait_ready(STUCK)
        figures, since = self._figures(), monotonic()
        with service.http as http:
            # Lives may be too short for it: every life begins with a retry of all.
            self._ask_pending(http)
            while not (self._is_done() and monotonic() - since > SETTLED):
                if self.grounds.count(UNRESOLVED) and not self.grounds.count(ALIVE):
                    http.post("/api/errors/retry/all")
                let_pass(LOOK_EVERY)
                if self._figures() != figures:
                    figures, since = self._figures(), monotonic()
                if monotonic() - since > STUCK:
                    raise TimeoutError("nothing more comes back")
        if service.stop() != 0:
            raise RuntimeError("it was told to stop, and did not end well")

    def count_up(self, seconds: float, folder: Path = ROOT) -> Account:
        """Compare what came with what was put there; `folder` has the version that verifies."""
        rows = self.grounds.query(ROWS)
        copies = self.consumer.copies
        return Account(
            messages=self.plan.messages,
            retries=len(copies),
            kills=self.kills,
            window=self.plan.window,
            lost=self._find_lost([row[0] for row in rows]),
            unexplained=attribute(copies, self.kills),
            wrong_attempts=find_wrong_attempts(rows, self.consumer.failed_again),
            verified=self.grounds.verify(folder),
            again=self.grounds.count(AGAIN),
            seconds=seconds,
        )

    def _find_lost(self, stored: Sequence[str]) -> set[str]:
        given_out = [row[0] for row in self.grounds.query(GIVEN_OUT)]
        return find_lost(self.producer.failed, stored, given_out, self.consumer.message_of)

    def _let_live(self, service: Service) -> None:
        """Let the process work until it has sent some more; how many is for the dice to say.

        Counted in what it does and not in seconds: the kills fall into the work on any machine.
        """
        if self.grounds.dice.random() < DIES_STARTING:
            let_pass(self.grounds.dice.uniform(0, LONGEST_START))
            return
        wait_until(lambda: "api.listening" in service.names(), STUCK, "it listens")
        wanted = self.came + self.grounds.dice.randint(0, 2 * self.share())
        self._ask_until(service, lambda: self.came >= wanted)
        let_pass(self.grounds.dice.uniform(0, LONGEST_REST))

    def share(self) -> int:
        """Return how many retries there are for each kill, about."""
        return self.plan.messages * (1 + MOST_FAILURES // 2) // self.plan.kills

    def _ask_until(self, service: Service, is_over: Callable[[], bool]) -> None:
        """Ask for all, for each group, and for pending retries again, over and over."""
        end, asks = monotonic() + LONGEST_LIFE, cycle(self.asks())
        with service.http as http:
            while monotonic() < end and not is_over():
                # It may not have reached the database yet: asked again soon.
                if self.grounds.count(ALIVE) < MOST_ALIVE:
                    with suppress(httpx.HTTPError):
                        next(asks)(http)
                with suppress(AssertionError):
                    wait_until(is_over, ASK_EVERY)

    def asks(self) -> Sequence[Ask]:
        """Return what the service is asked for."""
        return [_ask_all, self._ask_pending, _ask_groups, self._ask_pending_of_queue]

    def _ask_pending(self, http: httpx.Client) -> None:
        """Ask for some of them again: sent and not confirmed, on their way, or in doubt."""
        http.post("/api/pendingretries/retry", json=[row[0] for row in self.grounds.query(PENDING)])

    def _ask_pending_of_queue(self, http: httpx.Client) -> None:
        """Ask for what was sent just now again."""
        ((first, last),) = self.grounds.query(LATELY)
        lately = {"from": first.isoformat(), "to": last.isoformat()}
        http.post(
            "/api/pendingretries/queues/retry",
            json={"queueaddress": self.grounds.shop.orders, **lately},
        )

    def _figures(self) -> tuple[int, int]:
        return self.came, self.grounds.count(ATTEMPTS)

    def _is_done(self) -> bool:
        if self.grounds.depth():
            return False
        stored = self.grounds.count(STORED) == self.plan.messages
        return stored and not (self.grounds.count(UNRESOLVED) or self.grounds.count(ALIVE))


def _ask_all(http: httpx.Client) -> None:
    http.post("/api/errors/retry/all")


def _ask_groups(http: httpx.Client) -> None:
    for group in http.get("/api/recoverability/groups").json():
        http.post(f"/api/recoverability/groups/{group['id']}/errors/retry")


def endure(plan: Plan, amqp_url: str, postgres_url: str) -> Account:
    """Carry out the plan to its end and count."""
    began = monotonic()
    settings = {"retries": {"forwarding_window": plan.window}}
    servers = (amqp_url, postgres_url)
    with opened_grounds("kills", servers, plan.seed, settings, plan.broker) as grounds:
        run = make_run(plan, grounds)
        with at_work(run.producer, run.consumer):
            for number in range(1, plan.kills + 1):
                run.kill_once()
                if number % TELL_EVERY == 0:
                    tell(f"{number} of {plan.kills} kills, {monotonic() - began:.0f} s")
            run.finish()
            return run.count_up(monotonic() - began)


def make_run(plan: Plan, grounds: Grounds) -> Run:
    """Make a run whose messages fail as the kills go on."""
    kills: list[Kill] = []

    def allowance() -> int:
        return plan.messages * (len(kills) + 1) // max(1, plan.kills)

    return Run(
        plan=plan,
        grounds=grounds,
        producer=grounds.producer(plan.messages, allowance),
        consumer=grounds.consumer(),
        kills=kills,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, endure, print what was found; 1 if a promise is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.endurance.kills", description=__doc__)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--broker", choices=["classic", "quorum"], default="quorum")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))  # noqa: S311 - no secret
    parser.add_argument("--window", type=int, default=200)
    plan = Plan(**vars(parser.parse_args(arguments)))
    tell(f"seed {plan.seed}: the same dice again with --seed {plan.seed}")
    with found(RABBITMQ) as amqp_url, found(POSTGRES) as postgres_url:
        account = endure(plan, amqp_url, postgres_url)
    tell(*report(account))
    return 1 if account.violations else 0


if __name__ == "__main__":
    sys.exit(main())

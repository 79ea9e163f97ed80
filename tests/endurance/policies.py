"""Messages that always fail, retried by policy, while processes are killed: each so often, and dead.

`python -m tests.endurance.policies --messages 2000 --kills 20 --instances 2`
"""

import argparse
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pika
from pika.adapters.blocking_connection import BlockingChannel

from retrier.domain.headers import RETRY_ID
from tests.endurance.far_ends import Producer, consume
from tests.endurance.grounds import Grounds, at_work, opened_grounds
from tests.endurance.report import tell
from tests.support.servers import POSTGRES, RABBITMQ, found
from tests.support.shop import Sent, Shop, failure_headers
from tests.support.waiting import let_pass, wait_until

ATTEMPTS = 4
WINDOW = 50
DEADLINE = 240
DEAD = "SELECT count(*) FROM failed_messages WHERE disposition = 'dead' AND failure_count = {}"
POLICIES = {
    "rules": [
        {
            "name": "always",
            "match": {},
            "attempts": ATTEMPTS,
            "backoff": {"kind": "fixed", "first": "500ms"},
            "jitter": {"additive": "2s"},
        }
    ]
}
SETTINGS: Mapping[str, Mapping[str, object]] = {
    "retries": {"forwarding_window": WINDOW},
    "processor": {"lease": "5s"},
    "policies": POLICIES,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many messages fail, and how often a process of how many is killed meanwhile."""

    messages: int
    kills: int
    instances: int
    seed: int = 1


@dataclass(slots=True, kw_only=True)
class Refuser:
    """A consumer that fails every copy that it gets; `copies` counts them by message and retry."""

    url: str
    shop: Shop
    copies: Counter[tuple[str, str]] = field(default_factory=Counter)

    def run(self, stop: threading.Event) -> None:
        """Consume until told to stop."""
        consume(self.url, self.shop.orders, stop, self._refuse)

    def _refuse(self, channel: BlockingChannel, sent: Sent) -> None:
        message_id = sent.properties.message_id
        self.copies[message_id, sent.headers[RETRY_ID]] += 1
        headers = {**sent.headers, **failure_headers(self.shop.orders)}
        properties = pika.BasicProperties(message_id=message_id, delivery_mode=2, headers=headers)
        channel.basic_publish("", self.shop.error, sent.body, properties)


@dataclass(slots=True, kw_only=True)
class Run:
    """One run on its way."""

    plan: Plan
    grounds: Grounds
    producer: Producer
    refuser: Refuser

    @property
    def doubles(self) -> int:
        """Copies that came though their retry had come before."""
        return sum(self.refuser.copies.values()) - len(self.refuser.copies)

    def pass_by(self) -> None:
        """Kill a process now and then, until all are dead and the kills are over."""
        grounds = self.grounds
        alive = [grounds.host.start() for _ in range(self.plan.instances)]
        while grounds.kills < self.plan.kills:
            let_pass(grounds.dice.uniform(0.5, 1.5))
            grounds.kill_one(alive)
        dead = DEAD.format(ATTEMPTS)
        wait_until(lambda: grounds.count(dead) == self.plan.messages, DEADLINE, "all are dead")

    def count(self) -> None:
        """Say what is off: a message lost, retried too often, or counted wrongly."""
        expect = self.grounds.expect
        retries = Counter(message_id for message_id, _ in self.refuser.copies)
        expect("messages never came back", len(self.producer.failed - retries.keys()))
        wrong = [key for key in self.producer.failed if retries[key] != ATTEMPTS - 1]
        expect(f"messages were not retried {ATTEMPTS - 1} times", len(wrong))
        too_many = max(0, self.doubles - self.grounds.kills * WINDOW)
        expect("more copies came twice than were in doubt", too_many)
        self.grounds.stop_all()
        expect("is the exit code of retrier verify", self.grounds.verify())


def endure(plan: Plan, amqp_url: str, postgres_url: str) -> Run:
    """Let all of them fail until they are dead, and count."""
    servers = (amqp_url, postgres_url)
    with opened_grounds("policies", servers, plan.seed, SETTINGS) as grounds:
        run = Run(
            plan=plan,
            grounds=grounds,
            # Some fail between any two kills, so that each kill falls into the work.
            producer=grounds.producer(
                plan.messages,
                lambda: plan.messages * (grounds.kills + 1) // max(1, plan.kills),
            ),
            refuser=Refuser(url=amqp_url, shop=grounds.shop),
        )
        with at_work(run.refuser, run.producer):
            run.pass_by()
        run.count()
        return run


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, run, print what was found; 1 if something is off."""
    parser = argparse.ArgumentParser(prog="python -m tests.endurance.policies")
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--instances", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    with found(RABBITMQ) as amqp_url, found(POSTGRES) as postgres_url:
        run = endure(Plan(**vars(parser.parse_args(arguments))), amqp_url, postgres_url)
    tell(
        f"{len(run.producer.failed)} messages failed {ATTEMPTS} times each, {run.grounds.kills} kills, "
        f"{run.doubles} copies came twice",
        *(run.grounds.problems or ["nothing is off"]),
    )
    return 1 if run.grounds.problems else 0


if __name__ == "__main__":
    sys.exit(main())

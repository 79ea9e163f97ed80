"""People archive, resolve and retry by hand what comes due: nothing is sent twice, or too late.

`python -m tests.endurance.acts --messages 1000 --acts 1000 --site rabbitmq --instances 2`
"""

import argparse
import random
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import httpx

from retrier.domain.headers import RETRY_ID
from tests.endurance.grounds import at_work
from tests.endurance.report import tell
from tests.endurance.sites import (
    MESSAGE_ID,
    SITES,
    fail,
    fail_again,
    opened_site,
    stop_all,
    take_what_came,
)
from tests.kills.sites import Place
from tests.support.waiting import let_pass, wait_until

OUT_OF_STOCK = ("Shop.OutOfStock", "nothing left")
POLICIES: dict[str, Any] = {
    "rules": [
        {
            "name": "always",
            "match": {},
            "attempts": 3,
            "backoff": {"kind": "fixed", "first": "300ms"},
            "jitter": {"additive": "700ms"},
        }
    ]
}
DEADLINE = 240
HELD = 0.3
"""Seconds at most until what came fails again: whatever else is sent meanwhile is one too many."""
QUIET = 1.5
"""Seconds after the end in which nothing may come."""
SOON = 20
"""An act is about one of so many that are due next, often the one that is sent just now."""
DUE_NEXT = f"""
    SELECT unique_message_id, message_id FROM failed_messages
    WHERE disposition = 'scheduled' ORDER BY retry_at LIMIT {SOON}
"""  # noqa: S608 - a number of ours
OVER = """
    SELECT count(*) FROM failed_messages
    WHERE disposition = 'dead' OR status IN ('archived', 'resolved')
"""
ACTS = ("archive", "resolve", "retry", "retry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many messages fail, and how often somebody does something to one of them."""

    messages: int
    acts: int
    site: str
    instances: int = 1
    seed: int = 1


@dataclass(slots=True, kw_only=True)
class Consumer:
    """Lets everything fail that comes, a little later. `came` counts by message, `copies` by retry."""

    place: Place
    dice: random.Random
    came: Counter[str] = field(default_factory=Counter)
    copies: Counter[str] = field(default_factory=Counter)
    held: dict[str, tuple[float, Any]] = field(default_factory=dict)
    twice: list[str] = field(default_factory=list)

    def work(self) -> None:
        """Take what came; put back what was held for long enough."""
        for headers in take_what_came(self.place):
            key = str(headers[MESSAGE_ID])
            self.came[key] += 1
            self.copies[str(headers[RETRY_ID])] += 1
            if key in self.held:
                self.twice.append(key)
            self.held[key] = (monotonic() + self.dice.uniform(0, HELD), headers)
        due = [key for key, (at, _) in self.held.items() if at <= monotonic()]
        for key in due:
            # First forgotten, then put back: it may come again from there on.
            _, headers = self.held.pop(key)
            fail_again(self.place, headers, OUT_OF_STOCK)


@dataclass(slots=True, kw_only=True)
class People:
    """Do something to one message after another. `ended` is what had come of each when it was over.

    What was claimed and not stamped may be taken out, what may have been sent may not: an archive
    that was accepted says that nothing more is sent, and all that came had failed again before.
    """

    plan: Plan
    place: Place
    consumer: Consumer
    dice: random.Random
    asked: int = 0
    done: Counter[str] = field(default_factory=Counter)
    ended: dict[str, int] = field(default_factory=dict)

    def run(self, stop: threading.Event) -> None:
        """Act until told to stop, or often enough."""
        with ExitStack() as stack:
            # Opened once: to open a client takes longer than an act.
            https = [stack.enter_context(each.http) for each in self.place.host.services]
            while not stop.is_set() and self.asked < self.plan.acts:
                rows = self.place.query(DUE_NEXT)
                if rows:
                    self._act(self.dice.choice(https), *self.dice.choice(rows))
                else:
                    let_pass(HELD / 10)

    def _act(self, http: httpx.Client, unique_id: object, message_id: str) -> None:
        act = self.dice.choice(ACTS)
        self.asked += 1
        if not _do(http, act, str(unique_id), message_id):
            return
        self.done[act] += 1
        if act != "retry":
            self.ended[message_id] = self.consumer.came[message_id]


def _do(http: httpx.Client, act: str, unique_id: str, message_id: str) -> bool:
    """Return whether the answer says that it is done."""
    if act == "archive":
        return http.post(f"/api/errors/{unique_id}/archive").status_code == httpx.codes.ACCEPTED
    if act == "retry":
        answer = http.post(f"/api/errors/{unique_id}/retry")
        return answer.status_code == httpx.codes.ACCEPTED and not answer.json().get("skipped")
    # Not by its id: named so, one that was sent already would be resolved as well.
    asked = {"act": "resolve", "selection": {"text": message_id}}
    found = http.post("/api/archive_operations", json=asked).json()
    return bool(found["resolved"] == 1)


@dataclass(slots=True, kw_only=True)
class Run:
    """One run on its way, and what is off."""

    plan: Plan
    place: Place
    consumer: Consumer
    people: People
    problems: list[str] = field(default_factory=list)

    def pass_by(self) -> None:
        """Let all of them fail and come due, with acts meanwhile, until nothing is left to do."""
        for number in range(self.plan.messages):
            fail(self.place, f"message-{number:06}", OUT_OF_STOCK)
        with at_work(self.people):
            wait_until(self._is_over, DEADLINE, "all are dead, archived or resolved")
        let_pass(QUIET)
        self.consumer.work()

    def count(self) -> None:
        """Say what is off: sent twice, or sent after it was out of the way."""
        consumer, people = self.consumer, self.people
        doubled = [key for key, times in consumer.copies.items() if times > 1]
        self._expect("retries came twice", doubled)
        self._expect("messages came while their last retry had not failed yet", consumer.twice)
        late = [key for key, before in people.ended.items() if consumer.came[key] != before]
        self._expect("messages were sent after they were archived or resolved", late)
        # Whoever acts in the other thread may have ended with an error: then nothing is proved.
        never = [act for act in set(ACTS) if not people.done[act]]
        self._expect("acts were never done", never)
        self.problems.extend(stop_all(self.place))

    def _is_over(self) -> bool:
        self.consumer.work()
        return not self.consumer.held and self.place.count(OVER) == self.plan.messages

    def _expect(self, words: str, found: Sequence[str]) -> None:
        if found:
            self.problems.append(f"{len(found)} {words}: {', '.join(found[:5])}")


def endure(plan: Plan) -> Run:
    """Let all of it happen, and count."""
    dice = random.Random(plan.seed)  # noqa: S311 - so that a run can be repeated
    with opened_site(plan.site, POLICIES) as place:
        consumer = Consumer(place=place, dice=random.Random(dice.random()))  # noqa: S311 - no secret
        people = People(plan=plan, place=place, consumer=consumer, dice=dice)
        for _ in range(plan.instances):
            place.host.start_ready()
        run = Run(plan=plan, place=place, consumer=consumer, people=people)
        run.pass_by()
        run.count()
        return run


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, run, print what was done; 1 if something is off."""
    parser = argparse.ArgumentParser(prog="python -m tests.endurance.acts")
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--acts", type=int, default=1000)
    parser.add_argument("--site", choices=SITES, default=SITES[0])
    parser.add_argument("--instances", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    run = endure(Plan(**vars(parser.parse_args(arguments))))
    done = ", ".join(f"{count} of {act}" for act, count in sorted(run.people.done.items()))
    tell(
        f"{run.plan.messages} messages, {len(run.consumer.copies)} retries came; "
        f"{run.people.asked} acts, done: {done}",
        *(run.problems or ["nothing is off"]),
    )
    return 1 if run.problems else 0


if __name__ == "__main__":
    sys.exit(main())

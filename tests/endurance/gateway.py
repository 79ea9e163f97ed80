"""The preset `gateway` in real time: after how many seconds each retry comes, and what never comes.

`python -m tests.endurance.gateway --messages 200 --site rabbitmq`
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from time import monotonic
from typing import Any

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

DEADLINE = 120
UNAVAILABLE = ("Shop.GatewayError", "503 Service Unavailable")
REFUSED = ("Shop.GatewayError", "400 Bad Request")
CLASSES = [
    {"exception": "Shop.GatewayError", "message": r"5\d\d", "reason": "GW_5XX"},
    {"exception": "Shop.GatewayError", "message": r"4\d\d", "reason": "GW_4XX"},
]
DEAD = """
    SELECT count(*) FROM failed_messages
    WHERE disposition = 'dead' AND failure_count = {} AND reason = '{}'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many messages fail; a tenth as many are refused. `first` None: the preset as it is."""

    messages: int
    site: str
    first: float | None = None
    late: float = 2.0
    """Seconds from the failure until it is stored, and from when it is due until it is taken."""

    @property
    def rule(self) -> dict[str, Any]:
        """The preset, or its like with other seconds."""
        rule: dict[str, Any] = {"name": "gateway", "match": {}, "preset": "gateway"}
        if self.first is None:
            return rule
        delay = f"{int(self.first * 1000)}ms"
        faster = {"kind": "exponential", "first": delay, "factor": 2}
        return {**rule, "backoff": faster, "jitter": {"additive": delay}}

    @property
    def bounds(self) -> Sequence[tuple[float, float]]:
        """From when to when each retry is due, in seconds from the failure before it."""
        first = 5.0 if self.first is None else self.first
        return [(first, 2 * first), (2 * first, 3 * first)]


@dataclass(slots=True, kw_only=True)
class Run:
    """One run on its way. `spacings` are the seconds from a failure to the retry after it."""

    plan: Plan
    place: Place
    failed_at: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    spacings: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    problems: list[str] = field(default_factory=list)

    def pass_by(self) -> None:
        """Let all fail whenever they come, until they are dead, and a while longer."""
        for number in range(self.plan.messages):
            self._fail(f"unavailable {number}", UNAVAILABLE)
        for number in range(self.plan.messages // 10):
            self._fail(f"refused {number}", REFUSED)
        wait_until(self._has_ended, DEADLINE, "all are dead")
        let_pass(self.plan.bounds[0][1])
        self._take()

    def count(self) -> None:
        """Say what is off: too early, too late, too often, not dead, or tried in vain."""
        self._expect("refused and dead at once", self._refused(), self.plan.messages // 10)
        refused = [key for key in self.spacings if key.startswith("refused")]
        self._expect("refused and retried", len(refused), 0)
        for number, (least, most) in enumerate(self.plan.bounds):
            times = self.of_retry(number)
            self._expect(f"sent {number + 1} times", len(times), self.plan.messages)
            off = [each for each in times if not least <= each <= most + self.plan.late]
            self._expect(f"retries {number + 1} outside their time", len(off), 0)
        self._expect("sent a third time", len(self.of_retry(2)), 0)
        self.problems.extend(stop_all(self.place))

    def of_retry(self, number: int) -> list[float]:
        """Return the seconds until the retry with this number, from 0, of each message."""
        return [times[number] for times in self.spacings.values() if len(times) > number]

    def _fail(self, key: str, reason: tuple[str, str]) -> None:
        # Before it fails: the time until the broker has it belongs to the wait.
        self.failed_at[key].append(monotonic())
        fail(self.place, key, reason)

    def _has_ended(self) -> bool:
        self._take()
        return self.place.count(DEAD.format(3, "GW_5XX")) >= self.plan.messages

    def _take(self) -> None:
        for headers in take_what_came(self.place):
            key = str(headers[MESSAGE_ID])
            self.spacings[key].append(monotonic() - self.failed_at[key][-1])
            self.failed_at[key].append(monotonic())
            fail_again(self.place, headers, UNAVAILABLE)

    def _refused(self) -> int:
        return self.place.count(DEAD.format(1, "GW_4XX"))

    def _expect(self, what: str, number: int, expected: int) -> None:
        if number != expected:
            self.problems.append(f"{what}: {number} and not {expected}")


def endure(plan: Plan) -> Run:
    """Let all of them fail until they are dead, and look at the times."""
    policies = {"classify": CLASSES, "rules": [plan.rule]}
    with opened_site(plan.site, policies) as place:
        run = Run(plan=plan, place=place)
        place.host.start_ready()
        run.pass_by()
        run.count()
        return run


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, run, print the times; 1 if something is off."""
    parser = argparse.ArgumentParser(prog="python -m tests.endurance.gateway")
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--site", choices=SITES, default=SITES[0])
    run = endure(Plan(**vars(parser.parse_args(arguments))))
    for number in range(2):
        times = run.of_retry(number) or [0.0]
        shown = f"{min(times):.2f} / {median(times):.2f} / {max(times):.2f}"
        tell(f"retry {number + 1}: {len(times)} came after {shown} s (least, middle, most)")
    tell(*(run.problems or ["nothing is off"]))
    return 1 if run.problems else 0


if __name__ == "__main__":
    sys.exit(main())

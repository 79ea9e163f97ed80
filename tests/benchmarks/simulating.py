"""How long policies take: one judgement, and a simulation over 100,000 stored failures.

    python -m tests.benchmarks.simulating [postgresql://...]

It makes a database on that server, and a file, and removes both.
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter

from retrier.policy.classification import ReasonRule
from retrier.policy.delays import Exponential
from retrier.policy.facts import Facts
from retrier.policy.policy_set import Definition, Match, PolicySet, Rule
from retrier.store.engine.database import Database
from retrier.store.policies import Bounds, simulate_policies
from retrier.store.recording import record_received
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.support.databases import open_upgraded, sqlite_url, temporary_postgres
from tests.support.factories import failure

MANY = 100_000
BATCH = 1000
RULES = 20
SERVER = "postgresql://postgres@127.0.0.1:5432/postgres"
ALL = timedelta(days=3650)


def make_set() -> PolicySet:
    """Return 20 rules and 20 expressions, of which most failures match none."""
    backoff = Exponential(first=timedelta(seconds=1))
    return PolicySet(
        Definition(
            classify=tuple(
                ReasonRule(reason=f"r{number}", message=rf"code {number}\d\d")
                for number in range(RULES)
            ),
            rules=tuple(
                Rule(name=f"q{n}", match=Match(queue=(f"q{n}.*",)), attempts=3, backoff=backoff)
                for n in range(RULES)
            ),
        )
    )


def judge_many(policies: PolicySet, *, alike: bool) -> float:
    """Return the microseconds of one judgement."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    facts = [
        Facts(
            queue="orders",
            exception_type="Shop.OutOfStock",
            exception_message=f"order {0 if alike else number}",
        )
        for number in range(MANY)
    ]
    began = perf_counter()
    for each in facts:
        policies.judge(each, failures=1, now=now, dice=lambda: 0.5)
    return 1e6 * (perf_counter() - began) / MANY


def fill(db: Database) -> None:
    """Store failures: every fourth is another one of a message that has failed before."""
    for start in range(0, MANY, BATCH):
        numbers = range(start, start + BATCH)
        ids = [str(number if number % 4 else number // 8) for number in numbers]
        texts = [f"code {number % 5000}" for number in numbers]
        rows = [
            failure(message_id=key, exception_message=text, queue=f"q{int(key) % 40}.in")
            for key, text in zip(ids, texts, strict=True)
        ]
        record_received(db, rows, instance="benchmark")


def measure(server: str) -> Iterator[str]:
    """Yield a line for each figure."""
    for name, policies in (("without policies", PolicySet()), ("with 20 rules", make_set())):
        alike, differing = (judge_many(policies, alike=each) for each in (True, False))
        yield f"one judgement {name}: {alike:.2f} us; all messages different: {differing:.2f} us"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        urls = {
            "PostgreSQL": stack.enter_context(temporary_postgres(server)),
            "SQLite": sqlite_url(folder),
        }
        for name, url in urls.items():
            db = open_upgraded(url)
            stack.callback(db.dispose)
            fill(db)
            began = perf_counter()
            found = simulate_policies(db, make_set(), AmqpPropertyCodec(), Bounds(since=ALL))
            seconds = perf_counter() - began
            end = found.stopped or "all were judged"
            yield f"simulation over {found.found.judged:,} on {name}: {seconds:.1f} s ({end})"


if __name__ == "__main__":
    for line in measure(sys.argv[1] if len(sys.argv) > 1 else SERVER):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

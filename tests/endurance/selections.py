"""The long form of the oracle: what is selected is what is listed, counted, acted on and undone.

python -m tests.endurance.selections --conditions 5000 --seed 1 --database postgres-icu
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from retrier.store.engine.database import Database
from tests.endurance.report import tell
from tests.properties.selections.names import Names
from tests.properties.selections.refusals import Refusals
from tests.properties.selections.rounds import Oracle
from tests.properties.selections.stock import fill
from tests.support.databases import empty, open_upgraded, sqlite_url, temporary_postgres
from tests.support.servers import POSTGRES, found

OF_ONE_STOCK = 250
"""Conditions after which all messages are drawn anew."""
EACH = 5
"""After so many conditions: one that nobody understands, and messages by name."""
MOST_PROBLEMS = 20
DATABASES = {
    "postgres": ("template1", ""),
    "postgres-icu": ("template0", "LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C.UTF-8'"),
}
"""The templates of databases, and with which options they are made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many conditions, on which database; how many messages there are for each stock."""

    conditions: int
    seed: int = 1
    database: str = "sqlite"
    messages: int = 300


@dataclass(slots=True, kw_only=True)
class Run:
    """What was tried, and what was wrong."""

    problems: list[str] = field(default_factory=list)
    tried: Counter[str] = field(default_factory=Counter)


def endure(plan: Plan) -> Run:
    """Ask all of them; stop at many problems."""
    run, left, number = Run(), plan.conditions, plan.seed
    with _opened(plan.database) as db:
        while left > 0 and len(run.problems) < MOST_PROBLEMS:
            started = time.monotonic()
            some = min(left, OF_ONE_STOCK)
            empty(db)
            _ask(run, db, number, some, plan.messages)
            left -= some
            seconds = time.monotonic() - started
            tell(
                f"{some} conditions, {seconds:.0f} s, stock {number}: {len(run.problems)} problems"
            )
            number += 1
    return run


def _ask(run: Run, db: Database, number: int, conditions: int, messages: int) -> None:
    dice = random.Random(number)  # noqa: S311 - so that a run can be repeated
    stock = fill(db, dice, messages)
    oracle = Oracle(stock=stock, dice=dice, thorough=True)
    refusals, names = Refusals(stock=stock, dice=dice), Names(stock=stock, dice=dice)
    for place in range(conditions):
        oracle.ask()
        if place % EACH == 0:
            refusals.ask()
            names.ask()
    refusals.ask_for_unfit()
    stock.web.close()
    run.problems += [*oracle.problems, *refusals.problems, *names.problems]
    run.tried += oracle.tried + refusals.tried + names.tried


@contextmanager
def _opened(kind: str) -> Iterator[Database]:
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield from _upgraded(sqlite_url(Path(folder)))
        return
    template, options = DATABASES[kind]
    with found(POSTGRES) as server, temporary_postgres(server, template, options) as url:
        yield from _upgraded(url)


def _upgraded(url: str) -> Iterator[Database]:
    db = open_upgraded(url)
    try:
        yield db
    finally:
        db.dispose()


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, run, print what was found; 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.endurance.selections")
    parser.add_argument("--conditions", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", choices=["sqlite", *DATABASES], default="sqlite")
    parser.add_argument("--messages", type=int, default=300, help="of each stock")
    run = endure(Plan(**vars(parser.parse_args(arguments))))
    tell(
        *(f"{count:>7,} {what}" for what, count in sorted(run.tried.items())),
        *(run.problems[:MOST_PROBLEMS] or ["nothing is off"]),
    )
    return 1 if run.problems else 0


if __name__ == "__main__":
    sys.exit(main())

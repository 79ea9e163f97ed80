"""A large SQLite database is copied to PostgreSQL and back, and killed in the middle of both.

`python -m tests.endurance.copying --messages 300000 --kills 3` tells how long each way takes. The
command is the one that a person calls; after each kill nothing may start on the unfinished copy.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from retrier.store.copying import list_tables, measure
from retrier.store.engine.database import Database, bind
from retrier.store.recording import record_received
from retrier.store.verification import verify_store
from tests.endurance.report import tell
from tests.support.databases import open_database, open_upgraded, sqlite_url, temporary_postgres
from tests.support.factories import failure
from tests.support.lived_in import live_in
from tests.support.servers import POSTGRES, found

LARGEST = "processing_attempts"
"""The table in whose middle the command is killed."""
AT_ONCE = 1000
BODY = b'{"order": "%s", "text": "%s"}'
PROGRESS = re.compile(rf"{LARGEST}: ([\d,]+) of ([\d,]+) rows copied")
REFUSED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many messages, with bodies of how many bytes; how often each way is killed."""

    messages: int
    kills: int
    body: int = 1000


@dataclass(slots=True, kw_only=True)
class Way:
    """One way: seconds of each call, the last of which was not killed, and its memory in MiB."""

    name: str
    seconds: list[float] = field(default_factory=list)
    resumed: int = 0
    rows: int = 0
    megabytes: float = 0.0


@dataclass(slots=True, kw_only=True)
class Came:
    """What was seen, and what is wrong."""

    ways: list[Way] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def endure(plan: Plan, server: str, folder: Path) -> Came:
    """Copy there and back; nothing may be lost, changed, or usable before its time."""
    came = Came()
    first, last = sqlite_url(folder), sqlite_url(folder)
    _fill(first, plan)
    with temporary_postgres(server) as middle:
        for name, source, target in (
            ("SQLite to PostgreSQL", first, middle),
            ("PostgreSQL to SQLite", middle, last),
        ):
            way = Way(name=name)
            came.ways.append(way)
            _go(plan, way, source, target, came.problems)
        if not came.problems:
            with _opened(first, middle, last) as databases:
                _compare(databases, came.problems)
    return came


def _fill(url: str, plan: Plan) -> None:
    db = open_upgraded(url)
    live_in(db)
    text = b"x" * plan.body
    for first in range(0, plan.messages, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, plan.messages))
        made = [failure(body=BODY % (b"%d" % number, text)) for number in numbers]
        record_received(db, made, instance="endurance")
    with db.engine.begin() as conn:
        conn.exec_driver_sql("UPDATE processor_lease SET session_id = NULL, expires_at = NULL")
    db.dispose()


def _go(plan: Plan, way: Way, source: str, target: str, problems: list[str]) -> None:
    for kill in range(1, plan.kills + 1):
        begun = monotonic()
        if not _is_killed_at(source, target, kill / (plan.kills + 1)):
            problems.append(f"{way.name}: it had ended before kill {kill}")
        way.seconds.append(monotonic() - begun)
        code = subprocess.run(
            [sys.executable, "-m", "retrier", "verify"],
            env=_environ(target),
            capture_output=True,
            check=False,
        ).returncode
        if code != REFUSED:
            problems.append(f"{way.name}: `verify` of the unfinished copy ended with {code}")
    begun = monotonic()
    with _command(source, target, "--json") as last:
        answer, remarks = last.communicate()
        way.megabytes = _peak_of_children()
    way.seconds.append(monotonic() - begun)
    if last.returncode:
        problems.append(f"{way.name}: it ended with {last.returncode}: {remarks.strip()[-500:]}")
        return
    document = json.loads(answer)
    way.resumed = document["resumed"]
    way.rows = sum(each["rows"] for each in document["tables"])
    if document["began_anew"] or (plan.kills and not way.resumed):
        problems.append(f"{way.name}: it began anew")


def _is_killed_at(source: str, target: str, share: float) -> bool:
    """Call the command, and kill it when it has copied that share of the largest table."""
    with _command(source, target) as doomed:
        assert doomed.stderr is not None  # noqa: S101 - it is a pipe
        for line in doomed.stderr:
            at = PROGRESS.match(line)
            done, total = (int(each.replace(",", "")) for each in at.groups()) if at else (0, 1)
            if done >= share * total:
                doomed.kill()
                return True
    return False


@contextmanager
def _command(source: str, target: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    call = [sys.executable, "-m", "retrier", "db", "copy", *options]
    environ = {**_environ(source), "RETRIER_COPY_TO": target}
    pipe = subprocess.PIPE
    with subprocess.Popen(call, env=environ, stdout=pipe, stderr=pipe, text=True) as process:  # noqa: S603 - our own command
        yield process


def _environ(url: str) -> dict[str, str]:
    return {**os.environ, "RETRIER_DATABASE__URL": url}


def _peak_of_children() -> float:
    import resource  # noqa: PLC0415 - not on every system

    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


@contextmanager
def _opened(*urls: str) -> Iterator[list[Database]]:
    databases = [open_database(url) for url in urls]
    yield databases
    for db in databases:
        db.dispose()


def _compare(databases: Sequence[Database], problems: list[str]) -> None:
    for table in list_tables():
        extents = [db.read(bind(measure, table)) for db in databases]
        if not all(each.is_same(extents[0]) for each in extents):
            problems.append(f"{table.name}: {[each.rows for each in extents]} rows, or other ones")
    for db in databases:
        broken = [rule.rule for rule in verify_store(db).rules if rule.broken]
        problems.extend(f"{db.place}: {rule}" for rule in broken)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it as a command; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=300_000)
    parser.add_argument("--kills", type=int, default=3, help="on each way")
    parser.add_argument("--body", type=int, default=1000, help="bytes of a body, about")
    plan = Plan(**vars(parser.parse_args(arguments)))
    with found(POSTGRES) as server, TemporaryDirectory() as folder:
        came = endure(plan, server, Path(folder))
    for way in came.ways:
        parts = " + ".join(f"{seconds:.0f}" for seconds in way.seconds)
        tell(
            f"{way.name}: {way.rows:,} rows in {sum(way.seconds):.0f} s ({parts}), "
            f"{way.resumed:,} of them before the last kill, {way.megabytes:.0f} MiB at most"
        )
    tell(*came.problems, "nothing is off" if not came.problems else "something is off")
    return 1 if came.problems else 0


if __name__ == "__main__":
    sys.exit(main())

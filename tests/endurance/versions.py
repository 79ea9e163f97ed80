"""The version before beside this one, on one database, while processes of both are killed.

`python -m tests.endurance.versions --messages 2000 --kills 20 [--newer]`

The version before is taken out of the history: it is the last commit with another version. With
`--newer` this version has a revision of the database more than it really has, so that its first
process upgrades the tables under the processes of the version before.
"""

import argparse
import random
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from shutil import copytree, ignore_patterns
from tempfile import TemporaryDirectory
from time import monotonic
from zipfile import ZipFile

import httpx
import yaml

from tests.endurance.account import Account, Kill
from tests.endurance.grounds import at_work, kill_all, opened_grounds
from tests.endurance.kills import (
    ALIVE,
    ASK_EVERY,
    MOST_ALIVE,
    STORED,
    STUCK,
    Plan,
    Run,
    make_run,
)
from tests.endurance.report import report, tell
from tests.support.project import ROOT
from tests.support.revisions import newest_revision
from tests.support.servers import POSTGRES, RABBITMQ, found
from tests.support.service import Host, Service
from tests.support.waiting import let_pass, wait_until

PACKAGE = "retrier"
VERSIONS = Path(PACKAGE, "store", "schema", "migrations", "versions")
LONGEST_LIFE = 15.0
"""Seconds after which a process is killed that has not got as far as the dice wanted."""
LOOK_EVERY = 0.01
ONCE_SO_OFTEN = 3
"""One kill out of so many strikes a process that does not hold the lease."""
IN_A_WINDOW = 0.7
"""Share of the kills that wait for a moment at which a window is being sent."""
BEGINS = {"processor.lease_acquired", "processor.waiting_for_lease"}
LEADER = "SELECT pid FROM processor_lease WHERE session_id IS NOT NULL"
# Of one process only: what another one is sending meanwhile is not in doubt by this.
DOUBT = """
    SELECT CAST(c.retry_id AS text) FROM processor_lease l CROSS JOIN failed_message_retries c
    WHERE c.sending_since IS NOT NULL AND c.forwarded_at IS NULL
"""
TOLD = """
    SELECT coalesce(sum(CAST(CAST(details AS jsonb) ->> 'count' AS integer)), 0)
    FROM event_log WHERE kind = 'sent_again'
"""
ONE_MORE = '''"""One column more, of which the version before has never heard."""

import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = "{before}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add it: what the version before writes has no value there."""
    op.add_column("failed_messages", sa.Column("one_more", sa.Integer(), nullable=True))
'''


class NoHistory(LookupError):
    """The version before is not here: this is no clone, or one without its history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollOut(Plan):
    """What to do to both. `newer`: this version upgrades the database under the other one."""

    newer: bool = False


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The account, and which version was killed how often; `told` are doubts in the event log."""

    account: Account
    killed: Mapping[str, int]
    told: int

    @property
    def violations(self) -> list[str]:
        """Say which promises are broken."""
        untold = self.account.duplicates > self.told
        return [
            *self.account.violations,
            *([f"{self.account.duplicates} came twice, and {self.told} were told"] * untold),
        ]


class VersionedHost(Host):
    """Starts processes of the version whose folder is set."""

    folder = ROOT

    def _launch(
        self, environ: Mapping[str, str], roles: tuple[str, ...], within: Sequence[str]
    ) -> Service:
        """Make the process. `python -m` takes the package of the folder before any other one."""
        return Service(self.config, environ, roles, self.folder, within)


def take_version_before(folder: Path) -> Path:
    """Put the package of the version before into the folder. Raises NoHistory."""
    changed = _git("log", "-1", "--format=%H", "-G^__version__", "--", f"{PACKAGE}/__init__.py")
    archive = _git("archive", "--format=zip", f"{changed.decode().strip()}^", PACKAGE)
    with ZipFile(BytesIO(archive)) as packed:
        packed.extractall(folder)
    return folder


def take_this_version(folder: Path, *, newer: bool) -> Path:
    """Copy the package as it is now, or with one revision more than it has."""
    copytree(ROOT / PACKAGE, folder / PACKAGE, ignore=ignore_patterns("__pycache__"))
    if newer:
        before = newest_revision()
        revision = str(int(before) + 1)
        text = ONE_MORE.format(revision=revision, before=before)
        (folder / VERSIONS / f"{revision}_one_more.py").write_text(text)
    return folder


def _git(*words: str) -> bytes:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=False)  # noqa: S603, S607 - ourselves
    if done.returncode or not done.stdout:
        raise NoHistory(f"git {words[0]}: {done.stderr.decode().strip() or 'finds nothing'}")
    return done.stdout


@dataclass(slots=True, kw_only=True)
class Mixed:
    """Processes of both versions on their way. `alive` has the folder of each."""

    run: Run
    host: VersionedHost
    newer: bool
    before: Path
    now: Path
    alive: dict[Service, Path] = field(default_factory=dict)
    killed: dict[Path, int] = field(default_factory=dict)

    def roll_out(self, kills: int) -> None:
        """Run two of the version before, then one of each, then two of this one; kill in each."""
        few = kills // 4
        self._start(self.before).wait_ready(STUCK)
        self._start(self.before)
        self._kill_often(few, [self.before])
        self._replace_one()
        # Who is killed behind an upgrade comes back and does nothing, so that comes last.
        both = [self.before, self.now]
        self._kill_often(kills - 2 * few - 1, [self.now] if self.newer else both)
        self._kill_often(1, [self.before])
        self._replace_one()
        self._kill_often(few, [self.now])
        for service in list(self.alive):
            self._stop(service)

    def _replace_one(self) -> None:
        """Stop one process of the version before, and start one of this version."""
        self._stop(next(each for each, folder in self.alive.items() if folder == self.before))
        epoch = self.run.grounds.count("SELECT epoch FROM processor_lease")
        service = self._start(self.now)
        began = monotonic()
        ended: set[str] = set()
        # An upgrade ends the lease in the middle of a window: that is in doubt then, as by a kill.
        while BEGINS.isdisjoint(service.names()):
            ended |= self._doubt(f"l.session_id IS NULL AND l.epoch > {epoch}")
            if monotonic() - began > STUCK:
                raise TimeoutError("this version does not begin to work")
            let_pass(LOOK_EVERY)
        service.wait_ready(STUCK)
        self._note(began, ended)

    def _kill_often(self, kills: int, versions: Sequence[Path]) -> None:
        for _ in range(kills):
            began = monotonic()
            self._let_work(began)
            self._kill_one(versions, began)

    def _kill_one(self, versions: Sequence[Path], began: float) -> None:
        """Kill one of these versions, mostly the one that sends, and start the same again."""
        grounds = self.run.grounds
        chosen = [each for each, folder in self.alive.items() if folder in versions]
        leader = {row[0] for row in grounds.query(LEADER)}
        if grounds.dice.randrange(ONCE_SO_OFTEN):
            chosen = [each for each in chosen if each.pid in leader] or chosen
        service = grounds.dice.choice(chosen)
        folder = self.alive.pop(service)
        # It stands still while we look: else it would go on between the look and the kill.
        service.process.send_signal(signal.SIGSTOP)
        doubt = self._doubt(f"l.pid = {service.pid}")
        service.kill()
        # What its last transaction did may be seen only now.
        doubt |= self._doubt(f"l.pid = {service.pid}")
        self.killed[folder] = self.killed.get(folder, 0) + 1
        self._note(began, doubt)
        self._start(folder)

    def _note(self, began: float, doubt: set[str]) -> None:
        kills = self.run.kills
        kills.append(
            Kill(
                number=len(kills) + 1,
                after=monotonic() - began,
                in_doubt=frozenset(doubt),
                stored=self.run.grounds.count(STORED),
            )
        )

    def _let_work(self, began: float) -> None:
        """Let them work until some more has come back, and ask any of them all the time."""
        grounds, asks = self.run.grounds, self.run.asks()
        wanted = self.run.came + grounds.dice.randint(0, 2 * self.run.share())
        while self.run.came < wanted and monotonic() - began < LONGEST_LIFE:
            answering = [each for each in self.alive if each.find("api.listening")]
            if answering and grounds.count(ALIVE) < MOST_ALIVE:
                with suppress(httpx.HTTPError), grounds.dice.choice(answering).http as http:
                    grounds.dice.choice(asks)(http)
            with suppress(AssertionError):
                wait_until(lambda: self.run.came >= wanted, ASK_EVERY)
        if grounds.dice.random() < IN_A_WINDOW:
            # If nothing is being sent, the kill falls where it falls.
            with suppress(AssertionError):
                wait_until(lambda: self._doubt("TRUE"), ASK_EVERY)

    def _doubt(self, which: str) -> set[str]:
        return {row[0] for row in self.run.grounds.query(f"{DOUBT} AND {which}")}

    def _start(self, folder: Path) -> Service:
        self.host.folder = folder
        service = self.host.start()
        self.alive[service] = folder
        return service

    def _stop(self, service: Service) -> None:
        """Stop a process as an operator would; one that has only begun to start is waited for."""
        del self.alive[service]
        wait_until(lambda: service.find("api.listening"), STUCK, "it listens")
        if service.stop() != 0:
            raise RuntimeError("it was told to stop, and did not end well")


def endure(plan: RollOut, amqp_url: str, postgres_url: str) -> Outcome:
    """Carry out the plan to its end and count. Raises NoHistory."""
    began = monotonic()
    settings = {"retries": {"forwarding_window": plan.window}}
    servers = (amqp_url, postgres_url)
    with TemporaryDirectory(prefix="retrier-versions-") as place:
        before = take_version_before(Path(place, "before"))
        now = take_this_version(Path(place, "now"), newer=plan.newer)
        with ExitStack() as stack:
            grounds = stack.enter_context(
                opened_grounds("versions", servers, plan.seed, settings, plan.broker, empty=True)
            )
            host = VersionedHost(Path(place), yaml.safe_load(grounds.host.config.read_text()))
            stack.callback(kill_all, host)
            grounds.host = host
            run = make_run(plan, grounds)
            mixed = Mixed(run=run, host=host, newer=plan.newer, before=before, now=now)
            with at_work(run.producer, run.consumer):
                mixed.roll_out(plan.kills)
                run.finish()
                account = run.count_up(monotonic() - began, now)
            return Outcome(
                account=account,
                killed={each.name: number for each, number in mixed.killed.items()},
                told=grounds.count(TOLD),
            )


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, endure, print what was found; 1 if a promise is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.endurance.versions", description=__doc__)
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--newer", action="store_true", help="with an upgrade of the database")
    parser.add_argument("--broker", choices=["classic", "quorum"], default="quorum")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))  # noqa: S311 - no secret
    parser.add_argument("--window", type=int, default=200)
    plan = RollOut(**vars(parser.parse_args(arguments)))
    tell(f"seed {plan.seed}: the same dice again with --seed {plan.seed}")
    with found(RABBITMQ) as amqp_url, found(POSTGRES) as postgres_url:
        outcome = endure(plan, amqp_url, postgres_url)
    tell(*report(outcome.account), f"killed {outcome.killed}, told {outcome.told}")
    tell(*outcome.violations)
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main())

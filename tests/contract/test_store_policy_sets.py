"""By which policies each process judges, as it tells the database."""

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, update

from retrier.app.policies import PolicyFile, PolicySource
from retrier.app.policy_report import PolicyReport, Process
from retrier.errors import DatabaseUnavailable
from retrier.store.engine.database import Database, DatabaseOptions
from retrier.store.figures import read_figures
from retrier.store.lease import Holder
from retrier.store.policies import SILENT, list_judging_processes
from retrier.store.schema import event_log, policy_sets
from tests.support.frozen_clock import FrozenClock

OUTBOX = "policies: {rules: [{name: one, match: {}, preset: outbox}]}\n"
WRONG = "policies: {default: retry, per_second: 0}\n"
ONE, TWO = (f"5e551011-0000-4000-8000-00000000000{number}" for number in (1, 2))


class Judge:
    """A process with a file of policies."""

    def __init__(self, db: Database, path: Path, text: str, session_id: str = ONE) -> None:
        self.path = path
        self.clock = FrozenClock()
        self.source = PolicySource(file=PolicyFile(path=path), clock=self.clock)
        holder = Holder(session_id=session_id, host="host", pid=7, process_started="then")
        process = Process(holder=holder, instance="retrier")
        self.report = PolicyReport(db, self.source, self.clock, process)
        self.write(text)

    def write(self, text: str) -> None:
        """Write the file, and look until it has settled."""
        self.path.write_text(text)
        self.report()
        self.report()
        self.report()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "retrier.yaml"


def hashes(db: Database) -> list[str]:
    return [each.set_hash for each in list_judging_processes(db)]


def pass_by(db: Database, time: timedelta) -> None:
    """Let all processes have told that long ago what they told last."""
    with db.engine.begin() as conn:
        (seen,) = conn.execute(select(policy_sets.c.seen_at)).scalars()
        conn.execute(update(policy_sets).values(seen_at=seen - time))


def entries(db: Database) -> list[dict[str, object]]:
    with db.engine.connect() as conn:
        return [dict(row) for row in conn.execute(select(event_log)).mappings()]


def test_a_process_tells_by_which_set_it_judges(database: Database, path: Path) -> None:
    judge = Judge(database, path, OUTBOX)

    (told,) = list_judging_processes(database)

    assert told.set_hash == judge.source.current().hash
    assert (told.session_id, told.instance, told.host, told.pid) == (ONE, "retrier", "host", 7)
    assert told.file_time == judge.source.in_force.file_time
    assert told.problems == ()


def test_without_policies_nothing_is_told(database: Database, path: Path) -> None:
    Judge(database, path, "instance: retrier\n")

    assert list_judging_processes(database) == ()


def test_a_process_that_does_not_judge_tells_nothing(database: Database, path: Path) -> None:
    path.write_text(OUTBOX)
    source = PolicySource(file=PolicyFile(path=path))
    report = PolicyReport(database, source, FrozenClock(), None)

    report()
    report()

    assert source.in_force.is_configured
    assert list_judging_processes(database) == ()


def test_it_is_told_again_every_half_minute(database: Database, path: Path) -> None:
    judge = Judge(database, path, OUTBOX)
    pass_by(database, timedelta(seconds=80))
    judge.clock.advance(29)
    judge.report()
    assert len(hashes(database)) == 1

    pass_by(database, timedelta(seconds=15))
    judge.report()
    assert hashes(database) == []

    judge.clock.advance(1)
    judge.report()
    assert len(hashes(database)) == 1


def test_a_change_is_told_at_once(database: Database, path: Path) -> None:
    judge = Judge(database, path, OUTBOX)
    (before,) = hashes(database)

    judge.write(OUTBOX.replace("outbox", "gateway"))

    assert hashes(database) == [judge.source.current().hash]
    assert hashes(database) != [before]


def test_a_process_whose_section_is_gone_keeps_its_set_and_says_so(
    database: Database, path: Path
) -> None:
    judge = Judge(database, path, OUTBOX)
    before = hashes(database)

    judge.write("instance: retrier\n")

    (process,) = list_judging_processes(database)
    assert hashes(database) == before
    assert "write policies: {}" in process.problems[0]


def test_a_process_that_has_ended_is_forgotten_by_another(database: Database, path: Path) -> None:
    Judge(database, path, OUTBOX)
    pass_by(database, SILENT + timedelta(seconds=1))

    Judge(database, path, OUTBOX, TWO)

    with database.engine.connect() as conn:
        assert list(conn.execute(select(policy_sets.c.session_id)).scalars()) == [TWO]


def test_different_sets_are_counted(database: Database, path: Path) -> None:
    assert read_figures(database).policy_sets == 0

    Judge(database, path, OUTBOX)
    assert read_figures(database).policy_sets == 1

    Judge(database, path.with_name("other.yaml"), OUTBOX.replace("outbox", "gateway"), TWO)
    assert read_figures(database).policy_sets == 2


def test_a_wrong_file_makes_one_entry_with_all_problems(database: Database, path: Path) -> None:
    judge = Judge(database, path, OUTBOX)

    judge.write(WRONG)
    judge.clock.advance(31)
    judge.report()

    (entry,) = entries(database)
    assert entry["kind"] == "policies_wrong"
    assert all(problem in str(entry["text"]) for problem in judge.source.in_force.problems)
    (told,) = list_judging_processes(database)
    assert told.problems == judge.source.in_force.problems
    assert len(told.problems) == 2


def test_without_a_database_the_policies_change_all_the_same(path: Path) -> None:
    nowhere = Database(DatabaseOptions(url=f"sqlite:///{path.parent}/gone/retrier.db"))
    path.write_text(OUTBOX)
    source = PolicySource(file=PolicyFile(path=path))
    holder = Holder(session_id=ONE, host="host", pid=7, process_started="then")
    process = Process(holder=holder, instance="retrier")
    report = PolicyReport(nowhere, source, FrozenClock(), process)
    report()

    with pytest.raises(DatabaseUnavailable):
        report()

    assert [rule.name for rule in source.current().definition.rules] == ["one"]
    nowhere.dispose()

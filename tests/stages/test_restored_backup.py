"""A backup that was made while a batch was sent is restored: what failed again since is found.

A backup is a copy of the SQLite file; what follows from it is the same on both databases.
"""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from retrier.store.engine.database import Database
from retrier.store.pending import find_presumable, presume
from retrier.store.verification import verify_store
from tests.support.api import Api
from tests.support.bench import Bench
from tests.support.breaking import Breakdown
from tests.support.databases import open_database, open_upgraded, path_of, sqlite_url

AT_ONCE = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A bench on a restored backup, whose first two retries were sent before it was made.

    Since then the first one was confirmed, and the second one failed again.
    """

    bench: Bench
    made_at: datetime
    confirmed: str
    failed_again: str


@pytest.fixture
def restored(tmp_path: Path) -> Iterator[Restored]:
    url, backup = sqlite_url(tmp_path), sqlite_url(tmp_path)
    lost = open_upgraded(url)
    times: list[datetime] = []
    before = Breakdown(lost, window=2)
    before.fail(6)
    before.ask_all()
    before.at("forwarding.stamped", lambda: times.append(back_up(lost, path_of(backup))), time=2)
    before.work()
    confirmed, failed_again, *_ = before.sent()
    before.confirm(confirmed)
    before.come_back([failed_again])
    assert before.message(failed_again)["attempts"] == 2
    lost.dispose()
    db = open_database(backup)
    yield Restored(
        bench=Bench(db, transport=before.transport, window=2),
        made_at=times[0],
        confirmed=confirmed,
        failed_again=failed_again,
    )
    db.dispose()


def back_up(db: Database, copy: Path) -> datetime:
    """Make a backup as the documentation says; return when."""
    made_at = db.read(lambda tx: tx.now)
    with sqlite3.connect(db.place) as conn:
        conn.execute("VACUUM INTO ?", (str(copy),))
    conn.close()
    return made_at


def begin(restored: Restored) -> Api:
    api = Api(restored.bench.db)
    answer = api.http.post("/api/recovery", json={"since": restored.made_at.isoformat()})
    assert answer.status_code == 200
    return api


def test_what_failed_again_looks_as_if_it_waited_for_its_outcome(restored: Restored) -> None:
    bench = restored.bench
    bench.work()

    bench.ask_all()
    bench.work()

    assert bench.message(restored.failed_again)["status"] == "retry_issued"
    found = find_presumable(bench.db, AT_ONCE, 0)
    assert bench.message(restored.failed_again)["number"] in found


def test_a_recovery_sends_again_what_failed_again(restored: Restored) -> None:
    bench = restored.bench
    api = begin(restored)
    (shown,) = api.get("recovery")["queues"]
    assert shown["sent"] == 2
    bench.work()
    before = len(bench.sent())

    assert api.http.post("/api/recovery/retry", json={}).json()["total"] == 2

    bench.work()
    assert set(bench.sent()[before:]) == {restored.confirmed, restored.failed_again}
    assert [rule.rule for rule in verify_store(bench.db).rules if rule.broken] == []


def test_a_recovery_lets_nothing_be_presumed_that_a_processor_sends_meanwhile(
    restored: Restored,
) -> None:
    bench = restored.bench
    begin(restored)
    bench.work()

    numbers = [bench.message(key)["number"] for key in bench.statuses()]

    assert presume(bench.db, bench.context.lease.fence, AT_ONCE, numbers) == 0
    assert set(bench.statuses().values()) == {"retry_issued"}

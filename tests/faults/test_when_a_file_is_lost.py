"""The file of the SQLite database is read-only, moved away or deleted while there is work."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.faults.beginning import begin_work
from tests.faults.conftest import Begin, Roads, open_site
from tests.faults.work import Work, check
from tests.journeys.conftest import Site
from tests.support.databases import path_of, sqlite_url
from tests.support.private_servers import PrivateRabbitMQ
from tests.support.waiting import let_pass, wait_until

pytestmark = [pytest.mark.faults, pytest.mark.rabbitmq]

GONE = 6
READ_ONLY = 6
FAILURES = 20
NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder that every user may look into."""
    with TemporaryDirectory(prefix="retrier-sqlite-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture
def data(folder: Path) -> Path:
    """Give the folder of the database, which may be another user's."""
    made = folder / "data"
    made.mkdir()
    return made


@pytest.fixture
def site(broker: PrivateRabbitMQ, folder: Path, data: Path) -> Iterator[Site]:
    """Give a site on SQLite."""
    with open_site(Roads(broker.url, sqlite_url(data)), folder) as site:
        yield site


def another_user(data: Path) -> Sequence[str]:
    """Return what makes a process heed a file's mode, which root does not; the data is its own."""
    if os.geteuid() != 0:
        return ()
    for each in (data, *data.iterdir()):
        shutil.chown(each, NOBODY, NOBODY)
    return AS_NOBODY


@contextmanager
def read_only(data: Path) -> Iterator[None]:
    """Let no file of the database be written to for a while."""
    for each in data.iterdir():
        each.chmod(0o444)
    yield
    for each in data.iterdir():
        each.chmod(0o644)


@contextmanager
def moved_away(site: Site, folder: Path) -> Iterator[None]:
    """Let the file be somewhere else for a while."""
    path, elsewhere = path_of(site.database_url), folder / "elsewhere.db"
    path.rename(elsewhere)
    yield
    elsewhere.rename(path)


def reason(work: Work) -> str:
    """Return why it is not ready."""
    with work.service.http as http:
        answer = http.get("/health/ready")
        assert answer.status_code == 503
        return str(answer.json()["parts"]["database"]["reason"])


def test_a_database_that_is_moved_away_and_back_is_waited_for(
    site: Site, begin: Begin, folder: Path
) -> None:
    work = begin(site)
    work.wait_for("forwarding")

    with work.fault(), moved_away(site, folder):
        let_pass(GONE)
        assert "deleted, moved or replaced" in reason(work)

    work.must_finish()
    check(work, in_doubt=0)


def test_a_database_that_is_read_only_at_the_start_is_waited_for(
    site: Site, broker: PrivateRabbitMQ, data: Path
) -> None:
    # Given a service that was stopped in the middle of its work
    work = begin_work(site, broker.url, "read-only at the start")
    work.wait_for("forwarding")
    work.service.stop()
    command = another_user(data)

    # When it starts while its file is read-only
    with read_only(data):
        work.go_on_with(site.host.start(within=command))
        wait_until(lambda: work.service.find("database.unreachable"), READ_ONLY * 5, "it waits")
        let_pass(READ_ONLY)
        assert "readonly database" in reason(work)

    # Then it works when the file may be written to
    work.begin_now()
    work.must_finish()


def test_what_fails_while_the_database_is_deleted_stays_on_the_error_queue(site: Site) -> None:
    service = site.host.start_ready()
    path = path_of(site.database_url)
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()

    site.shop.fail(FAILURES)
    wait_until(lambda: service.find("ingestion.paused"), 30, "it lets go of the queue")

    # Nothing is acknowledged, and a restart takes all of them
    wait_until(lambda: site.shop.depth(site.shop.error) == FAILURES, 30, "all are there")
    assert not path.exists()
    service.stop()
    site.host.start_ready()
    wait_until(lambda: site.count("SELECT count(*) FROM failed_messages") == FAILURES, 60)

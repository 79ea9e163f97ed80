"""PgBouncer with its default settings stands before PostgreSQL."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from sqlalchemy import event, make_url, text

from retrier.app.check import check
from retrier.errors import DatabaseRefused
from retrier.settings import load_settings
from retrier.store.engine.database import Database
from retrier.store.upgrade import find_revision
from tests.journeys.conftest import Site
from tests.support.databases import open_database
from tests.support.pooler import pooler
from tests.support.servers import psycopg_url
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.rabbitmq, pytest.mark.postgres]

COUNT = 30
MODES = ("session", "transaction")
Pooled = Callable[[str], str]


@pytest.fixture
def kind() -> str:
    """One type of queue is enough here."""
    return "quorum"


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    """Name the mode in which it pools."""
    return str(request.param)


@pytest.fixture
def pooled(postgres_url: str, mode: str) -> Iterator[Pooled]:
    """Give what leads a URL through the pooler."""
    with pooler(postgres_url, mode) as port:
        yield lambda url: _through(url, port)


def _through(url: str, port: int) -> str:
    leading = make_url(url).set(host="127.0.0.1", port=port)
    return leading.render_as_string(hide_password=False)


def run_check(url: str) -> tuple[bool, bool, str]:
    environ = {"RETRIER_DATABASE__URL": url, "RETRIER_BROKER__URL": "embedded:///none.db"}
    (found,) = [each for each in check(load_settings(None, environ)) if each.name == "database"]
    return found.ok, found.out_of_reach, found.text


def test_a_retry_goes_its_whole_way(site: Site, pooled: Pooled, mode: str) -> None:
    site.shop.fail(COUNT)
    site.host.configure("database", url=pooled(site.database_url))
    worker = site.host.start_ready("ingestion", "processor")
    api = site.host.start_ready("api")
    with api.http as http:
        wait_until(lambda: http.get("/api/errors").headers["Total-Count"] == str(COUNT), 60)

        http.post("/api/errors/retry/all").raise_for_status()

        wait_until(lambda: site.shop.depth(site.shop.orders) == COUNT, 30, "all are sent")
        site.host.configure("database", url=site.database_url)
    missing = "database.notifications_missing"
    wait_until(lambda: mode == "session" or worker.find(missing), 30, "it is said")
    assert bool(worker.find(missing)) is (mode == "transaction")


def test_check_says_what_is_not_in_force(site: Site, pooled: Pooled, mode: str) -> None:
    ok, _, told = run_check(pooled(site.database_url))

    assert ok, told
    assert "behind a pooler, where these are not in force: tcp_keepalives_count = 3" in told
    assert "statement_timeout" not in told
    assert ("its notifications do not arrive" in told) is (mode == "transaction")


@contextmanager
def opened(url: str) -> Iterator[Database]:
    db = open_database(url)
    try:
        yield db
    finally:
        db.dispose()


def test_a_transaction_says_what_it_needs_with_its_begin(site: Site, pooled: Pooled) -> None:
    statements: list[str] = []
    shown = text("SELECT current_setting('statement_timeout'), current_setting('row_security')")
    with opened(pooled(site.database_url)) as db:
        event.listen(db.engine, "before_cursor_execute", lambda *it: statements.append(it[2]))

        found = db.transact(lambda tx: tx.execute(shown).one())

    assert tuple(found) == ("7500ms", "off")
    *_, begin, last = statements
    assert begin.startswith("BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE; SET LOCAL ")
    assert last == str(shown)


def test_others_who_get_the_session_afterwards_find_nothing_of_it(
    site: Site, pooled: Pooled
) -> None:
    with opened(pooled(site.database_url)) as db:
        db.transact(lambda tx: tx.execute(text("SELECT 1")))

        with psycopg.connect(psycopg_url(pooled(site.database_url))) as other:
            found = other.execute("SHOW statement_timeout").fetchone()

    assert found == ("0",)


def test_a_database_with_other_dates_is_read(site: Site, pooled: Pooled) -> None:
    name = make_url(site.database_url).database
    with psycopg.connect(psycopg_url(site.database_url), autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE \"{name}\" SET datestyle = 'SQL, DMY'")

    with opened(pooled(site.database_url)) as db:
        for _ in range(7):  # the driver would have prepared it by then
            assert db.read(lambda tx: tx.now).tzinfo is not None


def test_one_that_pools_by_statement_is_refused_by_check_and_run_in_the_same_words(
    site: Site, postgres_url: str
) -> None:
    with pooler(postgres_url, "statement") as port:
        url = _through(site.database_url, port)
        ok, out_of_reach, told = run_check(url)
        with opened(url) as db, pytest.raises(DatabaseRefused) as raised:
            find_revision(db)

    assert (ok, out_of_reach, told) == (False, False, str(raised.value))
    assert "pools by statement, and Retrier needs transactions" in told
